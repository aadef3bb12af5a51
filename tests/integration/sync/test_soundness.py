"""A ledger is sound where nothing of it is missing: then `pawtill recover` leaves it as it is."""

from __future__ import annotations

import pytest

from app.store import recovery
from app.store.errors import LedgerLocked
from app.store.second_copy import SecondCopy
from tests.fakes.station import Chain, Station


@pytest.fixture
def station(chain: Chain) -> Station:
    """Return a till with six sales that the server has not."""
    made = chain.station()
    made.sync()
    for number in range(1, 7):
        made.sell(f"o{number}")
    return made


def test_a_ledger_is_sound_with_all_that_its_second_copy_has(station: Station, copy: SecondCopy) -> None:
    image = station.keep_a_copy()
    station.sell("o7")
    copy.catch_up(station.till.database)
    with pytest.raises(LedgerLocked):
        recovery.is_sound(station.path, till_id="t1", copy=copy)
    station.close()
    whole = recovery.is_sound(station.path, till_id="t1", copy=copy)

    station.go_back_to(image)
    station.close()

    set_back = recovery.is_sound(station.path, till_id="t1", copy=copy)
    assert (whole, set_back, recovery.is_sound(station.path, till_id="t1", copy=None)) == (True, False, True)


@pytest.mark.parametrize("of", ["the file", "the mark", "an entry"])
def test_a_ledger_that_lacks_something_is_not_sound(station: Station, of: str) -> None:
    path = station.path
    station.close()
    assert recovery.is_sound(path, till_id="t1", copy=None)

    if of == "the file":
        path.unlink()
    elif of == "the mark":
        lock = path.with_name(path.name + ".lock")
        lock.write_text('{"epoch": 1, "seq": 7, "hash": "0011223344556677"}\n')
    else:
        data = bytearray(path.read_bytes())
        data[data.rindex(b'"order":"o5"') + 11] ^= 0x01
        path.write_bytes(bytes(data))

    assert not recovery.is_sound(path, till_id="t1", copy=None)
