"""One database has one code key: a server that brings another is refused before it mints a code."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import URL, delete, select

from cli.enrolment_code_command import print_enrolment_code
from cli.exits import Exit
from server import logs
from server.chain_key import FILE_NAME as CHAIN_FILE_NAME
from server.code_key import FILE_NAME, KEY_BYTES, CodeKeyDiffers, CodeKeyMissing, fingerprint
from server.db import schema
from server.db.engine import Database
from server.main import ExitCode, serve
from server.opening import open_services
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from tests.postgres.cluster import Cluster


class Machine:
    """A folder with a key of its own, on a database that it may share; on SQLite the database lies in it."""

    def __init__(self, folder: Path, where: URL | None) -> None:
        self.folder, self.where = folder, where if where is not None else folder / "server.db"

    def open(self) -> Services:
        return open_services(self.where, folder=self.folder, clock=SystemClock(), ids=SystemIds())

    def start(self) -> bytes:
        """Open and close; returns the key."""
        services = self.open()
        services.database.close()
        return services.code_key


@pytest.fixture
def where(request: pytest.FixtureRequest, database: str) -> Iterator[URL | None]:
    """Give an empty database: None = a file."""
    if database == "sqlite":
        yield None
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    with cluster.lend("template0") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def first(tmp_path: Path, where: URL | None) -> Machine:
    """Let a first machine make the database."""
    machine = Machine(tmp_path / "first", where)
    machine.start()
    return machine


@pytest.fixture
def second(first: Machine, tmp_path: Path) -> Machine:
    """Set up a second machine on the same database, with a key of its own."""
    if isinstance(first.where, Path):
        shutil.copytree(first.folder, tmp_path / "second")
    machine = Machine(tmp_path / "second", first.where if isinstance(first.where, URL) else None)
    machine.folder.mkdir(exist_ok=True)
    (machine.folder / FILE_NAME).write_bytes(b"k" * KEY_BYTES)
    return machine


def _kept(machine: Machine) -> list[bytes]:
    database = Database(machine.where)
    found = list(database.read(lambda conn: conn.execute(select(schema.code_key.c.fingerprint)).scalars()))
    database.close()
    return found


def test_a_machine_with_another_key_is_refused_and_changes_nothing(first: Machine, second: Machine) -> None:
    before = _kept(first)

    with pytest.raises(CodeKeyDiffers, match=r"copy code\.key"):
        second.start()

    assert _kept(second) == before
    assert (second.folder / FILE_NAME).read_bytes() == b"k" * KEY_BYTES


def test_the_same_key_opens_the_database_on_any_machine(first: Machine, second: Machine) -> None:
    for name in (FILE_NAME, CHAIN_FILE_NAME):
        shutil.copy(first.folder / name, second.folder / name)

    assert second.start() == first.start()


def test_the_fingerprint_tells_nothing_of_the_key(first: Machine) -> None:
    key = first.start()

    (kept,) = _kept(first)

    assert kept == fingerprint(key) != fingerprint(b"k" * KEY_BYTES)
    assert kept != key and len(kept) == 32


def test_a_database_from_before_takes_the_key_of_the_first_start(first: Machine, second: Machine) -> None:
    for machine in (first, second):
        database = Database(machine.where)
        database.write(lambda conn: [conn.execute(delete(table)) for table in (schema.code_key, schema.chain_key)])
        database.close()

    assert second.start() == b"k" * KEY_BYTES

    assert _kept(second) == [fingerprint(b"k" * KEY_BYTES)]


def test_of_machines_that_start_at_once_on_an_empty_database_those_with_one_key_remain(
    tmp_path: Path, postgres: Cluster
) -> None:
    def start(machine: Machine) -> bytes | None:
        try:
            return machine.start()
        except CodeKeyDiffers:
            return None

    with postgres.lend("template0") as url:
        machines = [Machine(tmp_path / str(number), url) for number in range(4)]
        for machine in machines:
            machine.folder.mkdir()
            (machine.folder / FILE_NAME).write_bytes(machine.folder.name.encode() * KEY_BYTES)
        with ThreadPoolExecutor(4) as threads:
            keys = [key for key in threads.map(start, machines) if key is not None]
        kept = _kept(machines[0])

    assert [fingerprint(key) for key in keys] == kept


def test_a_server_and_enrolment_code_say_in_both_languages_which_file_to_copy(
    second: Machine, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "configure", lambda level: None)
    url = second.where.render_as_string(hide_password=False) if isinstance(second.where, URL) else ""
    with socket.create_server(("127.0.0.1", 0)) as taken:  # where nothing else stops it, this does
        settings = Settings(data_dir=second.folder, port=taken.getsockname()[1], database_url=url, redis_url="none")
        code = serve(settings)
    said = capfd.readouterr().err
    exit_code = print_enrolment_code(settings, till_id="t1", store="s1", url="http://127.0.0.1:9")

    assert (code, exit_code) == (ExitCode.OTHER_CODE_KEY, Exit.OTHER_CODE_KEY)
    assert "复制 code.key" in said and "copy code.key" in said
    assert "copy code.key" in capfd.readouterr().err


def test_a_chain_key_that_is_missing_or_of_another_database_is_refused(first: Machine, second: Machine) -> None:
    shutil.copy(first.folder / FILE_NAME, second.folder / FILE_NAME)
    file = second.folder / CHAIN_FILE_NAME

    file.write_bytes(b"k" * KEY_BYTES)
    with pytest.raises(CodeKeyDiffers, match=r"copy chain\.key"):
        second.start()
    file.write_bytes(b"short")
    with pytest.raises(CodeKeyMissing, match="broken"):
        second.start()
    file.unlink()
    with pytest.raises(CodeKeyMissing, match="is missing"):
        second.start()

    assert not file.exists()
