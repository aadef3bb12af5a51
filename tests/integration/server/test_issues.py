"""Batch issue: everyone once, however it is steered; people see how far it is, and what failed."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from server.db import schema
from server.jobs.issuing import work_off
from server.services.issue_work import NotOurs
from tests.fakes.headquarters import Headquarters
from tests.integration.server.batch import (
    begin,
    counts,
    failures,
    found,
    names,
    show,
    steer,
    take,
    work_on,
)


@pytest.fixture
def chain(headquarters: Headquarters) -> Headquarters:
    """Set up twelve members and a campaign c1 of ten coupons."""
    return found(headquarters)


# ------------------------------------------------------------------ everyone once


def test_everyone_on_the_list_gets_one_until_the_stock_is_out(chain: Headquarters) -> None:
    created = begin(chain, members=names())

    work_off(chain.services)

    assert (created["state"], created["total"]) == ("RUNNING", 12)
    assert counts(chain) == ("DONE", 10, 2)
    assert chain.stock()["available"] == 0


def test_coupons_of_a_task_tell_it_as_their_source(chain: Headquarters) -> None:
    begin(chain, members=["m1"])
    work_off(chain.services)

    found = chain.call("GET", "/v1/members/m1/coupons", key=chain.new_key("app"))["coupons"]

    assert [coupon["source"] for coupon in found] == ["issue:t1"]


def test_failed_rows_are_told_by_line_with_their_reason_in_both_languages(chain: Headquarters) -> None:
    chain.call("POST", "/v1/gifts", {"request": "g", "campaign": "c1", "member": "m3", "reason": "x"}, status=201)
    begin(chain, members=["m1", "nobody", "m2", "m1", "m3"])

    work_off(chain.services)

    assert counts(chain) == ("DONE", 2, 3)
    assert failures(chain) == [
        ["line", "member", "reason", "原因", "explanation"],
        ["2", "nobody", "unknown_code", "查无此码", "Not known"],
        ["4", "m1", "repeated", "名单上前面已有此会员", "stands on the list before"],
        ["5", "m3", "already_claimed", "已领过", "Already claimed"],
    ]


def test_who_is_on_the_list_twice_gets_one_though_the_campaign_allows_more(headquarters: Headquarters) -> None:
    headquarters.campaign(per_member=5)
    begin(headquarters, members=["m1", "m1", "m1", "m1"], chunk=2)

    work_off(headquarters.services)

    assert counts(headquarters) == ("DONE", 1, 3)


def test_the_same_task_again_is_the_first_answer_and_another_list_is_refused(chain: Headquarters) -> None:
    first = begin(chain, members=["m1"])
    work_off(chain.services)

    again = begin(chain, members=["m1"])
    other = begin(chain, members=["m2"], status=409)

    assert again == first
    assert other["outcome"] == "duplicate_mismatch"
    assert chain.stock()["granted"] == 1


def test_two_tasks_whose_names_run_together_keep_their_members_apart(headquarters: Headquarters) -> None:
    headquarters.campaign(per_member=5)
    headquarters.call("POST", "/v1/members", {"id": "x:m1", "home_store": "s1"}, status=200)
    begin(headquarters, "t:x", members=["m1"])
    begin(headquarters, "t", members=["x:m1"])

    work_off(headquarters.services)

    assert (show(headquarters, "t")["granted"], show(headquarters, "t:x")["granted"]) == (1, 1)


def test_a_task_of_nobody_is_done(chain: Headquarters) -> None:
    assert begin(chain, members=[])["state"] == "DONE"


@pytest.mark.parametrize(
    ("campaign", "outcome"),
    [("none", "unknown_code"), ("auto", "invalid_campaign"), ("over", "campaign_ended")],
)
def test_a_campaign_that_can_give_nothing_makes_no_task(chain: Headquarters, campaign: str, outcome: str) -> None:
    chain.campaign("auto", kind="automatic")
    chain.campaign("over", state="ENDED")

    assert begin(chain, campaign=campaign, members=["m1"], status=409)["outcome"] == outcome
    chain.call("GET", "/v1/issues/t1", status=404)


# ------------------------------------------------------------------ steering


def test_a_pause_holds_and_resume_goes_on(chain: Headquarters) -> None:
    begin(chain, members=names())
    work_off(chain.services, die_after=1)

    paused = steer(chain, "pause")
    work_off(chain.services)
    held = counts(chain)
    steer(chain, "resume")
    work_off(chain.services)

    assert paused["state"] == "PAUSED"
    assert held == ("PAUSED", 3, 0)
    assert counts(chain) == ("DONE", 10, 2)


@pytest.mark.parametrize("event", ["pause", "cancel"])
def test_a_chunk_under_way_is_not_kept_once_the_task_was_stopped(chain: Headquarters, event: str) -> None:
    begin(chain, members=names())
    held = take(chain)
    steer(chain, event)

    with pytest.raises(NotOurs):
        work_on(chain, held)

    assert chain.stock()["granted"] == 0
    assert show(chain)["done"] == 0


def test_a_cancelled_task_keeps_what_it_gave_and_never_goes_on(chain: Headquarters) -> None:
    begin(chain, members=names())
    work_off(chain.services, die_after=1)

    steer(chain, "cancel")
    refused = steer(chain, "resume", status=409)
    work_off(chain.services)

    assert refused["outcome"] == "illegal_transition"
    assert counts(chain) == ("CANCELLED", 3, 0)
    assert chain.stock()["granted"] == 3


def test_steps_are_told_in_the_history_also_those_refused(chain: Headquarters) -> None:
    begin(chain, members=["m1"])
    work_off(chain.services)
    steer(chain, "pause", status=409)

    steps = schema.history.c
    told = chain.database.read(
        lambda conn: conn.execute(
            select(steps.event, steps.to_state).where(steps.subject == "issue").order_by(steps.id)
        ).all()
    )

    assert [tuple(row) for row in told] == [
        ("create", "LOADING"),
        ("load", "RUNNING"),
        ("finish", "DONE"),
        ("pause", None),
    ]


def test_a_paused_campaign_makes_the_task_wait_and_refuses_nobody(chain: Headquarters) -> None:
    begin(chain, members=names())
    chain.call("POST", "/v1/campaigns/c1/pause", {}, status=200)

    work_off(chain.services)
    waiting = show(chain)
    chain.call("POST", "/v1/campaigns/c1/resume", {}, status=200)
    work_off(chain.services)

    assert (waiting["state"], waiting["waiting_for"], waiting["done"]) == ("RUNNING", "campaign_paused", 0)
    assert counts(chain) == ("DONE", 10, 2)


def test_a_campaign_that_is_paused_while_a_chunk_is_under_way_refuses_nobody(chain: Headquarters) -> None:
    begin(chain, members=names())
    held = take(chain)
    chain.call("POST", "/v1/campaigns/c1/pause", {}, status=200)

    with pytest.raises(NotOurs):
        work_on(chain, held)

    assert show(chain)["failed"] == 0


def test_a_task_that_waits_keeps_no_other_one_waiting(chain: Headquarters) -> None:
    chain.campaign("c2")
    begin(chain, members=names())
    begin(chain, "t2", campaign="c2", members=names())
    chain.call("POST", "/v1/campaigns/c1/pause", {}, status=200)

    work_off(chain.services)

    assert show(chain, "t2")["state"] == "DONE"


def test_a_campaign_that_has_not_begun_makes_the_task_wait_for_it(chain: Headquarters) -> None:
    chain.campaign("soon", **{"from": "2026-06-01T12:00:00+08:00"})
    begin(chain, campaign="soon", members=["m1"])
    work_off(chain.services)
    waiting = show(chain)["waiting_for"]

    chain.clock.pass_time(hours=3)
    work_off(chain.services)

    assert waiting == "not_started"
    assert counts(chain) == ("DONE", 1, 0)


# ------------------------------------------------------------------ how far it is


def test_progress_tells_the_rate_and_what_remains(chain: Headquarters) -> None:
    begin(chain, members=names())
    held = take(chain)
    chain.clock.pass_time(seconds=2)

    work_on(chain, held)

    shown = show(chain)
    assert (shown["done"], shown["remaining"], shown["rate_per_s"], shown["remaining_s"]) == (3, 9, 1.5, 6)


def test_a_task_that_nobody_works_has_no_rate(chain: Headquarters) -> None:
    begin(chain, members=names())
    held = take(chain)
    chain.clock.pass_time(seconds=2)
    work_on(chain, held)

    chain.clock.pass_time(seconds=60)

    assert (show(chain)["rate_per_s"], show(chain)["remaining_s"]) == (None, None)


def test_the_newest_tasks_are_listed_first(chain: Headquarters) -> None:
    begin(chain, members=["m1"])
    chain.clock.pass_time(seconds=1)
    begin(chain, "t2", members=["m2"])

    listed = chain.call("GET", "/v1/issues", status=200)["issues"]

    assert [task["task"] for task in listed] == ["t2", "t1"]
