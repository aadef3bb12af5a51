"""The till's file meets the world: other programs, other versions, bad disks, no room. Real files, real processes."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from app.services.api import OpenOrder, PaidOrder
from app.services.ports import PaymentAnswer
from app.store.boot import APPLICATION_ID, SCHEMA_VERSION
from app.store.database import TillDatabase
from app.store.errors import (
    DiskFull,
    FolderUnwritable,
    LedgerBusy,
    LedgerForeign,
    LedgerLocked,
    LedgerNewer,
)
from app.store.schema import metadata
from tests.fakes.shop import Shop, basket, card


def open_database(path: Path, **keys: object) -> TillDatabase:
    return TillDatabase.open(path, **{"till_id": "T1", "store_id": "s1", "busy_timeout_ms": 100, **keys})  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "till.db"


# ------------------------------------------------------------------ how it is opened


def test_every_connection_has_the_settings_that_keep_a_sale(path: Path) -> None:
    database = open_database(path)

    with database.write() as tx, database.read() as conn:
        found = {
            name: (tx.exec_driver_sql(f"PRAGMA {name}").scalar(), conn.exec_driver_sql(f"PRAGMA {name}").scalar())
            for name in (
                "journal_mode",
                "synchronous",
                "foreign_keys",
                "recursive_triggers",
                "trusted_schema",
                "cell_size_check",
                "mmap_size",
                "busy_timeout",
                "wal_autocheckpoint",
                "application_id",
                "user_version",
            )
        }

    expected = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "recursive_triggers": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "mmap_size": 0,
        "busy_timeout": 100,
        "wal_autocheckpoint": 500,
        "application_id": APPLICATION_ID,
        "user_version": SCHEMA_VERSION,
    }
    assert found == {name: (value, value) for name, value in expected.items()}
    database.close()


def test_the_migrations_make_exactly_the_tables_that_are_declared(path: Path) -> None:
    database = open_database(path)

    with database.read() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "compare_server_default": True})
        differences = compare_metadata(context, metadata)

    assert differences == []
    database.close()


def test_a_file_that_is_up_to_date_is_opened_without_alembic(path: Path) -> None:
    open_database(path).close()

    script = f"""
        import sys
        from pathlib import Path
        from app.store.database import TillDatabase
        TillDatabase.open(Path({str(path)!r}), till_id="T1", store_id="s1").close()
        print("alembic" in sys.modules)
    """
    done = run(script)

    assert done.stdout.strip() == "False"


def run(script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=check, timeout=60
    )


def test_a_migration_that_fails_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.boot.APPLICATION_ID", "no number")

    with pytest.raises(Exception, match="no"):
        open_database(path)

    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    monkeypatch.undo()
    open_database(path).close()


# ------------------------------------------------------------------ other programs


def test_a_second_till_on_the_same_file_refuses_to_start(path: Path) -> None:
    first = open_database(path)

    with pytest.raises(LedgerLocked, match="another Pawtill"):
        open_database(path)

    with first.write() as tx:
        tx.exec_driver_sql("SELECT 1")
    first.close()
    open_database(path).close()


def test_a_second_process_on_the_same_file_refuses_to_start(path: Path) -> None:
    first = open_database(path)

    done = run(
        f"""
        from pathlib import Path
        from app.store.database import TillDatabase
        from app.store.errors import LedgerLocked
        try:
            TillDatabase.open(Path({str(path)!r}), till_id="T1", store_id="s1")
        except LedgerLocked as error:
            print(error.key, "|", error)
        """
    )

    assert done.stdout.startswith("ledger_locked | ")
    assert "Close the other window" in done.stdout
    first.close()


def test_a_file_that_another_program_locked_says_so_and_opens_when_it_lets_go(path: Path) -> None:
    open_database(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(LedgerLocked, match="another program"):
            open_database(path)

        other.execute("ROLLBACK")
    open_database(path).close()


def test_from_the_first_look_of_a_transaction_on_no_other_program_writes(path: Path) -> None:
    database = open_database(path)

    with database.write() as tx, closing(sqlite3.connect(path, timeout=0)) as other:
        tx.exec_driver_sql("SELECT count(*) FROM entry")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("UPDATE meta SET value = 'x'")

    database.close()


def test_a_sale_while_another_program_writes_is_not_made_and_works_afterwards(shop: Shop) -> None:
    shop.restart(busy_timeout_ms=100)
    shop.till.checkout("o1", basket("A"))
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(LedgerBusy, match="Nothing was saved"):
            shop.till.pay("o1")

        assert isinstance(shop.till.scan("A").sku, str), "reading goes on"
        other.execute("ROLLBACK")
    assert isinstance(shop.till.pay("o1"), PaidOrder)
    assert shop.kinds() == ["sale"]


# ------------------------------------------------------------------ other versions, other tills


def test_a_file_of_a_newer_version_is_not_touched(sold: Shop) -> None:
    with closing(sqlite3.connect(sold.path)) as conn:
        conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = sold.path.read_bytes()

    with pytest.raises(LedgerNewer, match="Install the newest version"):
        sold.open()

    assert sold.path.read_bytes() == before


def test_a_file_of_another_program_is_not_touched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()

    with pytest.raises(LedgerForeign, match="not a till of Pawtill"):
        open_database(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("other", [{"till_id": "T2"}, {"store_id": "s2"}], ids=str)
def test_a_file_of_another_till_is_refused(path: Path, other: dict[str, object]) -> None:
    open_database(path).close()

    with pytest.raises(LedgerForeign, match="this file"):
        open_database(path, **other)


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file", "utf-8")

    with pytest.raises(FolderUnwritable):
        open_database(tmp_path / "folder" / "till.db")


# ------------------------------------------------------------------ no room


def test_a_file_at_its_page_limit_makes_no_sale_and_sells_again_when_there_is_room(shop: Shop) -> None:
    shop.sell("o1", "A")
    shop.till.checkout("o2", basket("A"))
    with shop.till.database.write() as tx:
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    full = 0
    for number in range(2, 40):
        try:
            shop.till.checkout(f"o{number}", basket("A"))
            shop.till.pay(f"o{number}")
        except DiskFull as error:
            full += 1
            assert "Nothing was saved" in str(error)

    made = len(shop.kinds())
    assert full > 0
    assert shop.verify() == []
    with shop.till.database.write() as tx:
        tx.exec_driver_sql("PRAGMA max_page_count = 100000")
    shop.sell("after", "A")
    assert len(shop.kinds()) == made + 1
    assert shop.verify() == []


def test_a_card_that_was_charged_when_there_was_no_room_is_asked_about_and_sold(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    charge = shop.terminal.charge

    def fill_the_disk(*payment: Any) -> PaymentAnswer:
        answer = charge(*payment)
        with shop.till.database.read() as conn:
            pages = conn.exec_driver_sql("PRAGMA page_count").scalar_one()
        writer = shop.till.database._writer
        assert writer is not None
        writer.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        writer.rollback()
        return answer

    shop.terminal.charge = fill_the_disk  # type: ignore[method-assign]
    shop.till._parts.operator = "a name that needs a page of its own " * 300

    with pytest.raises(DiskFull):
        shop.till.pay("o1", (card(10_000),))

    assert shop.kinds() == []
    shop.restart()
    paid = shop.till.pay("o1", (card(10_000),))
    assert isinstance(paid, PaidOrder)
    assert list(shop.terminal.taken.values()) == [10_000]
    assert shop.kinds() == ["sale"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_process_that_may_not_write_more_makes_no_sale_and_says_so(sold: Shop) -> None:
    """RLIMIT_FSIZE stands for a full disk where no small disk may be mounted: write() fails in the middle of a sale."""
    script = f"""
        import resource, signal
        from pathlib import Path
        from app.store.errors import DiskFull
        from tests.fakes.shop import Shop, basket
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        shop = Shop(Path({str(sold.path.parent)!r}), ids="b")
        wal = shop.path.with_name("till.db-wal")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size + 30000, hard))
        made, refused = [], []
        for number in range(30):
            order = f"x{{number}}"
            try:
                shop.till.checkout(order, basket("A"))
                shop.till.pay(order)
                made.append(order)
            except DiskFull:
                refused.append(order)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        shop.sell("after", "A")
        kinds = shop.kinds()
        print(len(made), len(refused), len(kinds), shop.verify(), shop.till.status().damaged or "sound")
        shop.close()
    """
    done = run(script)

    made, refused, kinds, *rest = done.stdout.split()
    assert int(refused) > 0
    assert int(kinds) == 10 + int(made) + 1
    assert rest == ["[]", "sound"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let us mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_makes_no_sale_loses_none_and_sells_again_when_there_is_room(small_disk: Path) -> None:
    shop = Shop(small_disk)
    shop.sell("o1", "A")
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"), ballast.open("wb") as file:
        while True:
            file.write(b"\0" * 4096)
            file.flush()

    made: list[str] = []
    with pytest.raises(DiskFull, match="there is no room"):
        for number in range(2, 200):
            assert isinstance(shop.till.checkout(f"o{number}", basket("A")), OpenOrder)
            shop.till.pay(f"o{number}")
            made.append(f"o{number}")

    assert len(shop.kinds()) == 1 + len(made)
    assert shop.till.status().damaged == ""
    ballast.unlink()
    shop.sell("after", "A")
    shop.restart()
    assert len(shop.kinds()) == 2 + len(made)
    assert shop.verify() == []
    shop.close()
