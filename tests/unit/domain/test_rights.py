"""What an order draws on, and what is left of it."""

from __future__ import annotations

import pytest

from app.domain import rights
from app.domain.rights import Rights, rights_of

NOTHING = Rights(frozenset(), {})


def test_accounts_are_named_by_kind_and_owner() -> None:
    named = [rights.stock_id("c1"), rights.budget_id("c1"), rights.value_id("m1"), rights.uses_id("p1")]
    named.append(rights.risk_id("t1"))

    assert named == ["stock:c1", "budget:c1", "value:m1", "uses:p1", "risk:t1"]


def test_an_order_draws_on_its_coupons_budgets_card_uses_and_stored_value() -> None:
    discounts = [("c1", "k1", 500), ("c1", "k2", 300), ("auto", None, 100), ("free", "k3", 0)]

    drawn = rights_of(discounts, cards=["p1", "p2", "p1"], value=("m1", 2500), budgeted=["c1", "auto", "free"])

    assert drawn.coupons == {"k1", "k2", "k3"}
    assert dict(drawn.amounts) == {"budget:auto": 100, "budget:c1": 800, "uses:p1": 2, "uses:p2": 1, "value:m1": 2500}


def test_a_campaign_without_a_budget_draws_on_none() -> None:
    drawn = rights_of([("c1", None, 500)], cards=[], value=(None, 0), budgeted=[])

    assert drawn == NOTHING and not drawn


@pytest.mark.parametrize("drawn", [Rights(frozenset({"k1"}), {}), Rights(frozenset(), {"uses:p1": 1})])
def test_one_coupon_or_one_unit_is_something_to_decide(drawn: Rights) -> None:
    assert drawn


def test_what_others_cover_is_taken_off() -> None:
    asked = Rights(frozenset({"k1", "k2"}), {"uses:p1": 3, "value:m1": 500, "budget:c1": 100})
    held = Rights(frozenset({"k1", "k9"}), {"uses:p1": 2, "value:m1": 500, "budget:c1": 900, "stock:c1": 4})

    left = asked.less(held)

    assert left == Rights(frozenset({"k2"}), {"uses:p1": 1})
    assert not left.less(left)
