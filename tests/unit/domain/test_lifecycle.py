"""Life cycles: a table that cannot be trusted does not load, and what it does not list is refused."""

import json
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from app.domain.lifecycle import InvalidLifecycle, Lifecycle, Step
from app.domain.refusals import Refusal, RefusalCode
from app.domain.states import (
    VOCABULARIES,
    WINDOW_OVER,
    CampaignEvent,
    CampaignState,
    CouponEvent,
    CouponState,
    OrderEvent,
    OrderState,
    Vocabulary,
)
from resources.lifecycles import load, load_all, read

WORDS = Vocabulary(frozenset({"IN", "OUT"}), frozenset({"take", "give", "lose"}), frozenset({"late", "wet"}))
TABLE: dict[str, Any] = {
    "initial": "IN",
    "states": {"IN": {}, "OUT": {"holds": True}, "GONE": {"terminal": True}},
    "rows": [
        {"from": "IN", "event": "take", "to": "OUT"},
        {"from": "OUT", "event": "give", "unless": "late", "to": "IN"},
        {"from": "OUT", "event": "give", "when": "late", "to": "GONE"},
        {"from": "OUT", "event": "lose", "when": "wet", "to": "GONE"},
    ],
}


def problems_of(**changes: Any) -> tuple[str, ...]:
    """Break the good table at the named keys and return what the check says."""
    with pytest.raises(InvalidLifecycle) as broken:
        Lifecycle.from_table({**deepcopy(TABLE), **changes}, WORDS)
    assert str(broken.value) == "; ".join(broken.value.problems)
    return broken.value.problems


def rows_and(*more: Any) -> list[Any]:
    return [*TABLE["rows"], *more]


# ---- the engine


def test_a_step_says_from_where_by_what_and_to_where() -> None:
    cycle = Lifecycle.from_table(TABLE, WORDS)

    assert cycle.step("IN", "take") == Step("IN", "take", "OUT")


def test_a_guards_answer_chooses_the_target() -> None:
    cycle = Lifecycle.from_table(TABLE, WORDS)

    assert cycle.step("OUT", "give", {"late": False}) == Step("OUT", "give", "IN")
    assert cycle.step("OUT", "give", {"late": True}) == Step("OUT", "give", "GONE")


def test_a_step_whose_only_guard_says_no_is_refused() -> None:
    cycle = Lifecycle.from_table(TABLE, WORDS)

    assert cycle.step("OUT", "lose", {"wet": True}) == Step("OUT", "lose", "GONE")
    assert cycle.step("OUT", "lose", {"wet": False}) == refused("OUT", "lose")


def test_a_guard_that_nobody_decided_is_our_bug() -> None:
    cycle = Lifecycle.from_table(TABLE, WORDS)

    with pytest.raises(AssertionError, match="nobody decided late"):
        cycle.step("OUT", "give")


def test_states_and_events_that_no_table_knows_are_refused() -> None:
    cycle = Lifecycle.from_table(TABLE, WORDS)

    assert cycle.step("NOWHERE", "take") == refused("NOWHERE", "take")
    assert cycle.step("IN", "explode") == refused("IN", "explode")


def test_the_sources_of_an_event_are_those_of_its_conditional_write() -> None:
    cycle = Lifecycle.from_table(TABLE, WORDS)

    assert cycle.sources("give") == ("OUT",)
    assert cycle.sources("explode") == ()


def test_a_refusals_facts_are_plain_text_that_goes_on_the_wire() -> None:
    no = load("order").step(OrderState.PAID, OrderEvent.CANCEL)

    assert isinstance(no, Refusal)
    assert json.loads(json.dumps(no.to_json())) == {
        "code": "illegal_transition",
        "facts": {"state": "PAID", "event": "cancel"},
    }
    assert [type(fact) for fact in no.facts.values()] == [str, str]


# ---- what the check finds


def test_a_missing_key_is_found() -> None:
    with pytest.raises(InvalidLifecycle, match="table: states is missing; table: rows is missing"):
        Lifecycle.from_table({"initial": "IN"}, WORDS)


def test_a_mistyped_key_is_found_since_it_would_guard_nothing() -> None:
    assert problems_of(states={**TABLE["states"], "OUT": {"hold": True}}) == ("OUT: unknown key hold",)
    assert problems_of(rows=rows_and({"from": "IN", "event": "take", "to": "IN", "if": "late"})) == (
        "row 5: unknown key if",
    )


def test_a_value_of_the_wrong_type_is_found() -> None:
    assert problems_of(initial=1) == ("table: initial is not a str",)
    assert problems_of(states={**TABLE["states"], "OUT": {"holds": "yes"}}) == ("OUT: holds is not a bool",)
    assert problems_of(states={**TABLE["states"], "OUT": True}) == ("OUT: not a table",)
    assert problems_of(rows=rows_and("IN")) == ("row 5: not a table",)


def test_a_row_with_two_kinds_of_guard_is_found() -> None:
    row = {"from": "OUT", "event": "take", "to": "IN", "when": "late", "unless": "wet"}

    assert problems_of(rows=rows_and(row)) == ("row 5: both when and unless",)


def test_states_that_are_not_declared_are_found_in_rows_and_at_the_start() -> None:
    assert problems_of(initial="BEGIN") == ("state BEGIN is not declared",)
    assert problems_of(rows=rows_and({"from": "HERE", "event": "take", "to": "THERE"})) == (
        "state HERE is not declared",
        "state THERE is not declared",
    )


def test_a_state_that_the_code_names_must_be_in_the_table() -> None:
    states = {"IN": {"terminal": True}}

    assert problems_of(states=states, rows=[]) == ("state OUT is not declared",)


def test_an_event_that_nothing_fires_is_found() -> None:
    assert problems_of(rows=rows_and({"from": "IN", "event": "tkae", "to": "OUT"})) == ("nothing fires event tkae",)


def test_a_guard_that_nothing_decides_is_found() -> None:
    row = {"from": "IN", "event": "lose", "to": "GONE", "when": "moon_full"}

    assert problems_of(rows=rows_and(row)) == ("nothing decides guard moon_full",)


@pytest.mark.parametrize(
    "row",
    [
        {"from": "IN", "event": "take", "to": "GONE"},
        {"from": "IN", "event": "take", "to": "OUT"},
        {"from": "OUT", "event": "give", "to": "GONE", "when": "late"},
    ],
)
def test_two_targets_for_one_answer_are_found(row: dict[str, str]) -> None:
    problem = f"{row['event']} from {row['from']} has two targets for one answer"

    assert problems_of(rows=rows_and(row)) == (problem,)


@pytest.mark.parametrize("guard", [{}, {"when": "wet"}])
def test_an_event_that_hangs_on_two_guards_is_found(guard: dict[str, str]) -> None:
    row = {"from": "OUT", "event": "give", "to": "GONE", **guard}

    assert problems_of(rows=rows_and(row)) == ("give from OUT depends on more than one guard",)


def test_a_state_that_cannot_be_reached_is_found() -> None:
    states = {**TABLE["states"], "ISLAND": {}}
    row = {"from": "ISLAND", "event": "take", "to": "IN"}

    assert problems_of(states=states, rows=rows_and(row)) == ("ISLAND cannot be reached",)


def test_a_terminal_state_with_a_way_out_is_found() -> None:
    assert problems_of(rows=rows_and({"from": "GONE", "event": "take", "to": "IN"})) == (
        "GONE is terminal and has a way out",
    )


def test_a_terminal_state_may_answer_an_event_by_staying() -> None:
    table = {**TABLE, "rows": rows_and({"from": "GONE", "event": "lose", "to": "GONE"})}

    assert Lifecycle.from_table(table, WORDS).step("GONE", "lose") == Step("GONE", "lose", "GONE")


def test_a_dead_end_that_is_not_declared_terminal_is_found() -> None:
    states = {**TABLE["states"], "GONE": {}}

    assert problems_of(states=states) == ("GONE has no way out and is not declared terminal",)


def test_a_terminal_state_that_holds_something_is_found() -> None:
    states = {**TABLE["states"], "GONE": {"terminal": True, "holds": True}}

    assert problems_of(states=states) == ("GONE holds money or stock and has no sure way to let go of it",)


def test_a_circle_of_states_that_hold_and_never_let_go_is_found() -> None:
    states = {"IN": {"holds": True}, "OUT": {"holds": True}, "GONE": {"terminal": True}}

    assert problems_of(states=states, rows=[row for row in TABLE["rows"] if row.get("when") != "late"]) == (
        "IN holds money or stock and has no sure way to let go of it",
        "OUT holds money or stock and has no sure way to let go of it",
    )


def test_a_way_out_that_a_guard_can_close_is_no_sure_way() -> None:
    rows = [TABLE["rows"][0], TABLE["rows"][1], TABLE["rows"][3]]

    assert problems_of(rows=rows) == ("OUT holds money or stock and has no sure way to let go of it",)


def test_all_that_is_wrong_is_told_at_once() -> None:
    problems = problems_of(
        states={**TABLE["states"], "ISLAND": {}}, rows=rows_and({"from": "IN", "event": "take", "to": "GONE"})
    )

    assert problems == (
        "take from IN has two targets for one answer",
        "ISLAND cannot be reached",
        "ISLAND has no way out and is not declared terminal",
    )


# ---- the tables of RULES, row by row; every other pair is refused

ISSUED, FROZEN, USED, EXPIRED, REVOKED = CouponState
LEGAL: dict[str, dict[tuple[str, str, bool], str]] = {
    "coupon": {
        ("ISSUED", "lock", False): "FROZEN",
        ("ISSUED", "lock", True): "FROZEN",
        ("ISSUED", "expire", True): "EXPIRED",
        ("ISSUED", "revoke", False): "REVOKED",
        ("ISSUED", "revoke", True): "REVOKED",
        ("FROZEN", "pay_success", False): "USED",
        ("FROZEN", "pay_success", True): "USED",
        ("FROZEN", "pay_timeout", False): "ISSUED",
        ("FROZEN", "pay_timeout", True): "EXPIRED",
        ("FROZEN", "pay_failed", False): "ISSUED",
        ("FROZEN", "pay_failed", True): "EXPIRED",
        ("FROZEN", "cancel", False): "ISSUED",
        ("FROZEN", "cancel", True): "EXPIRED",
        ("USED", "return", False): "ISSUED",
        ("USED", "return", True): "EXPIRED",
    },
    "order": {
        (state, event, over): to
        for over in (False, True)
        for (state, event), to in {
            ("OPEN", "hold"): "HELD",
            ("OPEN", "pay_success"): "PAID",
            ("HELD", "pay_success"): "PAID",
            ("HELD", "pay_failed"): "CANCELLED",
            ("HELD", "cancel"): "CANCELLED",
            ("HELD", "pay_timeout"): "CANCELLED",
            ("HELD", "no_answer"): "UNKNOWN",
            ("UNKNOWN", "paid"): "PAID",
            ("UNKNOWN", "not_paid"): "CANCELLED",
            ("PAID", "refund_some"): "PARTLY_REFUNDED",
            ("PAID", "refund_all"): "REFUNDED",
            ("PARTLY_REFUNDED", "refund_some"): "PARTLY_REFUNDED",
            ("PARTLY_REFUNDED", "refund_all"): "REFUNDED",
            ("CANCELLED", "hold"): "HELD",
            ("CANCELLED", "cancel"): "CANCELLED",
        }.items()
    },
    "campaign": {
        (state, event, over): to
        for over in (False, True)
        for (state, event), to in {
            ("DRAFT", "schedule"): "SCHEDULED",
            ("SCHEDULED", "start"): "ACTIVE",
            ("ACTIVE", "pause"): "PAUSED",
            ("PAUSED", "resume"): "ACTIVE",
            ("ACTIVE", "end"): "ENDED",
            ("PAUSED", "end"): "ENDED",
        }.items()
    },
}
EVENTS = {"coupon": tuple(CouponEvent), "order": tuple(OrderEvent), "campaign": tuple(CampaignEvent)}
STATES = {"coupon": tuple(CouponState), "order": tuple(OrderState), "campaign": tuple(CampaignState)}
PAIRS = [(name, state, event) for name in LEGAL for state in STATES[name] for event in EVENTS[name]]


def refused(state: str, event: str) -> Refusal:
    return Refusal(RefusalCode.ILLEGAL_TRANSITION, {"state": state, "event": event})


@pytest.mark.parametrize("window_over", [False, True])
@pytest.mark.parametrize(("name", "state", "event"), PAIRS)
def test_a_pair_of_state_and_event_does_what_rules_say_and_nothing_else(
    name: str, state: str, event: str, *, window_over: bool
) -> None:
    to = LEGAL[name].get((state, event, window_over))

    outcome = load(name).step(state, event, {WINDOW_OVER: window_over})

    assert outcome == (refused(state, event) if to is None else Step(state, event, to))


@pytest.mark.parametrize("name", LEGAL)
def test_the_sources_of_every_event_are_where_it_is_legal(name: str) -> None:
    for event in EVENTS[name]:
        legal = {state for state, fired, _ in LEGAL[name] if fired == event}
        assert set(load(name).sources(event)) == legal


@pytest.mark.parametrize("name", LEGAL)
def test_a_table_has_the_states_of_the_rules_and_no_others(name: str) -> None:
    assert set(load(name).states) == set(STATES[name])


@pytest.mark.parametrize("name", LEGAL)
def test_every_event_that_the_code_fires_has_a_row(name: str) -> None:
    assert {row.event for row in load(name).rows} == VOCABULARIES[name].events


def test_what_keeps_rights_from_others_is_declared_to_hold_them() -> None:
    holding = {name: {state.name for state in load(name).states.values() if state.holds} for name in LEGAL}

    assert holding == {"coupon": {FROZEN}, "order": {"HELD", "UNKNOWN"}, "campaign": set()}


def test_what_is_over_for_good_is_declared_terminal() -> None:
    terminal = {name: {state.name for state in load(name).states.values() if state.terminal} for name in LEGAL}

    assert terminal == {"coupon": {EXPIRED, REVOKED}, "order": {"REFUNDED"}, "campaign": {"ENDED"}}


def test_each_life_begins_where_rules_say() -> None:
    assert {name: load(name).initial for name in LEGAL} == {"coupon": "ISSUED", "order": "OPEN", "campaign": "DRAFT"}


def test_a_returned_coupon_is_redeemed_anew() -> None:
    cycle, state = load("coupon"), ISSUED.value

    for event in ("lock", "pay_success", "return", "lock", "pay_success"):
        step = cycle.step(state, event, {WINDOW_OVER: False})
        assert isinstance(step, Step)
        state = step.to

    assert state == USED


# ---- loading


def test_all_tables_are_loaded_and_checked_at_start() -> None:
    assert load_all() == {name: load(name) for name in VOCABULARIES}


def test_a_table_is_read_once_per_process() -> None:
    assert load("coupon") is load("coupon")


def test_a_chains_own_table_is_read_from_its_folder_and_checked(tmp_path: Path) -> None:
    row = '[[rows]]\nfrom = "DRAFT"\nevent = "end"\nto = "ENDED"'
    own = f'initial = "DRAFT"\n[states.DRAFT]\n[states.ENDED]\nterminal = true\n{row}\n'
    (tmp_path / "campaign.toml").write_text(own, encoding="utf-8")

    with pytest.raises(InvalidLifecycle, match="state ACTIVE is not declared; state PAUSED is not declared"):
        read("campaign", tmp_path)


def test_a_chain_may_add_a_state_of_its_own(tmp_path: Path) -> None:
    shipped = files("resources.lifecycles").joinpath("campaign.toml").read_text(encoding="utf-8")
    there = '[[rows]]\nfrom = "DRAFT"\nevent = "pause"\nto = "SHELVED"'
    back = '[[rows]]\nfrom = "SHELVED"\nevent = "end"\nto = "ENDED"'
    (tmp_path / "campaign.toml").write_text(f"{shipped}\n[states.SHELVED]\n{there}\n{back}\n", encoding="utf-8")

    assert read("campaign", tmp_path).step("DRAFT", "pause") == Step("DRAFT", "pause", "SHELVED")


def test_a_name_that_the_code_has_no_words_for_is_not_loaded() -> None:
    with pytest.raises(KeyError):
        load("weather")
