"""A damaged or lost ledger: what verifies is kept, the second copy gives the rest, and what nobody has is found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.domain.ports import Progress, Step, no_progress
from app.domain.tenders import Tender, TenderType
from app.services.api import GivenCoupon
from app.services.epochs import Begun
from app.services.ports import Offline
from app.services.till import Till
from app.store import recovery, rights
from app.store.errors import LedgerLocked
from app.store.second_copy import SecondCopy
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.enrol import ServerRegistry, recover
from tests.fakes.counter import findings, violations
from tests.fakes.station import Chain, Station
from tests.fakes.transport import Fault


@pytest.fixture
def station(chain: Chain) -> Station:
    """Return a till with three sales that the server has, and three that it has not."""
    made = chain.station()
    made.sync()
    for number in range(1, 4):
        made.sell(f"o{number}")
    made.sync()
    made.line.offline = True
    for number in range(4, 7):
        made.sell(f"o{number}", "B")
    made.line.offline = False
    return made


def mend(station: Station, copy: SecondCopy | None, progress: Progress = no_progress) -> Begun | None:
    """Do what `pawtill recover` does."""
    station.close()
    station.key = station.chain.hq.take_in()
    return go_on(station, copy, progress)


def go_on(station: Station, copy: SecondCopy | None, progress: Progress = no_progress) -> Begun | None:
    path = station.path

    @contextmanager
    def opened(file: Path) -> Iterator[tuple[Till, SyncEngine, ServerClient]]:
        station.path = file
        station.open()
        try:
            yield station.till, station.engine, station.client
        finally:
            station.close()
            station.path = path

    new_id = station.ids.new()
    begun = recover(path, opened, who=("t1", "s1"), copy=copy, new_id=new_id, progress=progress)
    station.open()
    return begun


def flip_a_sale(station: Station, needle: bytes) -> None:
    """Change one bit in the body of the entry that has `needle`."""
    station.close()
    data = bytearray(station.path.read_bytes())
    data[data.rindex(needle) + len(needle) - 1] ^= 0x01
    station.path.write_bytes(bytes(data))
    station.open()


def states(chain: Chain, *orders: str) -> list[str]:
    known = []
    for order in orders:
        answer = chain.hq.call("GET", f"/v1/orders/{order}")
        known.append(str(answer.get("state", answer.get("outcome"))))
    return known


def test_a_till_that_was_recovered_tells_a_restored_server_what_it_had_been_lent(
    chain: Chain, station: Station
) -> None:
    """Its new file knows no incarnation, but has the leases; its sales name them."""
    chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    station.sync()
    backup = chain.keep_a_copy()
    station.lent("value:m1", 10_000)
    station.line.offline = True
    by_value = [Tender(TenderType.STORED_VALUE, 6_000)]
    station.sell("o7", "B", member="m1", tenders=by_value, stored_value_minor=6_000)
    station.line.offline = False
    flip_a_sale(station, b'"order":"o5"')

    chain.go_back_to(backup)
    mend(station, None)
    station.sync()

    (lease,) = chain.hq.call("GET", "/v1/tills/t1/rights", status=200)["leases"]
    assert (lease["lent"], lease["left"]) == (10_000, 4_000)
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


ALL = tuple(f"o{number}" for number in range(1, 7))


def test_an_entry_that_flipped_is_lost_and_found_and_all_others_are_saved(chain: Chain, station: Station) -> None:
    flip_a_sale(station, b'"order":"o5"')
    damaged = station.till.status().damaged

    begun = mend(station, None)
    station.sync()

    assert damaged and station.till.status().damaged == ""
    assert begun == Begun(2, 2, whole=False)
    assert states(chain, *ALL) == ["PAID"] * 4 + ["unknown_code", "PAID"]
    assert findings(chain.hq)["tail_lost"] == 1
    assert violations(chain.hq) == []


def test_who_watches_sees_each_step_to_its_end(
    chain: Chain, station: Station, copy: SecondCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "SHOWN_EACH", 2)
    copy.catch_up(station.till.database)
    flip_a_sale(station, b'"order":"o5"')
    seen: list[tuple[Step, int, int]] = []

    mend(station, copy, lambda *told: seen.append(told))

    assert list(dict.fromkeys(step for step, _, _ in seen)) == [*Step]
    ends = {step: (done, total) for step, done, total in seen}
    assert ends[Step.READ] == ends[Step.COMPARE] == (6, 6) and ends[Step.CARRY] == (3, 3)
    assert all(done == total for done, total in ends.values())
    assert {told for told in seen if told[0] is Step.READ} >= {(Step.READ, 2, 0), (Step.READ, 4, 0)}


def test_a_coupon_whose_use_may_be_lost_is_at_home_nowhere(chain: Chain, station: Station) -> None:
    """What gave it out is carried over, what used it is gone: the server's word of it must not bring it to life."""
    chain.hq.campaign(stock=1)
    station.sync()
    station.lent("stock:c1", 1)
    station.line.offline = True
    given = station.till.give("q1", "c1", "m1")
    assert isinstance(given, GivenCoupon)
    station.sell("o7", "A", member="m1", use=(given.coupon_id,))
    station.line.offline = False
    flip_a_sale(station, b'"order":"o7"')

    begun = mend(station, None)
    station.sync()

    assert begun is not None and not begun.whole
    assert chain.hq.call("GET", f"/v1/coupons/{given.coupon_id}", status=200)["home"] == "t1"
    with station.till.database.read() as conn:
        assert rights.at_home(conn, given.coupon_id) is None
    assert violations(chain.hq) == []


def test_behind_a_page_that_cannot_be_read_the_rest_is_saved(chain: Chain, station: Station) -> None:
    station.line.offline = True
    for number in range(7, 30):
        station.sell(f"o{number}")
    station.line.offline = False
    station.close()
    data = bytearray(station.path.read_bytes())
    page = data.rindex(b'"order":"o15"') // 4096 * 4096
    data[page : page + 8] = b"\xff" * 8
    station.path.write_bytes(bytes(data))
    station.open()

    mend(station, None)
    station.sync()

    assert states(chain, "o1", "o29") == ["PAID", "PAID"]
    assert findings(chain.hq)["tail_lost"] == 1
    assert violations(chain.hq) == []


def test_a_file_of_which_nothing_can_be_read_comes_back_from_the_server(chain: Chain, station: Station) -> None:
    """SQLite's own words about it are no text."""
    station.sync()
    station.close()
    data = station.path.read_bytes()
    place = data.index(b"ix_punch_card_member_id")
    station.path.write_bytes(data[:place] + b"\xf4x\xf5y" + data[place + 4 :])

    begun = mend(station, None)

    assert begun is not None
    station.sync()
    assert states(chain, "o1", "o6") == ["PAID", "PAID"]
    assert violations(chain.hq) == []


def test_the_second_copy_gives_what_the_file_has_lost(chain: Chain, station: Station, copy: SecondCopy) -> None:
    copied = copy.catch_up(station.till.database)
    flip_a_sale(station, b'"order":"o5"')

    begun = mend(station, copy)
    station.sync()

    assert (copied, begun) == (6, Begun(2, 3, whole=True))
    assert states(chain, *ALL) == ["PAID"] * 6
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


@pytest.mark.parametrize("what", ["gone", "zeros", "half", "empty"])
def test_a_file_that_is_lost_comes_back_from_the_second_copy(
    chain: Chain, station: Station, copy: SecondCopy, what: str
) -> None:
    copy.catch_up(station.till.database)
    station.close()
    data = station.path.read_bytes()
    for end in ("-wal", "-shm"):
        station.path.with_name(f"till.db{end}").unlink(missing_ok=True)
    station.path.write_bytes({"zeros": b"\0" * 65536, "half": data[: len(data) // 2]}.get(what, b""))
    if what == "gone":
        station.path.unlink()
    station.open()

    begun = mend(station, copy)
    station.sell("o7")
    station.sync()

    assert begun is not None and begun.carried == 3
    assert states(chain, *ALL, "o7") == ["PAID"] * 7
    assert findings(chain.hq) == {}
    assert violations(chain.hq) == []


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= 3)) for n in range(12)])
def test_whatever_bits_flip_nothing_is_lost_that_the_second_copy_has(
    chain: Chain, station: Station, copy: SecondCopy, seed: int
) -> None:
    copy.catch_up(station.till.database)
    station.close()
    draw, data = random.Random(seed), bytearray(station.path.read_bytes())
    for _ in range(20):
        data[draw.randrange(100, len(data))] ^= 1 << draw.randrange(8)
    station.path.write_bytes(bytes(data))

    recover_from(station, copy)
    station.sync()

    assert states(chain, *ALL) == ["PAID"] * 6
    assert violations(chain.hq) == []


def recover_from(station: Station, copy: SecondCopy) -> None:
    station.key = station.chain.hq.take_in()
    go_on(station, copy)


@pytest.mark.parametrize("faults", [(Fault.LOSE_REQUEST,), (Fault.LOSE_ANSWER,), (Fault.NONE, Fault.LOSE_ANSWER)])
def test_a_recovery_that_broke_off_changes_nothing_and_goes_on(
    chain: Chain, station: Station, copy: SecondCopy, faults: tuple[Fault, ...]
) -> None:
    copy.catch_up(station.till.database)
    flip_a_sale(station, b'"order":"o5"')
    before = station.path.read_bytes()
    station.line.plan(*faults)

    with pytest.raises(Offline):
        mend(station, copy)
    after = station.path.read_bytes()
    begun = go_on(station, copy)
    station.sync()

    assert (after == before, begun) == (True, Begun(2, 3, whole=True))
    assert states(chain, *ALL) == ["PAID"] * 6


def test_a_recovery_that_died_before_it_put_the_file_in_place_goes_on(
    chain: Chain, station: Station, copy: SecondCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.catch_up(station.till.database)
    flip_a_sale(station, b'"order":"o5"')

    def die(path: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "put_in_place", die)
        with pytest.raises(KeyboardInterrupt):
            mend(station, copy)
    begun = go_on(station, copy)
    station.sync()

    assert begun is None
    assert states(chain, *ALL) == ["PAID"] * 6


def test_a_recovery_behind_a_new_epoch_that_was_never_entered_gives_no_right_back(
    chain: Chain, station: Station
) -> None:
    """What was lost may have used them; that the epoch which nobody entered is empty says nothing of it."""
    chain.hq.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "300.00"}, status=200)
    station.sync()
    station.lent("value:m1", 20_000)
    image = station.keep_a_copy()
    station.sell("o7")
    station.engine.look()
    station.go_back_to(image)
    station.line.plan(Fault.LOSE_ANSWER)
    with station.engine.paused(), pytest.raises(Offline):
        station.till.begin_epoch(ServerRegistry(station.client, "t1"))

    begun = mend(station, None)
    station.sync()

    assert begun == Begun(3, 0, whole=False)
    assert [each["left"] for each in chain.hq.call("GET", "/v1/tills/t1/rights")["leases"]] == [20_000]
    assert violations(chain.hq) == []


def test_the_damaged_file_is_kept(chain: Chain, station: Station) -> None:
    flip_a_sale(station, b'"order":"o5"')
    station.close()
    before = station.path.read_bytes()

    mend(station, None)

    assert station.path.with_name("till.db.damaged-1").read_bytes() == before


def test_a_till_that_is_open_is_not_recovered_under_its_feet(chain: Chain, station: Station) -> None:
    with pytest.raises(LedgerLocked):
        go_on(station, None)

    assert sorted(file.name for file in station.path.parent.iterdir() if "till.db." in file.name) == ["till.db.lock"]
    assert chain.hq.call("GET", "/v1/findings", status=200)["open"] == {}


# ------------------------------------------------------------------ the second copy


def test_the_copy_lags_by_what_was_sold_since(station: Station, copy: SecondCopy) -> None:
    db = station.till.database
    lags = [copy.lag(db)]
    copy.catch_up(db)
    lags.append(copy.lag(db))
    station.sell("o7")
    lags.append(copy.lag(db))

    assert lags == [6, 0, 1]
    assert (copy.catch_up(db), copy.catch_up(db)) == (1, 0)


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_half_a_line_is_written_anew(station: Station, copy: SecondCopy, cut: int) -> None:
    db = station.till.database
    copy.catch_up(db)
    whole = copy.path.read_bytes()
    copy.path.write_bytes(whole[:-cut])

    copy.catch_up(db)

    assert copy.path.read_bytes() == whole


def test_what_is_no_line_at_the_end_is_cut_off(station: Station, copy: SecondCopy) -> None:
    db = station.till.database
    copy.catch_up(db)
    whole = copy.path.read_bytes()
    copy.path.write_bytes(whole + b"\0" * 9000)

    copy.catch_up(db)

    assert copy.path.read_bytes() == whole


def test_a_disk_that_was_set_back_is_found_by_the_copy_and_comes_back_whole(
    chain: Chain, station: Station, copy: SecondCopy
) -> None:
    """Nothing of it was ever announced, so only what lies outside of the image knows (PROTOCOL, F13)."""
    image = station.keep_a_copy()
    station.line.offline = True
    station.sell("o7")
    copy.catch_up(station.till.database)
    station.line.offline = False
    station.go_back_to(image)

    told = copy.goes_further(station.till.database)
    mend(station, copy)
    station.sync()

    assert "goes to entry 7" in told
    assert copy.goes_further(station.till.database) == ""
    assert states(chain, *ALL, "o7") == ["PAID"] * 7


def test_what_a_disk_that_was_set_back_sold_twice_under_one_number_is_all_kept(
    chain: Chain, station: Station, copy: SecondCopy
) -> None:
    image = station.keep_a_copy()
    station.line.offline = True
    station.sell("o7")
    station.sell("o8")
    copy.catch_up(station.till.database)
    station.go_back_to(image)
    station.sell("p7", "B")
    station.line.offline = False

    begun = mend(station, copy)
    station.sync()

    assert begun == Begun(2, 6, whole=False)
    assert states(chain, *ALL, "o7", "o8", "p7") == ["PAID"] * 9
    assert violations(chain.hq) == []


# ------------------------------------------------------------------ the look at night


def test_the_look_at_night_finds_what_the_start_does_not_look_at(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.boot.CHECKED_ENTRIES", 1)
    flip_a_sale(station, b'"order":"o2"')
    at_start = station.till.status().damaged

    wrong = station.till.database.check_everything()

    assert at_start == ""
    assert "entry 2" in wrong and station.till.status().damaged == wrong


def test_the_look_at_night_is_content_with_a_sound_ledger(chain: Chain, station: Station, copy: SecondCopy) -> None:
    assert station.till.database.check_everything() == ""

    copy.catch_up(station.till.database)
    flip_a_sale(station, b'"order":"o5"')
    mend(station, None)

    assert station.till.database.check_everything() == ""


def test_what_was_saved_can_be_read_though_the_line_dies_behind_the_new_epoch(chain: Chain, station: Station) -> None:
    flip_a_sale(station, b'"order":"o5"')
    station.line.plan(Fault.NONE, Fault.NONE, Fault.NONE, Fault.LOSE_REQUEST)

    mend(station, None)
    station.line.offline = True

    assert station.till.receipt("o6") is not None
