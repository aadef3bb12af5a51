"""Coupons over HTTP: whom a code is shown to, what revoking does and does not, what expires and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from server.db.schema import coupon
from server.jobs import run_due
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def claimed(headquarters: Headquarters) -> dict[str, Any]:
    """Let m1 claim a coupon that ends in a day."""
    headquarters.campaign(stock=5, valid_days=1, per_member=3)
    return _claim(headquarters, "r1")


def _claim(headquarters: Headquarters, request: str) -> dict[str, Any]:
    body = {"request": request, "campaign": "c1", "member": "m1"}
    return headquarters.call("POST", "/v1/claims", body, key=headquarters.new_key("app"), status=201)


def _state(headquarters: Headquarters, coupon_id: str) -> str:
    return str(headquarters.call("GET", f"/v1/coupons/{coupon_id}", status=200)["state"])


def _written(headquarters: Headquarters, coupon_id: str) -> str:
    row = coupon.select().where(coupon.c.id == coupon_id)
    return str(headquarters.database.read(lambda conn: conn.execute(row).one()).state)


def _set(headquarters: Headquarters, coupon_id: str, **values: Any) -> None:
    headquarters.database.write(
        lambda conn: conn.execute(update(coupon).where(coupon.c.id == coupon_id).values(values))
    )


def _done(headquarters: Headquarters) -> dict[str, int]:
    return {report.name: report.done for report in run_due(headquarters.services) if report.done}


def test_a_members_app_sees_the_code_and_a_till_does_not(headquarters: Headquarters, claimed: dict[str, Any]) -> None:
    path = "/v1/members/m1/coupons"

    app = headquarters.call("GET", path, key=headquarters.new_key("app"), status=200)["coupons"]
    till = headquarters.call("GET", path, key=headquarters.new_key("till"), status=200)["coupons"]

    assert [each["code"] for each in app] == [claimed["code"]]
    assert claimed["code"] not in str(till)
    assert till[0]["code_masked"] == "****" + claimed["code"][-4:]


def test_a_members_coupons_come_newest_first(headquarters: Headquarters, claimed: dict[str, Any]) -> None:
    headquarters.clock.pass_time(minutes=1)
    second = _claim(headquarters, "r2")

    listed = headquarters.call("GET", "/v1/members/m1/coupons", key=headquarters.new_key("app"))["coupons"]

    assert [each["coupon"] for each in listed] == [second["coupon"], claimed["coupon"]]


def test_the_office_finds_a_coupon_by_its_code_however_it_is_typed(
    headquarters: Headquarters, claimed: dict[str, Any]
) -> None:
    code = claimed["code"]
    typed = "-".join(code[start : start + 4] for start in range(0, 16, 4)).replace("0", "O")

    found = headquarters.call("POST", "/v1/coupons/lookup", {"code": typed}, status=200)

    assert found["coupon"] == claimed["coupon"]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("9000000000000004", "unreadable_code"), ("", "unreadable_code"), ("WASH", "unknown_code")],
)
def test_a_code_that_is_not_here_is_refused_without_a_hint(headquarters: Headquarters, code: str, outcome: str) -> None:
    answer = headquarters.call("POST", "/v1/coupons/lookup", {"code": code}, status=409)

    assert answer == {"outcome": outcome, "facts": {}}


def test_a_revoked_coupon_stays_granted_and_says_why(headquarters: Headquarters, claimed: dict[str, Any]) -> None:
    path = f"/v1/coupons/{claimed['coupon']}"

    answer = headquarters.call("POST", path + "/revoke", {"reason": "sent by mistake"}, status=200)

    told = headquarters.call("GET", path + "/history", status=200)["events"]
    assert answer["state"] == "REVOKED"
    assert [(each["event"], each["from"], each["to"], each["reason"]) for each in told] == [
        ("grant", None, "ISSUED", "app"),
        ("revoke", "ISSUED", "REVOKED", "sent by mistake"),
    ]
    assert headquarters.stock()["granted"] == 1


@pytest.mark.parametrize("state", ["FROZEN", "USED", "EXPIRED", "REVOKED"])
def test_only_an_issued_coupon_is_revoked_and_a_refused_try_is_remembered(
    headquarters: Headquarters, claimed: dict[str, Any], state: str
) -> None:
    coupon_id = claimed["coupon"]
    _set(headquarters, coupon_id, state=state, order_id="o1" if state in ("FROZEN", "USED") else None)

    answer = headquarters.call("POST", f"/v1/coupons/{coupon_id}/revoke", {"reason": "no"}, status=409)

    told = headquarters.call("GET", f"/v1/coupons/{coupon_id}/history", status=200)["events"]
    assert answer == {
        "outcome": "illegal_transition",
        "facts": {"coupon": coupon_id, "state": state, "event": "revoke"},
    }
    assert (told[-1]["event"], told[-1]["to"], told[-1]["refused"]) == ("revoke", None, True)
    assert _written(headquarters, coupon_id) == state


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_coupon_is_revoked_for_a_reason(headquarters: Headquarters, claimed: dict[str, Any], reason: str) -> None:
    headquarters.call("POST", f"/v1/coupons/{claimed['coupon']}/revoke", {"reason": reason}, status=422)

    assert _state(headquarters, claimed["coupon"]) == "ISSUED"


def test_a_coupon_reads_expired_at_its_end_and_is_written_so_by_the_patrol(
    headquarters: Headquarters, claimed: dict[str, Any]
) -> None:
    seen = []

    for seconds in (86_399, 1):
        headquarters.clock.pass_time(seconds=seconds)
        seen.append((_state(headquarters, claimed["coupon"]), _done(headquarters)))

    assert seen == [("ISSUED", {}), ("EXPIRED", {"coupon_expiry": 1})]
    assert _written(headquarters, claimed["coupon"]) == "EXPIRED"


def test_a_second_walk_of_the_patrol_changes_nothing(headquarters: Headquarters, claimed: dict[str, Any]) -> None:
    headquarters.clock.pass_time(days=2)
    _done(headquarters)

    assert _done(headquarters) == {}
    told = headquarters.call("GET", f"/v1/coupons/{claimed['coupon']}/history", status=200)["events"]
    assert [each["event"] for each in told] == ["grant", "expire"]


@pytest.mark.parametrize("values", [{"state": "FROZEN", "order_id": "o1"}, {"home": "t1"}])
def test_what_is_held_or_at_home_elsewhere_does_not_expire_here(
    headquarters: Headquarters, claimed: dict[str, Any], values: dict[str, Any]
) -> None:
    _set(headquarters, claimed["coupon"], **values)
    headquarters.clock.pass_time(days=2)

    assert _done(headquarters) == {}


def test_many_coupons_expire_in_one_walk(headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch) -> None:
    headquarters.campaign(valid_days=1, per_member=7)
    for number in range(7):
        _claim(headquarters, f"r{number}")
    monkeypatch.setattr("server.jobs.expiry.CHUNK", 3)
    headquarters.clock.pass_time(days=2)

    assert _done(headquarters) == {"coupon_expiry": 7}
