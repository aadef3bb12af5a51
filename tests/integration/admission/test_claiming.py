"""Claims of a campaign behind Redis: the same answers as without it, and never one more than there is."""

from __future__ import annotations

import pytest

from server.jobs import run_due
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice


def _many(count: int, *, each: int = 1) -> list[tuple[str, str]]:
    return [(f"r{member}-{n}", f"m{member}") for n in range(each) for member in range(1, count + 1)]


def test_a_claim_is_granted_and_confirmed_before_it_is_answered(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=2, valid_days=7)

    answer = office.claim("r1")

    assert (answer["outcome"], answer["state"], answer["remaining"]) == ("ok", "ISSUED", 1)
    office.assert_sound()
    assert office.stock()["granted"] == 1


def test_a_storm_gets_exactly_what_there_is(office: RedisOffice) -> None:
    office.headquarters.furnish(members=120)
    office.headquarters.campaign(arbiter="redis", stock=20)

    counts = office.outcomes(_many(120, each=2))

    assert counts["ok"] == 20
    assert set(counts) <= {"ok", "out_of_stock", "already_claimed"}
    office.assert_sound()


def test_the_same_request_again_is_the_first_answer(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)

    first, again = office.claim("r1"), office.claim("r1")

    assert again == first
    office.assert_sound()


@pytest.mark.parametrize("per_member", [1, 2, 3])
def test_the_same_request_many_times_at_once_is_one_grant(office: RedisOffice, per_member: int) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9, per_member=per_member)

    answers = office.send([("r1", "m1")] * 30)

    assert {each.status_code for each in answers} == {201}
    assert len({each.json()["coupon"] for each in answers}) == 1
    office.assert_sound(limit=per_member)


def test_a_repeat_whose_reservation_is_new_gives_its_unit_back(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5, per_member=3)
    first = office.claim("r1")

    assert office.claim("r1") == first
    office.assert_sound(limit=3)
    assert office.stock()["granted"] == 1


def test_the_same_request_with_other_content_is_refused(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)
    office.headquarters.campaign("c2", arbiter="redis", stock=1)
    office.claim("r1")

    assert office.claim("r1", member="m2")["outcome"] == "duplicate_mismatch"
    assert office.claim("r1", campaign="c2")["outcome"] == "duplicate_mismatch"
    office.assert_sound("c2")


def test_members_get_as_many_as_allowed(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9, per_member=2)

    outcomes = [office.claim(f"r{n}")["outcome"] for n in range(4)]

    assert outcomes == ["ok", "ok", "limit_reached", "limit_reached"]
    office.assert_sound(limit=2)


def test_a_daily_limit_is_the_databases_to_keep(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9, per_member=5, per_member_per_day=1)

    assert office.claim("r1")["outcome"] == "ok"
    assert office.claim("r2")["facts"] == {"campaign": "c1", "limit_per_day": 1}
    office.assert_sound(limit=1)


def test_who_may_not_have_it_takes_no_unit(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1, tiers=["gold"])

    assert office.claim("r1")["outcome"] == "wrong_tier"
    assert office.claim("r2", member="nobody")["facts"] == {"kind": "member", "id": "nobody"}
    office.assert_sound()


def test_an_unknown_member_is_told_so_and_gives_the_unit_back(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)

    assert office.claim("r1", member="nobody")["facts"] == {"kind": "member", "id": "nobody"}
    office.assert_sound()
    assert office.claim("r2")["outcome"] == "ok"


def test_a_campaign_that_is_not_here_is_unknown(office: RedisOffice) -> None:
    assert office.claim("r1", campaign="c9")["facts"] == {"kind": "campaign", "id": "c9"}


def test_a_window_is_answered_as_without_redis(office: RedisOffice) -> None:
    office.headquarters.campaign(
        arbiter="redis", stock=1, **{"from": "2026-06-02T00:00:00+08:00", "until": "2026-06-03T00:00:00+08:00"}
    )

    assert office.claim("r1")["outcome"] == "not_started"


def test_without_stock_everybody_gets_one(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis")

    answers = [office.claim(f"r{n}", member=f"m{n}") for n in (1, 2)] + [office.claim("r3", member="m1")]

    assert [each["outcome"] for each in answers] == ["ok", "ok", "already_claimed"]
    assert answers[0]["remaining"] is None


def test_more_than_the_rate_of_a_campaign_is_told_when_to_come_again(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9, claims_per_second=2)

    answers = office.send([(f"r{n}", f"m{n}") for n in range(1, 5)])

    statuses = sorted(each.status_code for each in answers)
    assert statuses == [201, 201, 429, 429]
    refused = next(each for each in answers if each.status_code == 429)
    assert refused.headers["Retry-After"] == "1"
    assert refused.json()["outcome"] == "rate_limited"
    office.assert_sound()


def test_one_hot_campaign_does_not_slow_another(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9, claims_per_second=1)
    office.headquarters.campaign("c2", arbiter="redis", stock=9)
    office.outcomes(_many(9))

    assert office.outcomes([(f"x{n}", f"m{n}") for n in range(1, 10)], campaign="c2") == {"ok": 9}


# ------------------------------------------------------------------ asynchronous answers


def test_an_early_answer_names_the_place_to_ask(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)

    [early] = office.send([("r1", "m1")], prefer="respond-async")

    assert (early.status_code, early.json()) == (202, {"outcome": "pending", "request": "r1"})
    assert early.headers["Location"] == "/v1/claims/r1"
    told = office.told("r1")
    assert told["outcome"] == "ok" and told["coupon"]
    assert told == office.claim("r1")
    office.assert_sound()


def test_an_early_answer_says_no_at_once_where_that_is_known(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=0)

    [answer] = office.send([("r1", "m1")], prefer="respond-async")

    assert (answer.status_code, answer.json()["outcome"]) == (409, "out_of_stock")


def test_what_was_never_asked_is_not_granted(office: RedisOffice) -> None:
    told = office.headquarters.call("GET", "/v1/claims/r9", key=office.app_key, status=404)

    assert told["facts"] == {"kind": "claim", "id": "r9"}


def test_a_refused_claim_is_told_as_it_was(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="database", stock=0)
    office.claim("r1")

    assert office.headquarters.call("GET", "/v1/claims/r1", key=office.app_key, status=409)["outcome"] == "out_of_stock"


# ------------------------------------------------------------------ edits


def test_a_switch_to_redis_and_back_loses_and_doubles_nothing(office: RedisOffice) -> None:
    office.headquarters.furnish(members=60)
    office.headquarters.campaign(stock=30)
    granted = 0
    for number, arbiter in enumerate(["database", "redis", "database", "redis"]):
        shown = office.headquarters.call("PATCH", "/v1/campaigns/c1", {"arbiter": arbiter}, status=200)
        assert (shown["arbiter"], shown["arbiter_in_force"]) == (arbiter, arbiter)
        members = range(10 * number + 1, 10 * number + 11)
        granted += office.outcomes([(f"r{m}", f"m{m}") for m in members])["ok"]

    assert granted == 30
    office.assert_sound()


def test_a_pause_and_a_resume_reach_redis_at_once(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    assert office.claim("r1")["outcome"] == "ok"
    office.headquarters.call("POST", "/v1/campaigns/c1/pause", status=200)
    assert office.standing().state == "paused"
    assert office.claim("r2", member="m2")["outcome"] == "campaign_paused"
    assert office.claim("r1")["outcome"] == "ok"
    office.headquarters.call("POST", "/v1/campaigns/c1/resume", status=200)

    assert office.claim("r3", member="m2")["outcome"] == "ok"
    office.assert_sound()


def test_a_raise_and_a_cut_of_the_stock_reach_redis_at_once(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)
    office.claim("r1")
    assert office.claim("r2", member="m2")["outcome"] == "out_of_stock"
    office.headquarters.call("POST", "/v1/campaigns/c1/stock", {"by": 2}, status=200)
    assert office.claim("r3", member="m2")["outcome"] == "ok"
    office.headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 2}, status=200)

    assert office.claim("r4", member="m3")["outcome"] == "out_of_stock"
    office.assert_sound()


def test_another_limit_per_member_reaches_redis_at_once(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    office.claim("r1")
    assert office.claim("r2")["outcome"] == "already_claimed"
    office.headquarters.call("PATCH", "/v1/campaigns/c1", {"per_member": 2}, status=200)

    assert office.claim("r3")["outcome"] == "ok"
    assert office.claim("r4")["outcome"] == "limit_reached"
    office.assert_sound(limit=2)


def test_a_campaign_that_gets_a_stock_while_it_runs_is_built_anew(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis")
    office.claim("r1")
    office.headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 2}, status=200)

    assert office.claim("r2", member="m2")["outcome"] == "ok"
    assert office.claim("r3", member="m3")["outcome"] == "out_of_stock"
    office.assert_sound()


def test_a_campaign_that_ends_leaves_redis(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    office.claim("r1")
    office.headquarters.call("POST", "/v1/campaigns/c1/end", status=200)

    assert office.claim("r2", member="m2")["outcome"] == "campaign_ended"
    assert office.claim("r1")["outcome"] == "ok"
    assert office.fault() is not None


def test_a_campaign_ended_by_its_patrol_leaves_redis_as_well(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5, until="2026-06-01T11:00:00+08:00")
    office.claim("r1")
    office.headquarters.clock.pass_time(hours=2)
    run_due(office.services)

    assert office.fault() is not None
    assert office.claim("r2", member="m2")["outcome"] == "campaign_ended"


# ------------------------------------------------------------------ other ways in


def test_a_gift_counts_for_redis_at_once(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=2)
    gift = {"request": "g1", "campaign": "c1", "member": "m1", "reason": "sorry"}
    assert office.headquarters.call("POST", "/v1/gifts", gift)["outcome"] == "ok"

    assert office.standing().available == 1
    assert office.claim("r1")["outcome"] == "already_claimed"
    assert office.claim("r2", member="m2")["outcome"] == "ok"
    office.assert_sound()


# ------------------------------------------------------------------ without Redis


def test_without_redis_a_campaign_stays_on_the_database_and_says_so(headquarters: Headquarters) -> None:
    office = RedisOffice(headquarters, None)
    made = headquarters.campaign(arbiter="redis", stock=3)

    counts = office.outcomes(_many(9))
    shown = headquarters.call("GET", "/v1/campaigns/c1", status=200)

    assert made["arbiter_in_force"] == shown["arbiter_in_force"] == "database"
    assert shown["arbiter"] == "redis"
    assert counts == {"ok": 3, "out_of_stock": 6}
    office.close()
