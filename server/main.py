"""Wire the server, and run it: the only place where its parts are named together (besides scenarios and tests)."""

import contextlib
import errno
import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError

from app.domain.lifecycle import InvalidLifecycle
from server import logs
from server.background import Background
from server.code_key import CodeKeyDiffers, CodeKeyMissing
from server.db.errors import DatabaseTrouble
from server.exits import ExitCode, PortInUse, exit_code, in_words
from server.http.access_log import AccessLog
from server.http.app import create_app
from server.jobs.issuing import Issuer
from server.opening import HEADQUARTERS_KEY_FILE, open_services
from server.private_file import write_private
from server.provision import ChainPlan, provision
from server.services.admission.admission import with_admission
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from server.stock.opening import check_url, open_door
from server.tls import server_context, server_names, with_authority
from server.workers import run_workers
from sync.trust import is_loopback

SHUTDOWN_S = 10
SWITCH_S = 0.0005
"""How long a thread may run on while another one wants to: Python's own 5 ms, twenty times a batch, is a tenth of a
second in which nobody gets an answer."""

GARBAGE_AFTER = 50_000
"""Objects that outlive their maker before Python looks for cycles among them, and not among those of the start at all:
after its own 700, which are a few claims, it looks so often that a claim takes a fifth longer."""


_PLAIN = (
    "plain HTTP is for this machine alone, and {} is not: leave PAWTILL_TLS on, or listen on 127.0.0.1 behind a proxy "
    "that speaks TLS / 明文 HTTP 只能用于本机：请保持 PAWTILL_TLS 开启，或只监听 127.0.0.1 并在前面放置 TLS 代理"
)

_KNOWN = (PortInUse, DatabaseTrouble, SQLAlchemyError, CodeKeyDiffers, CodeKeyMissing, InvalidLifecycle)
"""What keeps a server from starting, besides wrong settings and files that cannot be used."""


def serve(settings: Settings, *, announce: Callable[[str], None] | None = None) -> int:
    """Run the server until it is told to stop, and return the exit code; what keeps it from starting goes to stderr.

    `announce` gets the URL once the port is bound, by default as a line on stdout. The first run makes an empty chain
    and writes headquarters' key into the data folder.
    """
    logs.configure(settings.log_level)
    try:
        if settings.workers > 1 and isinstance(settings.database, Path):
            raise ValueError("SQLite has one writer, so there is one server process: set workers to 1")
        if not settings.tls and not is_loopback(settings.host):
            raise ValueError(_PLAIN.format(settings.host))
        check_url(settings.redis_url.get_secret_value())
        _run(settings, announce or _print)
    except KeyboardInterrupt:
        return ExitCode.OK
    except (*_KNOWN, ValueError, OSError) as error:
        return _stop(error)
    return ExitCode.OK


def _stop(error: Exception) -> int:
    sys.stderr.writelines(f"pawtill server: {line}\n" for line in in_words(error))
    return exit_code(error)


def _run(settings: Settings, announce: Callable[[str], None]) -> None:
    services = _open(settings)
    try:
        if settings.workers > 1:
            services.database.close()
        with _listen(settings.host, settings.port) as listener:
            announce(_url(listener, "https" if settings.tls else "http"))
            if settings.workers > 1:
                run_workers(settings.workers, _work, settings, listener)
            else:
                _answer(services, settings, listener)
    finally:
        services.database.close()


def _open(settings: Settings) -> Services:
    """Open the data, and make the chain and headquarters' key on the first run."""
    folder = settings.folder
    services = open_services(settings.database, folder=folder, clock=SystemClock(), ids=SystemIds())
    key_file = folder / HEADQUARTERS_KEY_FILE
    try:
        provision(services, ChainPlan(), keep=lambda token: write_private(key_file, f"{token}\n".encode()))
        return with_authority(services, settings)
    except BaseException:
        services.database.close()
        raise


def _work(settings: Settings, listener: socket.socket) -> None:
    """Be one of several processes on the socket; what keeps it from starting is told as `serve` tells it."""
    logs.configure(settings.log_level)
    try:
        services = _open(settings)
    except (*_KNOWN, OSError) as error:
        sys.exit(_stop(error))
    try:
        _answer(services, settings, listener)
    finally:
        services.database.close()


def _answer(services: Services, settings: Settings, listener: socket.socket) -> None:
    door = open_door(settings.redis_url.get_secret_value(), settings.folder, prefix=settings.redis_prefix)
    services = with_admission(services, door)
    assert services.admission is not None, "it was just given one"
    try:
        services.admission.begin()
        _serve(services, settings, listener)
    finally:
        services.admission.close()


def _serve(services: Services, settings: Settings, listener: socket.socket) -> None:
    background = Background(services, settings)
    app = create_app(services, lifespan=_lifespan(services, background), running=background.running)
    app.add_middleware(AccessLog)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=SHUTDOWN_S
    )
    if settings.tls:
        names = server_names(settings.host, settings.tls_names)
        context = server_context(services.chain_key, settings.folder, names=names, now=services.clock.now())
        config.ssl_context_factory = lambda _config, _default: context
    _suit_interpreter()
    uvicorn.Server(config).run(sockets=[listener])


def _suit_interpreter() -> None:
    """Set the interpreter up for a flood of short requests."""
    # The writer waits for its database twenty times a batch, and each time for the loop to give way.
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)


def _lifespan(
    services: Services, background: Background
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        issuer = Issuer(services)
        background.start()
        issuer.start()
        try:
            yield
        finally:
            # Here and not behind `run`: uvicorn raises the signal anew when it is done, and SIGTERM ends us there.
            issuer.stop()
            background.stop()
            if services.admission is not None:
                await services.admission.aclose()
                services.admission.close()
            services.database.close()

    return running


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything is served, so that a port in use is one clear sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, getattr(errno, "WSAEADDRINUSE", -1), getattr(errno, "WSAEACCES", -1)):
            raise PortInUse(f"port {port} of {host} is in use by another program") from error
        raise


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _print(url: str) -> None:
    sys.stdout.write(f"pawtill server on {url}\n")
    sys.stdout.flush()
