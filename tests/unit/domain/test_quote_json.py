"""Quotes, lines, tenders and refunds as data: what is written reads back to the same value."""

from fractions import Fraction

import pytest

from app.domain.basket import Cover, Line
from app.domain.benefits import PercentOff
from app.domain.facts import CardFacts
from app.domain.money import Currency
from app.domain.quote_json import (
    read_line,
    read_quote,
    read_refund,
    read_tenders,
    write_line,
    write_quote,
    write_refund,
    write_tenders,
)
from app.domain.refunds import Refund, RefundLine
from app.domain.rules import Rule
from app.domain.tenders import Tender, TenderType
from tests.unit.domain.shop import coupon, line, off, promotion, quoted

YUAN = Currency.of("CNY")


def test_a_line_is_written_with_all_that_prices_it() -> None:
    found = Line(2, "sku2", 1999, 735, "food", "Felix", by_weight=True)

    assert write_line(found) == {
        "number": 2,
        "sku": "sku2",
        "price_minor": 1999,
        "qty_milli": 735,
        "category": "food",
        "brand": "Felix",
        "by_weight": True,
    }
    assert read_line(write_line(found)) == found


def test_a_line_with_more_keys_is_read_by_those_that_are_known() -> None:
    assert read_line({**write_line(line()), "colour": "red"}) == line()


def test_a_quote_is_written_with_its_totals_and_every_stage() -> None:
    basket = [line(3000, sku="wash", qty_milli=2000), line(4000, number=2)]
    quote = quoted(
        basket,
        coupon("k1", Rule(PercentOff(Fraction(10))), campaign="c1"),
        coupon("k2", off(min_spend_minor=99_999, group="b")),
        promotions=[promotion("p1"), promotion("p2", off(min_spend_minor=99_999))],
        covers=[Cover("card1", 1)],
        cards={"card1": CardFacts("card1", "m1", "wash", uses_left=1)},
    )

    written = write_quote(quote, YUAN)

    assert written == {
        "gross_minor": 7000,
        "discount_minor": 1150,
        "payable_minor": 5850,
        "member": "m1",
        "lines": [
            {
                "number": 1,
                "sku": "wash",
                "price_minor": 3000,
                "qty_milli": 2000,
                "covered_units": 1,
                "gross_minor": 3000,
                "discount_minor": 493,
                "net_minor": 2507,
            },
            {
                "number": 2,
                "sku": "sku2",
                "price_minor": 4000,
                "qty_milli": 1000,
                "covered_units": 0,
                "gross_minor": 4000,
                "discount_minor": 657,
                "net_minor": 3343,
            },
        ],
        "laid": [
            {
                "campaign": "p1",
                "coupon": None,
                "rule": {"benefit": {"type": "amount_off", "amount": "5.00"}, "kind": "automatic"},
                "shares_minor": [214, 286],
            },
            {
                "campaign": "c1",
                "coupon": "k1",
                "rule": {"benefit": {"type": "percent_off", "percent": "10"}, "kind": "coupon"},
                "shares_minor": [279, 371],
            },
        ],
        "covers": [{"card": "card1", "line": 1}],
        "refused": {"k2": {"code": "below_minimum", "facts": {"coupon": "k2", "missing_minor": 94149}}},
        "skipped": {"p2": {"code": "below_minimum", "facts": {"missing_minor": 93499}}},
    }
    assert read_quote(written, YUAN) == quote


def test_a_quote_whose_rule_cannot_be_read_is_an_error_that_names_the_campaign() -> None:
    written = write_quote(quoted([line()], coupon("k1", campaign="c1")), YUAN)
    written["laid"][0]["rule"] = {"benefit": {"type": "free_lunch"}}

    with pytest.raises(ValueError, match=r"campaign 'c1' cannot be read: .*benefit\.type"):
        read_quote(written, YUAN)


def test_tenders_are_written_by_type_and_amount() -> None:
    tenders = tuple(Tender(type_, amount) for amount, type_ in enumerate(TenderType, start=-2))

    assert write_tenders(tenders[:2]) == [
        {"type": "stored_value", "amount_minor": -2},
        {"type": "card", "amount_minor": -1},
    ]
    assert read_tenders(write_tenders(tenders)) == tenders


def test_a_tender_of_an_unknown_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="shells"):
        read_tenders([{"type": "shells", "amount_minor": 5}])


def test_a_refund_is_written_with_all_that_it_gives_back() -> None:
    refund = Refund(
        lines=(RefundLine(1, 1000),),
        amount_minor=998,
        tenders=(Tender(TenderType.CASH, 1000), Tender(TenderType.ROUNDING, -2)),
        uses={"card1": 1},
        returned=("k1",),
        budget_minor={"c1": 200},
        whole=True,
    )

    written = write_refund(refund)

    assert written == {
        "lines": [{"number": 1, "qty_milli": 1000}],
        "amount_minor": 998,
        "tenders": [{"type": "cash", "amount_minor": 1000}, {"type": "rounding", "amount_minor": -2}],
        "uses": {"card1": 1},
        "returned": ["k1"],
        "budget_minor": {"c1": 200},
        "whole": True,
    }
    assert read_refund(written) == refund
