"""Punch cards: one use covers one whole unit of the service, all that was asked for or nothing."""

from dataclasses import replace
from datetime import timedelta

from app.domain.basket import Cover, Line
from app.domain.facts import CardFacts
from app.domain.punching import cover_units
from app.domain.refusals import RefusalCode, refuse
from tests.unit.domain.shop import NOW, code, line, order

CARD = CardFacts("card1", "m1", "wash", uses_left=5)
WASHES = line(3000, sku="wash", qty_milli=2000)


def tried(
    *covers: tuple[str, int], basket: tuple[Line, ...] = (WASHES,), cards: tuple[CardFacts, ...] = (CARD,), **more
):
    facts = order(basket, covers=[Cover(*cover) for cover in covers], cards={card.id: card for card in cards}, **more)
    held, refused = cover_units(facts)
    return [(cover.card_id, cover.line) for cover in held], refused


def test_one_use_covers_one_unit() -> None:
    assert tried(("card1", 1), ("card1", 1)) == ([("card1", 1), ("card1", 1)], {})


def test_no_more_units_are_covered_than_there_are() -> None:
    held, refused = tried(("card1", 1), ("card1", 1), ("card1", 1))

    assert (held, refused) == ([], {"card1": refuse(RefusalCode.NOTHING_ELIGIBLE, card="card1", line=1)})


def test_the_last_use_covers_and_one_more_does_not() -> None:
    assert tried(("card1", 1), ("card1", 1), cards=(replace(CARD, uses_left=2),))[1] == {}

    held, refused = tried(("card1", 1), ("card1", 1), cards=(replace(CARD, uses_left=1),))

    assert (held, refused) == ([], {"card1": refuse(RefusalCode.INSUFFICIENT_USES, card="card1", uses_left=1)})


def test_a_card_covers_its_service_alone() -> None:
    assert code(tried(("card1", 1), basket=(line(3000, sku="cut"),))[1]["card1"]) is RefusalCode.NOTHING_ELIGIBLE


def test_a_line_that_is_not_there_cannot_be_covered() -> None:
    assert tried(("card1", 2))[1] == {"card1": refuse(RefusalCode.NOTHING_ELIGIBLE, card="card1", line=2)}


def test_goods_by_weight_cannot_be_covered() -> None:
    basket = (replace(WASHES, by_weight=True),)

    assert code(tried(("card1", 1), basket=basket)[1]["card1"]) is RefusalCode.NOTHING_ELIGIBLE


def test_a_card_ends_at_its_instant() -> None:
    assert tried(("card1", 1), cards=(replace(CARD, until_at=NOW + timedelta(microseconds=1)),))[1] == {}

    refused = tried(("card1", 1), cards=(replace(CARD, until_at=NOW),))[1]

    assert refused == {"card1": refuse(RefusalCode.EXPIRED, card="card1", until_at=NOW.isoformat())}


def test_a_card_is_for_its_member() -> None:
    assert tried(("card1", 1), cards=(replace(CARD, member_id="m2"),))[1] == {
        "card1": refuse(RefusalCode.WRONG_MEMBER, card="card1")
    }
    assert code(tried(("card1", 1), member=None)[1]["card1"]) is RefusalCode.WRONG_MEMBER


def test_a_reason_from_outside_goes_behind_the_end_and_before_the_member() -> None:
    blocked = replace(CARD, blocked=refuse(RefusalCode.NEEDS_ONLINE), member_id="m2")

    assert tried(("card1", 1), cards=(blocked,))[1] == {"card1": refuse(RefusalCode.NEEDS_ONLINE)}
    assert code(tried(("card1", 1), cards=(replace(blocked, until_at=NOW),))[1]["card1"]) is RefusalCode.EXPIRED


def test_an_unknown_card_keeps_its_reason() -> None:
    reason = refuse(RefusalCode.UNKNOWN_CODE, card="card9")

    assert tried(("card9", 1), ("card1", 1), unknown={"card9": reason}) == ([("card1", 1)], {"card9": reason})


def test_a_card_that_fails_once_covers_nothing() -> None:
    held, refused = tried(("card1", 1), ("card1", 2), basket=(WASHES, line(1000, number=2)))

    assert held == []
    assert refused["card1"].facts["line"] == 2


def test_two_cards_share_the_units_of_a_line_and_the_first_stays() -> None:
    cards = (CARD, replace(CARD, id="card2"))

    assert tried(("card1", 1), ("card2", 1), cards=cards) == ([("card1", 1), ("card2", 1)], {})
    held, refused = tried(("card1", 1), ("card2", 1), ("card1", 1), cards=cards)
    assert held == [("card1", 1), ("card1", 1)]
    assert refused == {"card2": refuse(RefusalCode.NOTHING_ELIGIBLE, card="card2", line=1)}


def test_a_refused_card_keeps_no_unit_from_another() -> None:
    cards = (CARD, replace(CARD, id="card2"))

    held, refused = tried(("card1", 1), ("card1", 1), ("card1", 2), ("card2", 1), ("card2", 1), cards=cards)

    assert held == [("card2", 1), ("card2", 1)]
    assert set(refused) == {"card1"}
