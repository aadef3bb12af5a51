"""TLS between real sockets on 127.0.0.1, with authorities of the tests' own: who is believed, what is never said."""

from __future__ import annotations

import http.server
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.services.ports import Offline
from server.chain_key import ChainKey
from server.main import ExitCode, serve
from server.opening import open_services
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from server.tls import make_authority, server_context, server_names
from sync.client import ServerClient
from sync.trust import is_loopback, may_be_plain, pinned, unknown_yet

OURS, THEIRS = ChainKey(b"a" * 32), ChainKey(b"b" * 32)
NAMES = server_names("127.0.0.1", "hq.example.com")


class _Health(http.server.BaseHTTPRequestHandler):
    heard: list[str]

    def do_GET(self) -> None:
        self.heard.append(self.path)
        body = b'{"outcome": "ok"}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _server(context: ssl.SSLContext | None) -> Iterator[tuple[str, list[str]]]:
    """Answer on 127.0.0.1; yield the address and what was asked."""
    heard: list[str] = []
    handler = type("Handler", (_Health,), {"heard": heard})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign,assignment]
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        scheme = "http" if context is None else "https"
        try:
            yield f"{scheme}://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()


def _context(chain: ChainKey, folder: Path, *, at: datetime | None = None) -> ssl.SSLContext:
    return server_context(chain, folder, names=NAMES, now=at or datetime.now(UTC))


def _ask(url: str, trust: ssl.SSLContext | None) -> None:
    with ServerClient(url, None, trust=trust, answer_timeout_s=30, connect_timeout_s=30) as client:
        client.get("/health")


def test_a_till_believes_the_server_of_its_chain_by_tls_1_3(tmp_path: Path) -> None:
    with _server(_context(OURS, tmp_path)) as (url, heard):
        _ask(url, pinned(make_authority(OURS)))
        port = int(url.rsplit(":", 1)[1])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            pinned(make_authority(OURS)).wrap_socket(plain) as secure,
        ):
            assert secure.version() == "TLSv1.3"

    assert heard == ["/health"]
    assert list(tmp_path.iterdir()) == [], "the server's key lies nowhere"


def test_an_authority_made_anew_is_as_good(tmp_path: Path) -> None:
    first, second = make_authority(OURS), make_authority(OURS)

    with _server(_context(OURS, tmp_path)) as (url, heard):
        _ask(url, pinned(first))
        _ask(url, pinned(second))

    assert heard == ["/health"] * 2


@pytest.mark.parametrize("trust", [pinned(make_authority(THEIRS)), None], ids=["another chain", "public authorities"])
def test_a_wrong_certificate_is_offline_and_nothing_is_said(tmp_path: Path, trust: ssl.SSLContext | None) -> None:
    with _server(_context(OURS, tmp_path)) as (url, heard), pytest.raises(Offline, match="wrong_certificate"):
        _ask(url, trust)

    assert heard == []


@pytest.mark.parametrize("years", [-20, 20])
def test_a_till_whose_clock_is_years_off_still_believes_its_server(tmp_path: Path, years: int) -> None:
    at = datetime.now(UTC) + timedelta(days=365 * years)

    with _server(_context(OURS, tmp_path, at=at)) as (url, heard):
        _ask(url, pinned(make_authority(OURS)))

    assert heard == ["/health"]


def test_an_app_that_looks_at_names_and_dates_finds_them_right(tmp_path: Path) -> None:
    strict = ssl.create_default_context(cadata=make_authority(OURS))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT

    with _server(_context(OURS, tmp_path)) as (url, _):
        assert httpx.get(f"{url}/health", verify=strict, trust_env=False, timeout=30).status_code == 200
    assert "hq.example.com" in NAMES and "localhost" in NAMES


def test_who_enrols_believes_any_certificate_since_the_messages_prove_themselves(tmp_path: Path) -> None:
    with _server(_context(THEIRS, tmp_path)) as (url, heard):
        _ask(url, unknown_yet())

    assert heard == ["/health"]


@pytest.mark.parametrize("host", ["192.0.2.1", "hq.example.com", "10.0.0.1", "[2001:db8::1]", "127.0.0.1.example.com"])
def test_a_till_says_nothing_to_another_machine_without_tls(host: str) -> None:
    assert not may_be_plain(f"http://{host}:8420") and may_be_plain(f"https://{host}:8420")

    with pytest.raises(Offline, match="insecure_address"):
        _ask(f"http://{host}:8420", None)


def test_a_till_speaks_plainly_to_its_own_machine() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost")] == [True] * 4

    with _server(None) as (url, heard):
        _ask(url, None)

    assert heard == ["/health"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])  # noqa: S104
def test_a_server_refuses_to_be_heard_elsewhere_without_tls(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.logs.configure", lambda _level: None)
    # The port is taken: a server that did not refuse at once would end there, and not serve this test for ever.
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104
        port = taken.getsockname()[1]
        settings = Settings(data_dir=tmp_path / "server", host=host, port=port, tls=False, redis_url=SecretStr("none"))
        ended = serve(settings)

    assert ended == ExitCode.CANNOT_START

    said = capsys.readouterr().err
    assert "plain HTTP is for this machine alone" in said and "明文 HTTP 只能用于本机" in said
    assert not (tmp_path / "server").exists()


def test_what_is_no_certificate_is_no_authority() -> None:
    for wrong in ("", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(ValueError, match="no certificate"):
            pinned(wrong)


def test_the_authoritys_key_is_in_the_chains_secret_alone(tmp_path: Path) -> None:
    services = open_services(tmp_path / "server.db", clock=SystemClock(), ids=SystemIds())
    services.database.close()

    assert stat.S_IMODE((tmp_path / "chain.key").stat().st_mode) == 0o600
    key = services.chain_key.authority.private_numbers().private_value.to_bytes(32, "big")
    assert [file.name for file in tmp_path.iterdir() if file.is_file() and key in file.read_bytes()] == []
