"""Campaigns over HTTP: creation, edits that touch no snapshot, the life cycle, limits never below what is out."""

from __future__ import annotations

from typing import Any

import pytest

from server.jobs import run_due
from server.services import feed
from tests.fakes.headquarters import Headquarters

ELEVEN_TO_TWELVE = {"from": "2026-06-01T11:00:00+08:00", "until": "2026-06-01T12:00:00+08:00"}


def _claim(headquarters: Headquarters, request: str, *, member: str = "m1", campaign: str = "c1") -> dict[str, Any]:
    body = {"request": request, "campaign": campaign, "member": member}
    return headquarters.call("POST", "/v1/claims", body, key=headquarters.new_key("app"))


def test_a_campaign_shows_its_rule_its_stock_and_its_budget(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5, budget="100.00", min_spend="50.00")

    shown = headquarters.call("GET", "/v1/campaigns/c1", status=200)

    assert (shown["state"], shown["snapshot"], shown["version"]) == ("ACTIVE", "c1/1", 1)
    assert shown["rule"]["min_spend"] == "50.00"
    assert shown["stock"]["available"] == 5
    assert shown["budget"]["available"] == "100.00"


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"stock": -1}, "stock"),
        ({"stock": 1.5}, "stock"),
        ({"stock": True}, "stock"),
        ({"arbiter": "memory"}, "arbiter"),
        ({"offline": "always"}, "offline"),
        ({"state": "LIVE"}, "state"),
        ({"state": ["ACTIVE"]}, "state"),
        ({"offline": {"lease": True}}, "offline"),
        ({"id": "a\x00b"}, "id"),
        ({"id": ".."}, "id"),
        ({"min_spend": "12.345"}, "min_spend"),
        ({"colour": "red"}, "colour"),
        ({"id": ""}, "id"),
        ({"id": "a/b"}, "id"),
        ({"kind": "automatic", "stock": 3}, "stock"),
    ],
)
def test_a_campaign_that_makes_no_sense_is_refused_by_field(
    headquarters: Headquarters, keys: dict[str, Any], field: str
) -> None:
    body = {"id": "c1", "benefit": {"type": "amount_off", "amount": "10.00"}, **keys}

    answer = headquarters.call("POST", "/v1/campaigns", body, status=409)

    assert answer["outcome"] == "invalid_campaign"
    assert answer["facts"]["field"] == field
    headquarters.call("GET", "/v1/campaigns/c1", status=404)


def test_the_same_campaign_again_is_the_first_answer_and_another_is_refused(headquarters: Headquarters) -> None:
    first = headquarters.campaign(stock=5)

    again = headquarters.campaign(stock=5)
    other = headquarters.call(
        "POST", "/v1/campaigns", {"id": "c1", "benefit": {"type": "amount_off", "amount": "9.00"}}, status=409
    )

    assert again == first
    assert other["outcome"] == "duplicate_mismatch"


def test_an_edit_makes_a_new_snapshot_and_leaves_the_coupon_its_own(headquarters: Headquarters) -> None:
    headquarters.campaign()
    coupon = _claim(headquarters, "r1")["coupon"]

    edited = headquarters.call(
        "PATCH", "/v1/campaigns/c1", {"benefit": {"type": "amount_off", "amount": "1.00"}}, status=200
    )

    held = headquarters.call("GET", f"/v1/coupons/{coupon}", status=200)
    assert (edited["snapshot"], edited["version"]) == ("c1/2", 2)
    assert edited["rule"]["benefit"]["amount"] == "1.00"
    assert held["snapshot"] == "c1/1"


def test_an_edit_that_changes_nothing_makes_no_version(headquarters: Headquarters) -> None:
    headquarters.campaign(min_spend="50.00")

    edited = headquarters.call("PATCH", "/v1/campaigns/c1", {"min_spend": "50.00"}, status=200)

    assert edited["snapshot"] == "c1/1"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "automatic"}, "kind"),
        ({"budget": None}, "budget"),
        ({"benefit": None}, "benefit"),
        ({"until": "2026-06-01"}, "until"),
        ({"offline": "never"}, "offline"),
        ({"stock": -1}, "stock"),
        ({"arbiter": "memory"}, "arbiter"),
    ],
)
def test_an_edit_that_makes_no_sense_changes_nothing(
    headquarters: Headquarters, change: dict[str, Any], field: str
) -> None:
    headquarters.campaign(stock=5, budget="100.00")
    before = headquarters.call("GET", "/v1/campaigns/c1", status=200)

    answer = headquarters.call("PATCH", "/v1/campaigns/c1", change, status=409)

    assert (answer["outcome"], answer["facts"]["field"]) == ("invalid_campaign", field)
    assert headquarters.call("GET", "/v1/campaigns/c1", status=200) == before


def test_the_life_cycle_has_these_steps_and_no_others(headquarters: Headquarters) -> None:
    headquarters.campaign(state="DRAFT")

    states = [
        headquarters.call("POST", f"/v1/campaigns/c1/{event}").get("state")
        for event in ("pause", "schedule", "start", "start", "pause", "resume", "end", "resume")
    ]

    assert states == [None, "SCHEDULED", "ACTIVE", None, "PAUSED", "ACTIVE", "ENDED", None]


def test_a_refused_step_is_remembered(headquarters: Headquarters) -> None:
    headquarters.campaign()

    refused = headquarters.call("POST", "/v1/campaigns/c1/resume", status=409)

    told = headquarters.call("GET", "/v1/campaigns/c1/history", status=200)["events"]
    assert refused == {
        "outcome": "illegal_transition",
        "facts": {"campaign": "c1", "state": "ACTIVE", "event": "resume"},
    }
    assert [(each["event"], each["to"]) for each in told] == [
        ("create", "DRAFT"),
        ("schedule", "SCHEDULED"),
        ("start", "ACTIVE"),
        ("resume", None),
    ]


def test_an_ended_campaign_is_not_edited(headquarters: Headquarters) -> None:
    headquarters.campaign(state="ENDED")

    answer = headquarters.call("PATCH", "/v1/campaigns/c1", {"min_spend": "1.00"}, status=409)

    assert answer["outcome"] == "illegal_transition"


@pytest.mark.parametrize(("by", "available"), [(3, 6), (-3, 0)])
def test_stock_is_raised_and_cut_down_to_what_is_out(headquarters: Headquarters, by: int, available: int) -> None:
    headquarters.campaign(stock=5, per_member=5)
    for number in range(2):
        _claim(headquarters, f"r{number}")

    answer = headquarters.call("POST", "/v1/campaigns/c1/stock", {"by": by}, status=200)

    assert (answer["stock"]["total"], answer["stock"]["available"], answer["stock"]["granted"]) == (
        5 + by,
        available,
        2,
    )


def test_stock_is_not_cut_below_what_is_out(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5, per_member=5)
    for number in range(2):
        _claim(headquarters, f"r{number}")

    by_post = headquarters.call("POST", "/v1/campaigns/c1/stock", {"by": -4}, status=409)
    by_edit = headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 1}, status=409)

    assert by_post["facts"] == by_edit["facts"]
    assert by_post["facts"]["out"] == 2
    assert headquarters.stock()["total"] == 5


def test_the_same_request_raises_the_stock_once(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5)

    for _ in range(2):
        headquarters.call("POST", "/v1/campaigns/c1/stock", {"by": 3, "request": "r1"}, status=200)

    assert headquarters.stock()["total"] == 8


def test_a_limit_put_on_an_unlimited_campaign_counts_what_is_out_already(headquarters: Headquarters) -> None:
    headquarters.campaign(per_member=5)
    for number in range(2):
        _claim(headquarters, f"r{number}")

    too_low = headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 1}, status=409)
    headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 3}, status=200)

    assert too_low["facts"]["field"] == "stock"
    assert (headquarters.stock()["available"], headquarters.stock()["granted"]) == (1, 2)


def test_an_unlimited_campaign_has_no_stock_to_raise(headquarters: Headquarters) -> None:
    headquarters.campaign()

    answer = headquarters.call("POST", "/v1/campaigns/c1/stock", {"by": 1}, status=409)

    assert answer["facts"]["field"] == "stock"


@pytest.mark.parametrize(("budget", "status"), [("60.00", 200), ("0.01", 200)])
def test_a_budget_is_raised_and_cut_by_an_edit(headquarters: Headquarters, budget: str, status: int) -> None:
    headquarters.campaign(budget="50.00")

    edited = headquarters.call("PATCH", "/v1/campaigns/c1", {"budget": budget}, status=status)

    assert edited["budget"]["available"] == edited["budget"]["total"] == budget


def test_a_paused_campaign_grants_nothing_and_a_resumed_one_does(headquarters: Headquarters) -> None:
    headquarters.campaign()
    headquarters.call("POST", "/v1/campaigns/c1/pause", status=200)

    paused = _claim(headquarters, "r1")
    headquarters.call("POST", "/v1/campaigns/c1/resume", status=200)
    resumed = _claim(headquarters, "r2")

    assert (paused["outcome"], resumed["outcome"]) == ("campaign_paused", "ok")


def test_the_patrol_starts_and_ends_campaigns_at_their_instants(headquarters: Headquarters) -> None:
    headquarters.campaign(state="SCHEDULED", **ELEVEN_TO_TWELVE)
    states = []

    for minutes in (59, 1, 59, 1):
        headquarters.clock.pass_time(minutes=minutes)
        run_due(headquarters.services)
        states.append(headquarters.call("GET", "/v1/campaigns/c1", status=200)["state"])

    assert states == ["SCHEDULED", "ACTIVE", "ACTIVE", "ENDED"]


def test_a_campaign_whose_whole_window_went_by_unseen_ends_in_one_walk(headquarters: Headquarters) -> None:
    headquarters.campaign(state="SCHEDULED", **ELEVEN_TO_TWELVE)
    headquarters.clock.pass_time(days=1)

    run_due(headquarters.services)

    assert headquarters.call("GET", "/v1/campaigns/c1", status=200)["state"] == "ENDED"


@pytest.mark.parametrize("key", ["from", "until", "use_from"])
@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.9999-14:00"])
def test_a_campaign_may_begin_and_end_at_the_ends_of_the_calendar(
    headquarters: Headquarters, key: str, instant: str
) -> None:
    headquarters.campaign(**{key: instant})
    body = {"request": "r1", "campaign": "c1", "member": "m1"}

    answer = headquarters.call("POST", "/v1/claims", body, key=headquarters.new_key("app"))

    assert answer["outcome"] in ("ok", "not_started", "campaign_ended")
    assert headquarters.call("GET", "/v1/campaigns/c1", status=200)["rule"][key]
    headquarters.services.read(lambda conn, _: feed.page(conn, 0, 1000))


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.9999-14:00"])
def test_a_card_that_ends_beyond_the_calendar_stops_no_till(headquarters: Headquarters, until: str) -> None:
    headquarters.call("POST", "/v1/products", [{"sku": "WASH", "price": "80.00", "kind": "service"}], status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5, "until": until}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)

    records = headquarters.services.read(lambda conn, _: feed.page(conn, 0, 1000)).records

    assert any(each.record is not None and "p1" in str(each.record) for each in records)
