"""Renewal: what a till asks for and gives back, by its need; never more, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.renewal import Demand, HeldLease, Policy, Renewal, Wanted, decide_renewal
from tests.unit.domain.shop import NOW

POLICY = Policy(value_each_minor=20_000, value_total_minor=50_000)
LONG_AGO = NOW - timedelta(hours=1)


def lease(name: str = "l1", qty: int = 10, left: int | None = None, **keys: Any) -> HeldLease:
    return HeldLease(name, qty, qty if left is None else left, **{"touched_at": LONG_AGO, **keys})


def wanted(account_id: str = "stock:c1", drawn: int = 0, largest: int = 1, **keys: Any) -> Wanted:
    return Wanted(account_id, **{"allowed": True, "demand": Demand(drawn, largest), **keys})


def decide(*accounts: Wanted, hours: int = 8, asking: bool = True, policy: Policy = POLICY) -> Renewal:
    return decide_renewal(accounts, policy, hours=hours, asking=asking, now=NOW)


# ------------------------------------------------------------------ asking


@pytest.mark.parametrize(
    ("drawn", "hours", "asked"),
    [(8, 8, 12), (8, 16, 6), (8, 80, 2), (1, 160, 1), (7, 8, 11)],
)
def test_a_till_asks_for_one_and_a_half_times_its_demand_in_the_hours_planned(
    drawn: int, hours: int, asked: int
) -> None:
    assert decide(wanted(drawn=drawn), hours=hours).ask == (("stock:c1", asked),)


def test_it_asks_for_the_largest_single_use_at_least() -> None:
    assert decide(wanted("value:m1", drawn=3_000, largest=3_000), hours=100).ask == (("value:m1", 3_000),)


def test_what_was_never_drawn_here_is_not_asked_for() -> None:
    assert decide(wanted(drawn=0)) == Renewal()


@pytest.mark.parametrize(("left", "asks"), [(4, 0), (3, 0), (2, 1)])
def test_more_is_asked_for_once_more_than_seven_tenths_are_used(left: int, asks: int) -> None:
    found = decide(wanted(drawn=8, leases=(lease(qty=10, left=left, touched_at=NOW),)))

    assert len(found.ask) == asks and found.close == ()


def test_what_is_missing_is_asked_for_and_no_more() -> None:
    found = decide(wanted(drawn=8, leases=(lease(qty=10, left=2, touched_at=NOW),)))

    assert found.ask == (("stock:c1", 10),)


@pytest.mark.parametrize(
    "keys",
    [
        {"waiting": True},
        {"allowed": False},
        {"refused_at": NOW - POLICY.rest + timedelta(seconds=1)},
        {"refused_at": NOW},
    ],
)
def test_nothing_is_asked_for_while_it_waits_or_rests_or_may_not(keys: dict[str, Any]) -> None:
    assert decide(wanted(drawn=8, **keys)) == Renewal()


@pytest.mark.parametrize("ago", [POLICY.rest, timedelta(seconds=-1)])
def test_after_the_rest_and_behind_a_clock_that_went_back_it_is_asked_again(ago: timedelta) -> None:
    assert decide(wanted(drawn=8, refused_at=NOW - ago)).ask == (("stock:c1", 12),)


def test_nothing_is_asked_for_when_the_day_is_over() -> None:
    found = decide(wanted(drawn=8, leases=(lease(),)), asking=False)

    assert found == Renewal(close=("l1",))


# ------------------------------------------------------------------ persons


def test_a_members_value_is_bounded_for_each_and_in_all() -> None:
    members = [wanted(f"value:m{n}", drawn=90_000 - n, largest=90_000) for n in range(4)]

    found = decide(*members)

    assert found.ask == (("value:m0", 20_000), ("value:m1", 20_000), ("value:m2", 10_000))


def test_card_uses_are_bounded_and_so_is_the_number_of_persons() -> None:
    policy = replace(POLICY, persons_max=1)

    found = decide(wanted("uses:p1", drawn=90), wanted("uses:p2", drawn=80), wanted(drawn=8), policy=policy)

    assert found.ask == (("uses:p1", 5), ("stock:c1", 12))


def test_a_session_asks_for_no_more_than_so_many() -> None:
    found = decide(*(wanted(f"stock:c{n}", drawn=8) for n in range(30)))

    assert len(found.ask) == POLICY.asks_max


# ------------------------------------------------------------------ closing


def test_what_lies_idle_and_is_more_than_twice_the_need_goes_back_and_a_smaller_one_is_asked_for() -> None:
    found = decide(wanted(drawn=1, leases=(lease(qty=10),)), hours=8)

    assert found == Renewal(close=("l1",), ask=(("stock:c1", 2),))


@pytest.mark.parametrize(
    "held",
    [
        lease(qty=4),
        lease(qty=10, touched_at=NOW - POLICY.idle + timedelta(seconds=1)),
        lease(qty=10, busy=True),
    ],
)
def test_what_is_of_use_is_kept(held: HeldLease) -> None:
    assert decide(wanted(drawn=1, leases=(held,)), hours=8) == Renewal()


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        (lease(left=0, touched_at=NOW), True),
        (lease(recalled=True, touched_at=NOW), True),
        (lease(touched_at=NOW), False),
    ],
)
def test_what_is_used_up_or_recalled_or_not_lent_any_more_goes_back_at_once(held: HeldLease, allowed: bool) -> None:
    found = decide(wanted(drawn=8, allowed=allowed, leases=(held,)))

    assert found.close == ("l1",)


def test_what_an_order_under_way_draws_on_is_never_closed() -> None:
    busy = (lease("l1", left=0, busy=True), lease("l2", recalled=True, busy=True))

    assert decide(wanted(allowed=False, leases=busy)).close == ()


# ------------------------------------------------------------------ whatever comes

_instants = st.integers(-7_200, 7_200).map(lambda s: NOW - timedelta(seconds=s))
_kinds = st.sampled_from(["stock", "budget", "value", "uses"])


@st.composite
def _leases(draw: st.DrawFn, account: int) -> tuple[HeldLease, ...]:
    found = []
    for number in range(draw(st.integers(0, 3))):
        qty = draw(st.integers(1, 50_000))
        flags = {"busy": draw(st.booleans()), "recalled": draw(st.integers(0, 9)) == 0}
        left = draw(st.integers(0, qty))
        found.append(HeldLease(f"a{account}l{number}", qty, left, touched_at=draw(_instants), **flags))
    return tuple(found)


@st.composite
def _accounts(draw: st.DrawFn) -> list[Wanted]:
    made = []
    for number in range(draw(st.integers(0, 6))):
        amount = draw(st.integers(0, 60_000))
        made.append(
            Wanted(
                f"{draw(_kinds)}:{number}",
                allowed=draw(st.booleans()),
                demand=Demand(amount, draw(st.integers(1, amount)) if amount else 0),
                leases=draw(_leases(number)),
                waiting=draw(st.booleans()),
                refused_at=draw(st.none() | _instants),
            )
        )
    return made


def _applied(accounts: list[Wanted], done: Renewal) -> list[Wanted]:
    """Return the accounts as they are once the server has granted all that was asked for."""
    asked = dict(done.ask)
    after = []
    for each in accounts:
        kept = tuple(held for held in each.leases if held.id not in done.close)
        amount = asked.get(each.account_id)
        fresh = (HeldLease(f"new:{each.account_id}", amount, amount, touched_at=NOW),) if amount else ()
        after.append(replace(each, leases=kept + fresh))
    return after


@given(_accounts(), st.integers(1, 200), st.booleans())
def test_a_decision_is_within_its_limits(accounts: list[Wanted], hours: int, asking: bool) -> None:
    done = decide(*accounts, hours=hours, asking=asking)

    by_id = {each.account_id: each for each in accounts}
    held = {lease.id: lease for each in accounts for lease in each.leases}
    assert all(not held[name].busy for name in done.close)
    assert all(amount > 0 and by_id[name].allowed and not by_id[name].waiting for name, amount in done.ask)
    assert len(done.ask) <= POLICY.asks_max and (asking or not done.ask)
    value = [amount for name, amount in done.ask if name.startswith("value:")]
    assert sum(value) <= POLICY.value_total_minor and all(amount <= POLICY.value_each_minor for amount in value)
    assert all(amount <= POLICY.uses_each for name, amount in done.ask if name.startswith("uses:"))


@given(_accounts(), st.integers(1, 200))
def test_a_till_that_got_what_it_asked_for_is_content(accounts: list[Wanted], hours: int) -> None:
    done = decide(*accounts, hours=hours)

    assert decide(*_applied(accounts, done), hours=hours) == Renewal()


@given(_accounts(), st.integers(1, 200), st.randoms())
def test_the_order_of_what_was_gathered_means_nothing(accounts: list[Wanted], hours: int, chance: Any) -> None:
    shuffled = list(accounts)
    chance.shuffle(shuffled)

    assert decide(*shuffled, hours=hours) == decide(*accounts, hours=hours)
