"""What only PostgreSQL does: several servers write in turn, connections are lost, and each trouble has a clear word."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, Connection, select, text

from server.db.engine import Database, HiddenError
from server.db.errors import DatabaseBusy, DatabaseDamaged, DatabaseReadOnly, DatabaseTrouble, DiskFull
from server.db.schema import coupon, product
from tests.fakes.headquarters import Headquarters
from tests.integration.cli.command import pawtill
from tests.postgres.cluster import Cluster

ROOT = Path(__file__).parents[3]


@pytest.fixture
def url(postgres: Cluster) -> Iterator[URL]:
    with postgres.lend("template0") as lent:
        yield lent


@pytest.fixture
def database(url: URL) -> Iterator[Database]:
    """Open a database with an empty table of numbers."""
    opened = Database(url, busy_timeout_ms=100)
    opened.write(lambda conn: conn.execute(text("CREATE TABLE number (n INTEGER PRIMARY KEY)")))
    yield opened
    opened.close()


@pytest.fixture
def other(database: Database, url: URL) -> Iterator[Database]:
    """Open it as a second server."""
    opened = Database(url, busy_timeout_ms=100)
    yield opened
    opened.close()


def _insert(conn: Connection, number: int) -> int:
    conn.execute(text("INSERT INTO number VALUES (:n)"), {"n": number})
    return number


def _count(database: Database) -> int:
    return database.read(lambda conn: conn.execute(text("SELECT COUNT(*) FROM number")).scalar_one())


def _cut(conn: Connection) -> None:
    """End the connection from the other side, as a restart of PostgreSQL would."""
    driver = conn.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    with psycopg.connect(driver.info.dsn, autocommit=True) as killer:
        killer.execute("SELECT pg_terminate_backend(%s, 5000)", (driver.info.backend_pid,))


def test_while_one_server_writes_another_waits_its_turn(database: Database, other: Database) -> None:
    began, finish = threading.Event(), threading.Event()

    def hold(conn: Connection) -> None:
        began.set()
        finish.wait(30)
        _insert(conn, 1)

    held = database.submit(hold)
    began.wait(10)
    with pytest.raises(DatabaseBusy):
        other.write(lambda conn: _insert(conn, 2))
    readable = _count(other)
    finish.set()
    held.result(10)

    assert readable == 0
    assert other.write(_count_inside) == 1


def _count_inside(conn: Connection) -> int:
    return conn.execute(text("SELECT COUNT(*) FROM number")).scalar_one()


def test_what_was_committed_before_our_turn_is_seen_in_it(database: Database, url: URL) -> None:
    def take(conn: Connection, number: int) -> bool:
        left = 50 - conn.execute(text("SELECT COUNT(*) FROM number")).scalar_one()
        if left > 0:
            _insert(conn, number)
        return bool(left > 0)

    patient = [Database(url, busy_timeout_ms=10_000) for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(patient[n % 2].write, lambda conn, n=n: take(conn, n)) for n in range(200)]
        taken = sum(each.result() for each in sent)
    for each in patient:
        each.close()

    assert (taken, _count(database)) == (50, 50)


def test_a_connection_that_is_lost_takes_the_group_with_it_and_the_next_one_connects(database: Database) -> None:
    def lose(conn: Connection) -> None:
        _insert(conn, 1)
        _cut(conn)
        _insert(conn, 2)

    with pytest.raises(DatabaseBusy):
        database.write(lose)

    assert database.write(lambda conn: _insert(conn, 3)) == 3
    assert _count(database) == 1


def test_a_connection_that_was_lost_between_two_groups_costs_one_of_them(database: Database, url: URL) -> None:
    _cut_all(url)

    with pytest.raises(DatabaseBusy):
        database.write(lambda conn: _insert(conn, 1))
    assert database.write(lambda conn: _insert(conn, 2)) == 2

    assert _count(database) == 1


def test_readers_whose_connections_were_lost_connect_anew(database: Database, url: URL) -> None:
    _count(database)
    _cut_all(url)

    with pytest.raises(DatabaseBusy):
        _count(database)

    assert _count(database) == 0


def _cut_all(url: URL) -> None:
    with psycopg.connect(**_dsn(url), autocommit=True) as killer:
        killer.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def _dsn(url: URL) -> dict[str, str]:
    return {"host": str(url.query["host"]), "user": str(url.username), "dbname": str(url.database)}


TROUBLES = {
    "53100": DiskFull,
    "53200": DatabaseBusy,
    "53300": DatabaseBusy,
    "55P03": DatabaseBusy,
    "57014": DatabaseBusy,
    "40001": DatabaseBusy,
    "40P01": DatabaseBusy,
    "25006": DatabaseReadOnly,
    "58030": DatabaseTrouble,
    "XX001": DatabaseDamaged,
    "42501": DatabaseTrouble,
}


@pytest.mark.parametrize("state", TROUBLES)
def test_each_trouble_has_its_word_and_nobody_elses_write_is_lost(database: Database, state: str) -> None:
    def trouble(conn: Connection) -> None:
        _insert(conn, 1)
        conn.execute(text(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$"))

    with pytest.raises(DatabaseTrouble) as raised:
        database.write(trouble)

    assert type(raised.value) is TROUBLES[state]
    assert database.write(lambda conn: _insert(conn, 2)) == 2
    assert _count(database) == 1


def test_a_write_that_hides_its_error_takes_back_its_own_alone(database: Database) -> None:
    def swallow(conn: Connection) -> None:
        _insert(conn, 7)
        try:
            _insert(conn, 7)
        except Exception:
            return

    began, finish = threading.Event(), threading.Event()
    first = database.submit(lambda _conn: (began.set(), finish.wait(30)))
    began.wait(10)
    sound, hiding = database.submit(lambda conn: _insert(conn, 1)), database.submit(swallow)
    finish.set()
    first.result(10)

    assert sound.result(10) == 1
    assert isinstance(hiding.exception(10), HiddenError)
    assert _count(database) == 1


@pytest.mark.parametrize("wrong", ["host", "database", "user"])
def test_a_server_that_cannot_be_reached_is_named_without_its_password(postgres: Cluster, wrong: str) -> None:
    url = postgres.url("postgres").set(password="s3cret-word")
    url = {
        "host": url.update_query_dict({"host": "/nowhere"}),
        "database": url.set(database="none_of_that_name"),
        "user": url.set(username="stranger"),
    }[wrong]
    database = Database(url)

    with pytest.raises(DatabaseTrouble) as raised:
        database.write(lambda conn: _insert(conn, 1))
    with pytest.raises(DatabaseTrouble):
        _count(database)
    database.close()

    assert "s3cret-word" not in f"{raised.value} {raised.value.__cause__!r} {url}"


def test_a_line_that_went_dead_is_noticed_within_half_a_minute_unless_the_url_says_otherwise(url: URL) -> None:
    def settings(where: URL) -> dict[str, str]:
        opened = Database(where)
        try:
            return opened.read(lambda conn: conn.connection.driver_connection.info.get_parameters())  # type: ignore[union-attr]
        finally:
            opened.close()

    ours, theirs = settings(url), settings(url.update_query_dict({"keepalives_idle": "7", "application_name": "spa"}))

    waits_s = int(ours["keepalives_idle"]) + int(ours["keepalives_interval"]) * int(ours["keepalives_count"])
    assert waits_s <= 30 and 0 < int(ours["tcp_user_timeout"]) <= 30_000
    assert (theirs["keepalives_idle"], theirs["application_name"]) == ("7", "spa")
    assert theirs["tcp_user_timeout"] == ours["tcp_user_timeout"]


def test_no_commit_is_told_before_it_is_durable_whatever_the_servers_default(postgres: Cluster, url: URL) -> None:
    with postgres.connection(str(url.database)) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
    database = Database(url)

    shown = database.write(lambda conn: conn.execute(text("SHOW synchronous_commit")).scalar_one())
    database.close()

    assert shown == "on"


def test_sums_are_whole_numbers_and_text_sorts_by_code_point(database: Database) -> None:
    def look(conn: Connection) -> tuple[object, list[str]]:
        total = conn.execute(text("SELECT SUM(n::bigint) FROM (VALUES (9007199254740993), (1)) AS v (n)")).scalar_one()
        return total, list(conn.execute(text("SELECT w FROM word ORDER BY w")).scalars())

    from sqlalchemy import Column, MetaData, Table, Text

    words = Table("word", MetaData(), Column("w", Text))
    database.write(words.create)
    database.write(lambda conn: conn.execute(words.insert(), [{"w": w} for w in ("b", "A", "a", "B", "é", "_")]))

    total, order = database.read(look)

    assert (total, type(total)) == (9007199254740994, int)
    assert order == ["A", "B", "_", "a", "b", "é"]


def test_a_nul_in_a_name_is_kept_as_a_sign_that_postgres_can_hold(tmp_path: Path, postgres_url: URL) -> None:
    headquarters = Headquarters(tmp_path, url=postgres_url)
    headquarters.furnish()
    products = [{"sku": f"A{number}", "price": "1.00", "name": "a\0b"} for number in range(5)]

    headquarters.call("POST", "/v1/products", products, status=200)
    names = headquarters.database.read(
        lambda conn: set(conn.execute(select(product.c.name).where(product.c.name == "a\0b")).scalars())
    )
    headquarters.close()

    assert names == {"a\ufffdb"}


def test_a_number_of_more_than_32_bits_is_no_error(postgres_url: URL) -> None:
    database = Database(postgres_url)

    found = database.read(lambda conn: conn.execute(select(coupon.c.id).where(coupon.c.member_nth == 2**40)).all())
    database.close()

    assert found == []


FROZEN = """
import sys, time
from sqlalchemy import make_url, text
from server.db.engine import Database

def freeze(conn):
    conn.execute(text("INSERT INTO number VALUES (1)"))
    print("writing", flush=True)
    time.sleep(600)

Database(make_url(sys.argv[1])).write(freeze)
"""


@pytest.mark.skipif(os.name == "nt", reason="kill -9 is POSIX")
def test_a_server_that_is_killed_in_its_turn_leaves_nothing_and_holds_nobody_up(database: Database, url: URL) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", FROZEN, url.render_as_string(hide_password=False)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == b"writing\n"

    with pytest.raises(DatabaseBusy):
        database.write(lambda conn: _insert(conn, 2))
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    patient = Database(url, busy_timeout_ms=10_000)
    written = patient.write(lambda conn: _insert(conn, 2))
    patient.close()

    assert (written, _count(database)) == (2, 1)


# ------------------------------------------------------------------ the command line


def test_the_doctor_names_the_version_and_what_a_power_cut_would_take(postgres_url: URL, tmp_path: Path) -> None:
    ended = pawtill("doctor", "--data-dir", tmp_path, PAWTILL_DATABASE_URL=_told(postgres_url), COLUMNS="300")

    assert re.search(r"PostgreSQL \d+\.\d+", ended.said), ended.said
    # The tests' own PostgreSQL does not wait for the disk, and the doctor says so.
    assert "fsync off" in ended.said and "Broken: Server durability." in ended.said


def test_the_doctor_calls_a_postgres_that_is_not_there_broken_and_shows_no_password(tmp_path: Path) -> None:
    url = "postgresql://clerk:s3cret-word@127.0.0.1:9/chain"

    ended = pawtill("doctor", "--data-dir", tmp_path, PAWTILL_DATABASE_URL=url, COLUMNS="300")

    assert "cannot be reached" in ended.said and "Broken: Server database." in ended.said
    assert "s3cret-word" not in ended.said + ended.complained


def test_an_audit_tells_of_the_database_on_the_server(tmp_path: Path, postgres_url: URL) -> None:
    headquarters = Headquarters(tmp_path, url=postgres_url)
    headquarters.furnish()
    headquarters.campaign(stock=5)

    sound = pawtill("audit", "--data-dir", tmp_path, "--database-url", _told(postgres_url))
    headquarters.database.write(
        lambda conn: conn.execute(
            text(
                "INSERT INTO coupon SELECT 'x', 'c1', snapshot_id, 'm1', 1, 'x', 'x', 'ISSUED', 1,"
                " NULL, NULL, 'app', 0, '2026-06-01', NULL, NULL FROM campaign"
            )
        )
    )
    headquarters.close()
    broken = pawtill("audit", "--data-dir", tmp_path, "--database-url", _told(postgres_url))

    assert (sound.code, sound.said.splitlines()[-1]) == (0, "audit: clean")
    assert broken.code == 1
    assert re.fullmatch(r"audit: \d+ violations?", broken.said.splitlines()[-1])
    assert "stock_granted" in broken.said


def test_a_server_that_cannot_reach_its_database_says_so_and_shows_no_password(tmp_path: Path) -> None:
    url = "postgresql://clerk:s3cret-word@127.0.0.1:9/chain"

    ended = pawtill("server", "--data-dir", tmp_path, "--port", "0", PAWTILL_DATABASE_URL=url)

    assert ended.code == 7
    assert "PostgreSQL cannot be reached" in ended.complained
    assert "s3cret-word" not in ended.said + ended.complained


def _told(url: URL) -> str:
    return url.render_as_string(hide_password=False)
