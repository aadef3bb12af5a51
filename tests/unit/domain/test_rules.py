"""Scope: what a rule names, and what it leaves out."""

import pytest

from app.domain.basket import Line
from app.domain.rules import Scope, Selection
from tests.unit.domain.shop import line

BALL = line(sku="ball", category="toy", brand="Rover")


@pytest.mark.parametrize(
    "named", [{"skus": frozenset({"ball"})}, {"categories": frozenset({"toy"})}, {"brands": frozenset({"Rover"})}]
)
def test_goods_are_named_by_sku_category_or_brand(named: dict[str, frozenset[str]]) -> None:
    selection = Selection(**named)

    assert not selection.empty
    assert selection.names(BALL)
    assert not selection.names(line(sku="bone", category="food", brand="Felix"))


def test_an_empty_selection_names_nothing() -> None:
    assert Selection().empty
    assert not Selection().names(BALL)


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        (Scope(), True),
        (Scope(Selection(categories=frozenset({"toy"}))), True),
        (Scope(Selection(categories=frozenset({"food"}))), False),
        (Scope(Selection(skus=frozenset({"bone"}), brands=frozenset({"Rover"}))), True),
        (Scope(exclude=Selection(skus=frozenset({"ball"}))), False),
        (Scope(exclude=Selection(skus=frozenset({"bone"}))), True),
        (Scope(Selection(categories=frozenset({"toy"})), Selection(brands=frozenset({"Rover"}))), False),
    ],
)
def test_a_scope_holds_what_it_includes_and_does_not_exclude(scope: Scope, holds: bool) -> None:
    assert scope.holds(BALL) is holds


def test_goods_without_category_are_in_no_category() -> None:
    bare: Line = line()

    assert not Scope(Selection(categories=frozenset({"toy"}))).holds(bare)
