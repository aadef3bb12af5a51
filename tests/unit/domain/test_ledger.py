"""The ledger's chain: numbered, hashed over its bytes, broken by any change."""

import hashlib
from dataclasses import replace

import pytest

from app.domain.ledger import (
    CARRY,
    SCHEMA,
    Entry,
    carried,
    carried_id,
    carry,
    encode_body,
    entry_hash,
    genesis,
    make_entry,
    original,
    verifies,
)

FIRST = make_entry(genesis("t1", 1), till_id="t1", epoch=1, seq=1, entry_id="e1", kind="sale", data={"order": "o1"})


def test_a_body_has_one_form_only() -> None:
    assert encode_body({"b": 1, "a": ["犬", None, True]}) == '{"a":["犬",null,true],"b":1}'.encode()
    assert encode_body({"a": 1, "b": 2}) == encode_body({"b": 2, "a": 1})


def test_what_is_no_number_is_in_no_body() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_body({"a": float("nan")})


def test_an_entry_holds_what_it_was_made_of() -> None:
    assert Entry(1, 1, "e1", "sale", SCHEMA, b'{"order":"o1"}', genesis("t1", 1), FIRST.hash) == FIRST
    assert FIRST.read() == {"order": "o1"}
    assert len(FIRST.hash) == 32


def test_a_body_that_is_no_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="JSON object"):
        replace(FIRST, body=b"[]").read()


def test_the_hash_is_that_of_the_protocol() -> None:
    # Written out by hand: what stands in ledgers already must verify for ever.
    def digest(*parts: bytes) -> bytes:
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()

    start = digest(b"pawtill ledger", b"t1", b"1")
    body = hashlib.sha256(b'{"order":"o1"}').digest()

    assert genesis("t1", 1) == start
    assert FIRST.hash == digest(b"1", b"t1", b"1", b"1", b"e1", b"sale", b"1", start, body)


def test_a_chain_verifies_entry_by_entry() -> None:
    second = make_entry(FIRST.hash, till_id="t1", epoch=1, seq=2, entry_id="e2", kind="cancel", data={})

    assert second.prev_hash == FIRST.hash
    assert verifies(FIRST, "t1")
    assert verifies(second, "t1")


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 2},
        {"seq": 2},
        {"entry_id": "e2"},
        {"kind": "cancel"},
        {"schema": 2},
        {"body": b'{"order":"o2"}'},
        {"prev_hash": genesis("t1", 2)},
        {"hash": b"\0" * 32},
    ],
)
def test_any_change_breaks_the_entry(change: dict[str, object]) -> None:
    assert not verifies(replace(FIRST, **change), "t1")


def test_an_entry_belongs_to_its_till() -> None:
    assert not verifies(FIRST, "t2")
    assert genesis("t1", 1) != genesis("t2", 1) != genesis("t2", 2)


def test_neighbouring_fields_cannot_be_shifted_into_each_other() -> None:
    def hashed(entry_id: str, kind: str) -> bytes:
        return entry_hash(b"", till_id="t1", epoch=1, seq=1, entry_id=entry_id, kind=kind, body=b"")

    assert hashed("ab", "c") != hashed("a", "bc")


def test_what_is_carried_is_the_entry_itself_to_the_last_byte() -> None:
    keys = {"till_id": "t1", "epoch": 2, "seq": 1, "entry_id": carried_id("e1", 2), "kind": CARRY}
    wrapper = make_entry(genesis("t1", 2), **keys, data=carry(FIRST))  # type: ignore[arg-type]

    assert original(wrapper, "t1") == FIRST
    assert original(FIRST, "t1") is FIRST
    assert carried_id("e1", 2) != carried_id("e1", 3) != carried_id("e2", 3)


@pytest.mark.parametrize(
    "change",
    [{"seq": 2}, {"epoch": 2}, {"entry": "e2"}, {"body": "e30="}, {"body": "no"}, {"hash": "00" * 32}, {"hash": "x"}],
    ids=str,
)
def test_what_was_changed_on_its_way_is_not_carried(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        carried(carry(FIRST) | change, "t1")


@pytest.mark.parametrize("body", [{}, carry(FIRST) | {"body": 5}, carry(FIRST) | {"hash": None}], ids=str)
def test_what_has_not_the_shape_of_an_entry_is_not_carried(body: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is no entry"):
        carried(body, "t1")


def test_an_entry_of_another_till_or_a_carrier_is_not_carried() -> None:
    with pytest.raises(ValueError, match="not what was written"):
        carried(carry(FIRST), "t2")
    with pytest.raises(ValueError, match="not what was written"):
        carried(carry(FIRST) | {"kind": CARRY}, "t1")
