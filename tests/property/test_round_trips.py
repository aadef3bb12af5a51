"""What is written reads back: rules, quotes, refunds, lines, and the ledger's chain."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.facts import OrderFacts
from app.domain.ledger import Entry, encode_body, genesis, make_entry, verifies
from app.domain.money import Currency
from app.domain.pricing import price
from app.domain.quote_json import read_line, read_quote, read_refund, write_line, write_quote, write_refund
from app.domain.refunds import Refund, RefundLine
from app.domain.rule_json import read_rule, write_rule
from app.domain.rules import Rule
from app.domain.tenders import Tender, TenderType
from tests.property.orders import any_rules, orders

currencies = st.sampled_from(["CNY", "JPY", "KWD"]).map(Currency.of)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.sampled_from(["order", "at", "lines", "quote"]), json_values)
names = st.text("abcdefghij0123456789", min_size=1, max_size=8)


@given(any_rules(), currencies)
def test_a_rule_reads_back_as_it_was_written(rule: Rule, currency: Currency) -> None:
    written = json.loads(json.dumps(write_rule(rule, currency)))

    assert read_rule(written, currency) == rule
    assert write_rule(rule, currency) == written


@given(orders(), currencies)
def test_a_quote_reads_back_as_it_was_written(facts: OrderFacts, currency: Currency) -> None:
    quote = price(facts)

    written = json.loads(json.dumps(write_quote(quote, currency)))

    assert read_quote(written, currency) == quote
    assert [read_line(json.loads(json.dumps(write_line(line)))) for line in facts.lines] == list(facts.lines)


@given(
    st.builds(
        Refund,
        lines=st.lists(st.builds(RefundLine, st.integers(1, 9), st.integers(1, 9000)), max_size=3).map(tuple),
        amount_minor=st.integers(0, 9000),
        tenders=st.lists(st.builds(Tender, st.sampled_from(TenderType), st.integers(-9, 9000)), max_size=3).map(tuple),
        uses=st.dictionaries(names, st.integers(1, 9), max_size=2),
        returned=st.lists(names, max_size=2).map(tuple),
        budget_minor=st.dictionaries(names, st.integers(1, 9000), max_size=2),
        whole=st.booleans(),
    )
)
def test_a_refund_reads_back_as_it_was_written(refund: Refund) -> None:
    assert read_refund(json.loads(json.dumps(write_refund(refund)))) == refund


@given(bodies)
def test_a_body_reads_back_and_has_one_form(body: dict[str, object]) -> None:
    encoded = encode_body(body)

    assert json.loads(encoded) == body
    assert encode_body(json.loads(encoded)) == encoded


def chain(till_id: str, all_bodies: list[dict[str, object]]) -> list[Entry]:
    """Append one entry for each body."""
    entries: list[Entry] = []
    previous = genesis(till_id, 1)
    for seq, body in enumerate(all_bodies, start=1):
        entries.append(
            make_entry(previous, till_id=till_id, epoch=1, seq=seq, entry_id=f"e{seq}", kind="sale", data=body)
        )
        previous = entries[-1].hash
    return entries


def holds(till_id: str, entries: list[Entry]) -> bool:
    """Tell whether every entry verifies, is in its place and builds on the one before."""
    previous = genesis(till_id, 1)
    for seq, entry in enumerate(entries, start=1):
        if entry.seq != seq or entry.prev_hash != previous or not verifies(entry, till_id):
            return False
        previous = entry.hash
    return True


@given(names, st.lists(bodies, max_size=5))
def test_a_chain_as_appended_holds(till_id: str, all_bodies: list[dict[str, object]]) -> None:
    assert holds(till_id, chain(till_id, all_bodies))


@given(names, st.lists(bodies, min_size=2, max_size=5), st.data())
def test_a_chain_with_an_entry_changed_dropped_or_moved_does_not_hold(
    till_id: str, all_bodies: list[dict[str, object]], data: st.DataObject
) -> None:
    entries = chain(till_id, all_bodies)
    place = data.draw(st.integers(0, len(entries) - 2))
    bit = data.draw(st.integers(0, 8 * len(entries[place].body) - 1))
    flipped = bytearray(entries[place].body)
    flipped[bit // 8] ^= 1 << bit % 8

    changed = [*entries[:place], replace(entries[place], body=bytes(flipped)), *entries[place + 1 :]]
    dropped = [*entries[:place], *entries[place + 1 :]]
    moved = [*entries[:place], entries[place + 1], entries[place], *entries[place + 2 :]]

    assert not holds(till_id, changed)
    assert not holds(till_id, dropped)
    assert not holds(till_id, moved)


@given(names, st.lists(bodies, min_size=1, max_size=3))
def test_a_chain_of_another_till_does_not_hold(till_id: str, all_bodies: list[dict[str, object]]) -> None:
    assert not holds(till_id + "x", chain(till_id, all_bodies))


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"1", b"[]", b"null"])
def test_a_body_that_is_no_json_object_is_an_error_and_not_a_wrong_answer(body: bytes) -> None:
    entry = replace(chain("t1", [{}])[0], body=body)

    with pytest.raises(ValueError, match=r".+"):
        entry.read()
