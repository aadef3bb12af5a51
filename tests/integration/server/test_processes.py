"""The server as a process of its own: one port, one data folder, one clear sentence for each that is taken."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, insert

from cli.exits import Exit
from server import logs
from server.db.schema import api_key
from server.main import ExitCode, serve
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import catalog, devices
from server.services.context import Context
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from sync.protocol import PULL_PATH

ROOT = Path(__file__).parents[3]
START = """
import sys
from pathlib import Path
from server.main import serve
from server.settings import Settings
sys.exit(serve(Settings(data_dir=Path(sys.argv[1]), port=0, tls=False)))
"""


@contextmanager
def _server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server on a free port; gives the process and its URL."""
    with (folder.parent / f"{folder.name}.log").open("w") as log:
        command = [sys.executable, "-c", START, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT)
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[-1]
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Start a server that will not run; gives its exit code and its last word. It needs no process to say no."""
    monkeypatch.setattr(logs, "configure", lambda level: None)  # it takes the suite's stream for a server's

    def start(folder: Path, **settings: int) -> tuple[int, str]:
        code = serve(Settings(data_dir=folder, **{"port": 0, **settings}))
        return code, capsys.readouterr().err.strip().splitlines()[-1]

    return start


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what the first run of a server leaves behind."""
    folder = tmp_path_factory.mktemp("first") / "data"
    with _server(folder):
        pass
    return folder


@pytest.fixture
def folder(tmp_path: Path, first_run: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(first_run, tmp_path / "data"))


def _call(url: str, folder: Path, *, path: str, body: Any = None, method: str = "PUT") -> httpx.Response:
    key = (folder / "headquarters.key").read_text().strip()
    return httpx.request(method, url + path, json=body, headers={"Authorization": f"Bearer {key}"}, trust_env=False)


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    assert {code.name: code.value for code in ExitCode}.items() <= {code.name: code.value for code in Exit}.items()


def test_the_first_run_makes_a_chain_and_a_key_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    with _server(folder) as (_, url):
        answer = _call(url, folder, path="/v1/stores/s1", body={"zone": "Asia/Shanghai"})
        ready = httpx.get(url + "/ready", trust_env=False)

    assert (answer.status_code, ready.status_code) == (200, 200)
    if os.name == "posix":
        modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in ("headquarters.key", "code.key")}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_second_run_finds_everything_and_makes_no_other_key(folder: Path) -> None:
    kept = (folder / "headquarters.key").read_bytes(), (folder / "code.key").read_bytes()

    with _server(folder) as (_, url):
        answer = _call(url, folder, path="/v1/stores/s1", body={"zone": "Asia/Shanghai"})

    assert answer.status_code == 200
    assert kept == ((folder / "headquarters.key").read_bytes(), (folder / "code.key").read_bytes())


def test_a_second_server_on_one_data_folder_is_refused(folder: Path, refused: Callable[..., tuple[int, str]]) -> None:
    with _server(folder):
        code, message = refused(folder)

    assert code == ExitCode.DATA_IN_USE
    assert message == f"pawtill server: another server is running on {folder}"


def test_a_second_server_on_one_port_is_refused(folder: Path, refused: Callable[..., tuple[int, str]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, message = refused(folder, port=port)

    assert code == ExitCode.PORT_IN_USE
    assert message == f"pawtill server: port {port} of 127.0.0.1 is in use by another program"


def test_more_than_one_process_is_refused_on_sqlite(folder: Path, refused: Callable[..., tuple[int, str]]) -> None:
    code, message = refused(folder, workers=2)

    assert code == ExitCode.CANNOT_START
    assert "one writer" in message


def test_a_newer_database_is_refused_and_left_alone(folder: Path, refused: Callable[..., tuple[int, str]]) -> None:
    other = sqlite3.connect(folder / "server.db")
    with other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.close()
    before = (folder / "server.db").read_bytes()

    code, message = refused(folder)

    assert code == ExitCode.NEWER_DATA
    assert "newer version" in message
    assert (folder / "server.db").read_bytes() == before


def test_a_damaged_database_is_refused(folder: Path, refused: Callable[..., tuple[int, str]]) -> None:
    content = bytearray((folder / "server.db").read_bytes())
    content[:100] = b"\xff" * 100
    (folder / "server.db").write_bytes(content)
    for name in ("server.db-wal", "server.db-shm"):
        (folder / name).unlink(missing_ok=True)

    code, message = refused(folder)

    assert code == ExitCode.DAMAGED_DATA
    assert "backup" in message


def test_a_database_without_its_code_key_is_refused_rather_than_given_another(
    folder: Path, refused: Callable[..., tuple[int, str]]
) -> None:
    (folder / "code.key").unlink()

    code, message = refused(folder)

    assert code == ExitCode.CANNOT_START
    assert "code.key is missing" in message
    assert not (folder / "code.key").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_leaves_a_whole_file_behind(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "data"

    with _server(folder) as (process, url):
        _call(url, folder, path="/v1/stores/s1", body={"zone": "Asia/Shanghai"})
        process.send_signal(number)
        process.wait(30)

    assert not (folder / "server.db-wal").exists()
    assert process.returncode in (0, -number)
    with socket.create_server(("127.0.0.1", int(url.rsplit(":", 1)[1]))):
        pass


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_a_server_that_is_killed_has_what_it_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with _server(folder) as (process, url):
        answers = [
            _call(url, folder, path=f"/v1/stores/s{number}", body={"zone": "Asia/Shanghai"}) for number in range(20)
        ]
        process.kill()
        process.wait()

    with _server(folder) as (_, url):
        tills = [_call(url, folder, path=f"/v1/tills/t{number}", body={"store": f"s{number}"}) for number in range(20)]

    assert {each.status_code for each in answers} == {200}
    assert {each.status_code for each in tills} == {200}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prlimit")
def test_a_server_on_a_full_disk_says_so_loses_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    import resource

    folder = tmp_path / "data"
    with _server(folder) as (process, url):
        for number in range(5):
            _call(url, folder, path=f"/v1/stores/s{number}", body={"zone": "Asia/Shanghai"})
        # A file may not grow beyond this any more: to the server every write fails as on a disk without room.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        full = _call(url, folder, path="/v1/stores/s9", body={"zone": "Asia/Shanghai"})
        readable = _call(url, folder, path="/v1/keys", method="GET")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        again = _call(url, folder, path="/v1/stores/s9", body={"zone": "Asia/Shanghai"})
        tills = [_call(url, folder, path=f"/v1/tills/t{number}", body={"store": f"s{number}"}) for number in range(5)]

    assert (full.status_code, full.json()["facts"]["reason"]) == (503, "disk_full")
    assert readable.status_code == 200
    assert again.status_code == 200
    assert {each.status_code for each in tills} == {200}


def _till_of_before(folder: Path) -> tuple[str, str]:
    """Found a chain with a till that has a bearer key of before, and has enrolled; return that key, and its id."""
    services = open_services(folder / "server.db", clock=SystemClock(), ids=SystemIds())
    secret, key_id = "ab" * 32, "cd" * 16

    def write(conn: Connection, ctx: Context) -> None:
        catalog.set_store(conn, "s1", zone="Asia/Shanghai")
        catalog.set_till(conn, ctx, "t1", store_id="s1")
        devices.take_in(conn, ctx, "t1", key_id=key_id, public_key=bytes(32), certificate="")
        of_pass = {"scope": "till", "till_id": "t1", "name": "till t1", "created_at": ctx.now}
        digest = hashlib.sha256(secret.encode()).digest()
        conn.execute(insert(api_key).values(id=key_id, digest=digest, **of_pass))

    with closing(services.database):
        provision(services, ChainPlan())
        services.write(write)
    return f"pt_{key_id}_{secret}", key_id


def test_a_server_that_listens_knows_no_till_by_a_token_and_says_to_enrol(tmp_path: Path) -> None:
    of_pass, key_id = _till_of_before(tmp_path / "data")
    hello, claim = {"proto": 1, "till": "t1", "cursor": 0}, {"request": "r1", "campaign": "c1", "member": "m1"}
    asked = [("POST", PULL_PATH, hello), ("POST", "/v1/claims", claim), ("GET", "/v1/orders/o1", None)]

    with _server(tmp_path / "data") as (_, url), httpx.Client(base_url=url, trust_env=False) as line:

        def ask(token: str) -> list[httpx.Response]:
            headers = {"Authorization": f"Bearer {token}"}
            return [line.request(method, path, json=body, headers=headers) for method, path, body in asked]

        refused, wrong, by_name = ask(of_pass), ask(of_pass[:-1] + "c"), ask(f"till_{key_id}")

    assert [(each.status_code, each.json()["error"]) for each in refused] == [(401, "not_enrolled")] * 3
    assert [each for each in refused if "pawtill enrol" not in each.text or "登记码" not in each.text] == []
    assert [(each.status_code, each.json()) for each in wrong + by_name] == [(401, {"error": "no_key"})] * 6


def test_no_key_code_or_id_gets_into_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with _server(folder) as (_, url):
        _call(url, folder, path="/v1/stores/secret-store", body={"zone": "Asia/Shanghai"})
        code = _call(url, folder, path="/v1/tills/t1/enrolment-codes", body={"store": "secret-store"}, method="POST")
        key = (folder / "headquarters.key").read_text().strip()

    log = (tmp_path / "data.log").read_text()
    assert '"route": "/v1/stores/{store_id}"' in log
    for secret in (key.split("_")[2], code.json()["code"], "secret-store"):
        assert secret not in log
