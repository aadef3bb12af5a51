"""The file is looked after beside the counter: a second copy with its lag, and a whole look each day."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.services import upkeep
from app.services.upkeep import Upkeep
from app.store.errors import LedgerDamaged
from app.store.second_copy import SecondCopy
from tests.fakes.shop import Shop, basket


def test_what_was_sold_is_on_both_disks_at_the_next_turn(sold: Shop, tmp_path: Path) -> None:
    till = sold.open()
    keeper = Upkeep(till.database, SecondCopy(tmp_path / "other", sold.till_id))
    before = till.status().copy_lag

    keeper.turn()

    assert (before, till.status().copy_lag) == (None, 0)
    assert len(list(SecondCopy(tmp_path / "other", sold.till_id).entries())) == len(sold.kinds())
    till.close()


@pytest.mark.skipif(os.name == "nt", reason="a mode means little there")
def test_the_second_copy_is_for_its_owner_alone(sold: Shop, tmp_path: Path) -> None:
    till = sold.open()
    copy = SecondCopy(tmp_path / "other", sold.till_id)

    copy.catch_up(till.database)

    assert copy.path.stat().st_mode & 0o077 == 0
    till.close()


def test_a_disk_that_is_away_is_shown_and_holds_up_no_sale(sold: Shop, tmp_path: Path) -> None:
    till = sold.open()
    away = tmp_path / "away"
    keeper = Upkeep(till.database, SecondCopy(away / "folder", sold.till_id))
    away.write_text("no folder")

    keeper.turn()
    sold.sell("later", "A")
    lag = till.status().copy_lag
    away.unlink()
    keeper.turn()

    assert lag == len(sold.kinds()) - 1
    assert till.status().copy_lag == 0
    till.close()


def test_a_copy_of_another_till_is_never_written_over(sold: Shop, tmp_path: Path) -> None:
    till = sold.open()
    copy = SecondCopy(tmp_path, sold.till_id)
    copy.path.write_text('{"pawtill": "second copy of a ledger", "till": "T9"}\n')
    before = copy.path.read_bytes()

    Upkeep(till.database, copy).turn()

    assert copy.path.read_bytes() == before
    assert till.status().copy_lag == len(sold.kinds())
    till.close()


def test_a_copy_that_knows_more_stops_the_till_and_is_left_as_it_is(sold: Shop, tmp_path: Path) -> None:
    image = sold.path.read_bytes()
    lock = sold.path.with_name(sold.path.name + ".lock").read_bytes()
    copy = SecondCopy(tmp_path / "other", sold.till_id)
    till = sold.open()
    sold.sell("later", "A")
    Upkeep(till.database, copy).turn()
    till.close()
    sold.path.write_bytes(image)
    sold.path.with_name(sold.path.name + ".lock").write_bytes(lock)
    before = copy.path.read_bytes()

    till = sold.open()
    Upkeep(till.database, copy).turn()

    assert "set back" in till.status().damaged
    with pytest.raises(LedgerDamaged):
        till.checkout("new", basket("A"))
    assert copy.path.read_bytes() == before
    till.close()


def test_everything_is_looked_at_once_a_day(sold: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "TURNS_OF_A_DAY", 3)
    monkeypatch.setattr(upkeep, "FIRST_LOOK", 2)
    till, looks = sold.open(), list[int]()
    monkeypatch.setattr(till.database, "check_everything", lambda: looks.append(1))
    keeper = Upkeep(till.database, None)

    for _ in range(7):
        keeper.turn()

    assert len(looks) == 2
    till.close()


def test_a_till_that_is_turned_off_each_evening_is_looked_at_each_day(
    sold: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[int]()
    for _day in range(2):
        till = sold.open()
        monkeypatch.setattr(till.database, "check_everything", lambda: looks.append(1))
        keeper = Upkeep(till.database, None)
        for _ in range(round(1800 / upkeep.EVERY_S)):
            keeper.turn()
        till.close()

    assert len(looks) == 2


def test_it_turns_by_itself_and_once_more_at_the_end(sold: Shop, tmp_path: Path) -> None:
    till = sold.open()
    copy = SecondCopy(tmp_path / "other", sold.till_id)
    keeper = Upkeep(till.database, copy, wait=lambda event, _seconds: event.wait(30))

    keeper.start()
    sold.sell("later", "A")
    keeper.stop()

    assert len(list(copy.entries())) == len(sold.kinds())
    till.close()
