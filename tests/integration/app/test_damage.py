"""A damaged file: whatever is wrong with it, the till sells nothing, says so, and shows what can be read."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.services.api import PaidOrder
from app.store.database import TillDatabase
from app.store.errors import (
    LedgerDamaged,
)
from tests.fakes.shop import Shop, basket


def open_database(path: Path, **keys: object) -> TillDatabase:
    return TillDatabase.open(path, **{"till_id": "T1", "store_id": "s1", "busy_timeout_ms": 100, **keys})  # type: ignore[arg-type]


def damaged_till_sells_nothing(shop: Shop) -> None:
    """Open the till and find that it says so, sells nothing, and leaves the file as it is."""
    before = hashlib.sha256(shop.path.read_bytes()).digest() if shop.path.exists() else b""

    till = shop.open()

    assert till.status().damaged
    with pytest.raises(LedgerDamaged, match="Sell on another till"):
        till.checkout("new", basket("A"))
    with pytest.raises(LedgerDamaged):
        till.pay("o1")
    with pytest.raises(LedgerDamaged):
        till.refund("r1", "o1")
    till.close()
    after = hashlib.sha256(shop.path.read_bytes()).digest() if shop.path.exists() else b""
    assert after == before, "what can be saved must stay"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x01
    path.write_bytes(bytes(data))


def test_a_ledger_whose_body_was_changed_by_one_bit_sells_nothing(sold: Shop) -> None:
    place = sold.path.read_bytes().rindex(b'"payable_minor":16000')
    flip(sold.path, place + len(b'"payable_minor":1'))

    damaged_till_sells_nothing(sold)


def test_a_file_with_a_broken_page_sells_nothing(sold: Shop) -> None:
    data = bytearray(sold.path.read_bytes())
    page = 4096
    for start in range(page, len(data), page):
        data[start : start + 8] = b"\xff" * 8
    sold.path.write_bytes(bytes(data))

    damaged_till_sells_nothing(sold)


def test_a_broken_page_away_from_the_ledger_sells_nothing(sold: Shop) -> None:
    with closing(sqlite3.connect(sold.path)) as conn:
        (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'ix_punch_card_member_id'").fetchone()
    data = bytearray(sold.path.read_bytes())
    data[(page - 1) * 4096 : (page - 1) * 4096 + 8] = b"\xff" * 8
    sold.path.write_bytes(bytes(data))

    damaged_till_sells_nothing(sold)


def test_a_file_of_which_sqlite_cannot_even_say_what_is_wrong_sells_nothing(sold: Shop) -> None:
    """What names the damage is damaged itself: its words are no text."""
    data = sold.path.read_bytes()
    place = data.index(b"ix_punch_card_member_id")
    sold.path.write_bytes(data[:place] + b"\xf4x\xf5y" + data[place + 4 :])

    damaged_till_sells_nothing(sold)


def test_a_file_that_was_cut_short_sells_nothing(sold: Shop) -> None:
    data = sold.path.read_bytes()
    sold.path.write_bytes(data[: len(data) // 2 // 4096 * 4096])

    damaged_till_sells_nothing(sold)


def test_a_file_that_is_no_database_any_more_sells_nothing(sold: Shop) -> None:
    sold.path.write_bytes(b"\x00" * 65536)

    damaged_till_sells_nothing(sold)


@pytest.mark.parametrize("what", ["gone", "empty"])
def test_a_file_that_is_gone_is_not_replaced_by_a_fresh_one(sold: Shop, what: str) -> None:
    sold.path.unlink()
    if what == "empty":
        sold.path.touch()

    damaged_till_sells_nothing(sold)


def test_a_file_whose_log_was_left_behind_sells_nothing(tmp_path: Path) -> None:
    """Copying only the .db of a till that runs loses what is in the -wal (PROTOCOL 6.5)."""
    shop = Shop(tmp_path)
    shop.sell("o1", "A")
    shop.restart()
    shop.sell("o2", "A")
    copy = tmp_path / "copy" / "till.db"
    copy.parent.mkdir()
    shutil.copy(shop.path, copy)
    shutil.copy(shop.path.with_name("till.db.lock"), copy.with_name("till.db.lock"))
    shop.close()

    database = open_database(copy)

    assert "had written 2" in database.damaged
    database.close()


def test_a_ledger_that_was_put_back_to_an_older_state_sells_nothing(sold: Shop) -> None:
    old = sold.path.read_bytes()
    sold.open()
    sold.sell("later", "A")
    sold.close()
    sold.path.write_bytes(old)

    damaged_till_sells_nothing(sold)


def test_a_ledger_that_went_another_way_since_the_mark_sells_nothing(sold: Shop) -> None:
    lock = sold.path.with_name(sold.path.name + ".lock")
    mark = json.loads(lock.read_text().partition("\n")[0])
    lock.write_text(json.dumps(mark | {"hash": "00" * 8}) + "\n")

    damaged_till_sells_nothing(sold)


def test_an_entry_that_is_missing_in_the_middle_sells_nothing(sold: Shop) -> None:
    with closing(sqlite3.connect(sold.path)) as conn:
        conn.execute("DROP TRIGGER entry_no_delete")
        conn.execute("DELETE FROM entry WHERE seq = 4")
        conn.commit()

    damaged_till_sells_nothing(sold)


def test_a_damaged_till_still_shows_what_can_be_read(sold: Shop) -> None:
    place = sold.path.read_bytes().rindex(b'"payable_minor":16000')
    flip(sold.path, place + len(b'"payable_minor":1'))

    till = sold.open()

    status = till.status()
    assert (status.pending_count, bool(status.damaged)) == (10, True)
    assert till.scan("A").sku == "A"
    till.close()


@pytest.mark.parametrize(
    "flipped",
    [
        "UPDATE orders SET tenders = '[{\"type\":\"cash' WHERE id = 'o3'",
        "UPDATE orders SET quote = CAST(x'7B22FF227D' AS TEXT) WHERE id = 'o3'",
        "UPDATE meta SET value = '1x' WHERE key = 'epoch'",
    ],
    ids=["no JSON", "no text", "no number"],
)
def test_a_row_that_cannot_be_read_is_damage_and_no_bug(sold: Shop, flipped: str) -> None:
    till = sold.open()
    with closing(sqlite3.connect(sold.path)) as conn:
        conn.execute(flipped)
        conn.commit()

    with pytest.raises(LedgerDamaged):
        till.checkout("o11", basket("A"))
        till.resolve("o3")

    assert till.status().damaged
    till.close()


def test_a_till_that_finds_damage_while_it_runs_writes_nothing_more_and_repeats_no_answer(sold: Shop) -> None:
    till = sold.open()
    assert isinstance(till.resolve("o1"), PaidOrder)

    till.database.damaged = "a page could not be read"

    with pytest.raises(LedgerDamaged):
        till.resolve("o1")
    with pytest.raises(LedgerDamaged), till.database.write():
        pytest.fail("a transaction began")


def test_a_half_written_mark_is_no_damage(sold: Shop) -> None:
    sold.path.with_name("till.db.lock").write_bytes(b'{"epoch": 1, "se')

    till = sold.open()

    assert till.status().damaged == ""


def test_a_mark_that_lags_behind_is_no_damage(sold: Shop) -> None:
    with closing(sqlite3.connect(sold.path)) as conn:
        digest = conn.execute("SELECT hash FROM entry WHERE seq = 3").fetchone()[0]
    mark = json.dumps({"epoch": 1, "seq": 3, "hash": digest[:8].hex()})
    sold.path.with_name("till.db.lock").write_text(mark + "\n", "utf-8")

    till = sold.open()

    assert till.status().damaged == ""
