"""What a step was expected to answer is compared by the rules of the format, and every difference is told."""

from __future__ import annotations

import pytest

from app.domain.money import Currency
from server.scenario.comparing import Came, differences, named
from server.scenario.steps import VERBS, Check, Expect
from server.scenario.values import Minor

CNY = Currency.of("CNY")


def expecting(verb: str, **keys: object) -> Came:
    """Return what a file names, as it is compared."""
    model: type[Expect] = VERBS[verb].expect
    return named(model.model_validate(keys, context={"currency": CNY}))


def test_only_what_is_named_is_compared() -> None:
    came = {"outcome": "ok", "payable": Minor(8000), "discount": Minor(1), "used": ["k1"]}

    assert differences(expecting("quote", payable="80.00"), came, CNY) == []
    assert differences(expecting("quote", payable="80"), came, CNY) == []


def test_the_outcome_is_ok_unless_the_file_says_otherwise() -> None:
    assert differences(expecting("claim"), {"outcome": "expired"}, CNY) == ['outcome: expected "ok", came "expired"']
    assert differences(expecting("claim", outcome="expired"), {"outcome": "expired"}, CNY) == []


def test_a_difference_is_shown_as_the_file_would_write_it() -> None:
    came = {"outcome": "ok", "payable": Minor(7999)}

    assert differences(expecting("quote", payable="80.00", used=["k1"]), came, CNY) == [
        'payable: expected "80.00", came "79.99"',
        'used: expected ["k1"], came nothing',
    ]


@pytest.mark.parametrize(
    ("verb", "key", "want", "have"),
    [
        ("quote", "refused", {"k1": "expired"}, {"k1": "expired", "k2": "frozen"}),
        ("quote", "refused", {}, {"k2": "frozen"}),
        ("refund", "tenders", {"cash": "1.00"}, {"cash": Minor(100), "rounding": Minor(2)}),
        ("jobs", "findings", {}, {"late_payment": 1}),
    ],
)
def test_refused_tenders_and_findings_are_compared_whole(verb: str, key: str, want: object, have: object) -> None:
    assert len(differences(expecting(verb, **{key: want}), {"outcome": "ok", key: have}, CNY)) == 1


def test_other_tables_are_compared_by_the_keys_that_are_named() -> None:
    stock = {"c1": {"total": 3, "available": 0, "granted": 3}, "c2": {"total": 9}}
    came = {"outcome": "ok", "stock": stock, "balance": {"m1": Minor(5), "m2": Minor(7)}}

    assert differences(expecting("check", stock={"c1": {"available": 0}}, balance={"m1": "0.05"}), came, CNY) == []
    assert differences(expecting("check", stock={"c1": {"available": 1}}), came, CNY) == [
        "stock.c1.available: expected 1, came 0"
    ]
    assert differences(expecting("check", stock={"c9": {"available": 1}}), came, CNY) == [
        "stock.c9: expected {available = 1}, came nothing"
    ]


def test_names_have_no_order_but_each_its_count() -> None:
    came = {"outcome": "ok", "used": ["k2", "k1"]}

    assert differences(expecting("quote", used=["k1", "k2"]), came, CNY) == []
    assert differences(expecting("quote", used=["k1"]), came, CNY)
    assert differences(expecting("quote", used=["k1", "k1"]), came, CNY)
    assert differences(expecting("quote", used=[]), came, CNY)


def test_lines_are_compared_in_order_by_what_each_names_and_in_number() -> None:
    lines = [{"net": Minor(1), "discount": Minor(2)}, {"net": Minor(3), "discount": Minor(4)}]
    came = {"outcome": "ok", "lines": lines}

    assert differences(expecting("quote", lines=[{"net": "0.01"}, {"discount": "0.04"}]), came, CNY) == []
    assert differences(expecting("quote", lines=[{"net": "0.03"}, {"net": "0.01"}]), came, CNY)
    assert differences(expecting("quote", lines=[{"net": "0.01"}]), came, CNY)
    assert differences(expecting("quote", lines=[]), came, CNY)


def test_a_check_without_findings_named_does_not_look_at_them() -> None:
    assert VERBS["check"].args is Check
    assert differences(expecting("check", audit="clean"), {"audit": "clean", "outcome": "ok"}, CNY) == []
