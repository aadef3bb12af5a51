"""The HTTP interface: no door without a key, clear words for what is wrong with a request, nothing told twice."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from app.domain.states import CampaignEvent
from server.http.app import MAX_BODY_BYTES
from tests.fakes.headquarters import Headquarters

APP, TILL, MANAGER, HEADQUARTERS = "app", "till", "manager", "headquarters"
ENROLMENT = "/v1/enrolments"  # by a one-time code: who enrols has no key yet
OPEN = {ENROLMENT, "/openapi.json", "/docs", "/health", "/ready", "/metrics"}
SCOPES: dict[str, set[str]] = {
    "PUT /v1/chain": {HEADQUARTERS},
    "GET /v1/chain": {HEADQUARTERS},
    "PUT /v1/chain/offline-hours": {HEADQUARTERS},
    "GET /v1/tills": {HEADQUARTERS},
    "PUT /v1/stores/{store_id}": {HEADQUARTERS},
    "PUT /v1/tills/{till_id}": {HEADQUARTERS},
    "POST /v1/products": {HEADQUARTERS},
    "POST /v1/members": {HEADQUARTERS},
    "POST /v1/punch-cards": {HEADQUARTERS},
    "POST /v1/members/{member_id}/top-ups": {HEADQUARTERS},
    "POST /v1/keys": {HEADQUARTERS},
    "GET /v1/keys": {HEADQUARTERS},
    "POST /v1/keys/{key_id}/revoke": {HEADQUARTERS},
    "POST /v1/campaigns": {HEADQUARTERS},
    "PATCH /v1/campaigns/{campaign_id}": {HEADQUARTERS},
    "POST /v1/campaigns/{campaign_id}/stock": {HEADQUARTERS},
    **{f"POST /v1/campaigns/{{campaign_id}}/{event}": {HEADQUARTERS} for event in CampaignEvent},
    "GET /v1/campaigns/{campaign_id}": {MANAGER, HEADQUARTERS},
    "GET /v1/campaigns/{campaign_id}/history": {MANAGER, HEADQUARTERS},
    "POST /v1/leases": {TILL},
    "POST /v1/homes": {TILL},
    "POST /v1/tills/{till_id}/enrolment-codes": {HEADQUARTERS},
    **{f"POST /v1/tills/{{till_id}}/{event}": {HEADQUARTERS} for event in ("suspend", "resume", "revoke")},
    "GET /v1/tills/{till_id}/rights": {HEADQUARTERS},
    "GET /v1/risk": {MANAGER, HEADQUARTERS},
    "GET /v1/tills/{till_id}/risk": {MANAGER, HEADQUARTERS},
    "PUT /v1/tills/{till_id}/risk": {HEADQUARTERS},
    "GET /v1/staff": {MANAGER, HEADQUARTERS},
    "PUT /v1/staff/{staff_id}": {HEADQUARTERS},
    "POST /v1/staff/{staff_id}/leave": {HEADQUARTERS},
    "POST /v1/homes/of-members": {TILL},
    "POST /v1/tills/{till_id}/reclaim": {HEADQUARTERS},
    "POST /v1/tills/{till_id}/strand": {HEADQUARTERS},
    "POST /v1/tills/{till_id}/found": {HEADQUARTERS},
    "GET /v1/findings": {MANAGER, HEADQUARTERS},
    "GET /v1/findings/{finding_id}": {MANAGER, HEADQUARTERS},
    "POST /v1/findings/{finding_id}/decide": {HEADQUARTERS},
    "POST /v1/findings/{finding_id}/judge": {HEADQUARTERS},
    "POST /v1/findings/{finding_id}/close": {HEADQUARTERS},
    "GET /v1/restore": {HEADQUARTERS},
    "POST /v1/tills/{till_id}/write-off": {HEADQUARTERS},
    "POST /v1/claims": {APP, TILL},
    "GET /v1/claims/{request_id}": {APP, TILL},
    "POST /v1/gifts": {MANAGER, HEADQUARTERS},
    "POST /v1/issues": {HEADQUARTERS},
    "GET /v1/issues": {MANAGER, HEADQUARTERS},
    "GET /v1/issues/{task_id}": {MANAGER, HEADQUARTERS},
    **{f"POST /v1/issues/{{task_id}}/{event}": {HEADQUARTERS} for event in ("pause", "resume", "cancel")},
    "GET /v1/issues/{task_id}/failures": {MANAGER, HEADQUARTERS},
    "PUT /v1/issues/{task_id}/members": {HEADQUARTERS},
    "GET /v1/members/{member_id}/coupons": {APP, TILL},
    "POST /v1/coupons/lookup": {MANAGER, HEADQUARTERS},
    "GET /v1/coupons/{coupon_id}": {APP, TILL, MANAGER, HEADQUARTERS},
    "GET /v1/coupons/{coupon_id}/history": {APP, TILL, MANAGER, HEADQUARTERS},
    "POST /v1/coupons/{coupon_id}/revoke": {MANAGER, HEADQUARTERS},
    "POST /v1/quotes": {APP, TILL},
    "POST /v1/orders/{order_id}/hold": {TILL},
    "POST /v1/orders/{order_id}/cancel": {TILL, MANAGER, HEADQUARTERS},
    "GET /v1/orders/{order_id}": {TILL, MANAGER, HEADQUARTERS},
    "GET /v1/orders/{order_id}/history": {TILL, MANAGER, HEADQUARTERS},
    "POST /v1/refunds": {TILL},
    "POST /v1/sync/hello": {TILL},
    "POST /v1/sync/push": {TILL},
    "POST /v1/sync/pull": {TILL},
    "POST /v1/sync/sanity": {TILL},
    "POST /v1/sync/enrol": {TILL},
    "POST /v1/sync/unknown": {TILL},
    "POST /v1/sync/adopt": {TILL},
}


def _routes(app: FastAPI) -> Iterator[str]:
    for route in iter_route_contexts(app.routes):
        assert route.path is not None and route.methods is not None
        if route.path not in OPEN:
            yield from (f"{method} {route.path}" for method in sorted(route.methods - {"HEAD"}))


def _status(headquarters: Headquarters, route: str, *, key: str) -> int:
    method, path = route.split(" ")
    request = httpx.Request(
        method,
        "http://headquarters" + re.sub(r"{\w+}", "x", path),
        json={} if method != "GET" else None,
        headers={"Authorization": f"Bearer {key}"} if key else {},
    )
    return headquarters.send(request).status_code


def test_every_route_says_whom_it_lets_in(on_file: Headquarters) -> None:
    assert sorted(_routes(on_file.app)) == sorted(SCOPES)


def test_no_route_answers_without_a_key(on_file: Headquarters) -> None:
    statuses = {route: _status(on_file, route, key="") for route in SCOPES}

    assert set(statuses.values()) == {401}, statuses


@pytest.mark.parametrize("scope", [APP, TILL, MANAGER, HEADQUARTERS])
def test_a_key_opens_what_its_scope_reaches_and_nothing_else(headquarters: Headquarters, scope: str) -> None:
    key = headquarters.new_key(scope) if scope != HEADQUARTERS else headquarters.key

    shut = {route for route in SCOPES if _status(headquarters, route, key=key) == 403}

    assert shut == {route for route, scopes in SCOPES.items() if scope not in scopes}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key[:-1],
        lambda key: key[:-1] + ("0" if key[-1] != "0" else "1"),
        lambda key: key.replace("pt_", "px_"),
        lambda key: "pt_" + "0" * 32 + key[35:],
        lambda key: key.upper(),
        lambda key: "",
        lambda key: "é",
    ],
)
def test_a_key_that_is_wrong_anywhere_opens_nothing(headquarters: Headquarters, spoil: Any) -> None:
    header = b"Bearer " + str(spoil(headquarters.key)).encode()

    answer = headquarters.send(
        httpx.Request("GET", "http://headquarters/v1/keys", headers=[(b"Authorization", header)])
    )

    assert (answer.status_code, answer.json()) == (401, {"error": "no_key"})
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_revoked_key_opens_nothing_from_now_on(headquarters: Headquarters) -> None:
    made = headquarters.call("POST", "/v1/keys", {"scope": "manager", "name": "Ms Lin"}, status=201)
    headquarters.call("GET", "/v1/findings", key=made["key"], status=200)

    headquarters.call("POST", f"/v1/keys/{made['id']}/revoke", status=200)

    headquarters.call("GET", "/v1/findings", key=made["key"], status=401)
    headquarters.call("POST", f"/v1/keys/{made['id']}/revoke", status=200)
    headquarters.call("POST", "/v1/keys/nobody/revoke", status=404)


def test_no_secret_is_kept_or_listed(on_file: Headquarters) -> None:
    listed = json.dumps(on_file.call("GET", "/v1/keys", status=200))
    secret = on_file.key.split("_")[2]

    stored = on_file.database.path.read_bytes() + on_file.database.path.with_suffix(".db-wal").read_bytes()
    assert secret not in listed
    assert secret.encode() not in stored and bytes.fromhex(secret) not in stored


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"request": "r1", "campaign": "c1"}, "body.member"),
        ({"request": "r1", "campaign": "c1", "member": "m1", "colour": "scarlet"}, "body.colour"),
        ({"request": "", "campaign": "c1", "member": "m1"}, "body.request"),
        ({"request": "r" * 65, "campaign": "c1", "member": "m1"}, "body.request"),
        ({"request": "a/b", "campaign": "c1", "member": "m1"}, "body.request"),
        ({"request": 1, "campaign": "c1", "member": "m1"}, "body.request"),
        ([], "body"),
        (None, "body"),
    ],
)
def test_a_body_of_the_wrong_shape_is_named_by_field_and_not_repeated(
    on_file: Headquarters, body: Any, field: str
) -> None:
    answer = on_file.call("POST", "/v1/claims", body, key=on_file.new_key("app"), status=422)

    assert answer["error"] == "invalid_request"
    assert [each["field"] for each in answer["fields"]] == [field]
    assert "scarlet" not in json.dumps(answer)


def test_what_is_no_json_is_a_wrong_shape(on_file: Headquarters) -> None:
    request = httpx.Request(
        "POST",
        "http://headquarters/v1/keys",
        content=b'{"scope": ',
        headers={"Authorization": f"Bearer {on_file.key}", "Content-Type": "application/json"},
    )

    assert on_file.send(request).status_code == 422


@pytest.mark.parametrize("value", [b'"\\ud800"', b"NaN", b"-Infinity", b"[" * 100_000])
@pytest.mark.parametrize(
    ("path", "name"), [("/v1/campaigns", b"name"), ("/v1/members", b"label"), ("/v1/top-ups", b"amount")]
)
def test_what_json_allows_and_nobody_can_keep_is_the_callers_mistake(
    on_file: Headquarters, path: str, name: bytes, value: bytes
) -> None:
    request = httpx.Request(
        "POST",
        "http://headquarters" + path.replace("/v1/top-ups", "/v1/members/m1/top-ups"),
        content=b'{"id": "x", "home_store": "s1", "request": "r1", "%s": %s}' % (name, value),
        headers={"Authorization": f"Bearer {on_file.key}", "Content-Type": "application/json"},
    )

    assert on_file.send(request).status_code in (400, 422)


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY_BYTES, 422), (MAX_BODY_BYTES + 1, 413)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_a_bound(on_file: Headquarters, size: int, status: int, chunked: bool) -> None:
    body = b" " * size

    async def stream() -> Any:
        for start in range(0, size, 65536):
            yield body[start : start + 65536]

    request = httpx.Request(
        "POST",
        "http://headquarters/v1/claims",
        content=stream() if chunked else body,
        headers={"Authorization": f"Bearer {on_file.new_key('app')}", "Content-Type": "application/json"},
    )

    answer = on_file.send(request)

    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["error"] == {422: "invalid_request", 413: "too_large"}[status]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/keys", "GET, POST"),
        ("/v1/campaigns/c1", "GET, PATCH"),
        ("/v1/campaigns/c1/history", "GET"),
        ("/v1/coupons/lookup", "POST"),
        ("/v1/issues/b1/members", "PUT"),
    ],
)
def test_a_wrong_method_is_told_all_the_right_ones(on_file: Headquarters, path: str, methods: str) -> None:
    answer = on_file.send(httpx.Request("DELETE", f"http://headquarters{path}"))

    assert (answer.status_code, answer.headers["Allow"]) == (405, methods)


def test_an_unknown_path_and_a_wrong_method_say_so(on_file: Headquarters) -> None:
    nowhere = on_file.call("GET", "/v1/nowhere", status=404)
    wrong = on_file.call("DELETE", "/v1/keys", status=405)

    assert (nowhere, wrong) == ({"error": "no_such_path"}, {"error": "no_such_method"})


def test_what_the_path_names_and_is_not_there_is_404(headquarters: Headquarters) -> None:
    kinds = {
        path: headquarters.call("GET", path, key=key, status=404)["facts"]["kind"]
        for path, key in {
            "/v1/campaigns/x": headquarters.key,
            "/v1/campaigns/x/history": headquarters.key,
            "/v1/coupons/x": headquarters.key,
            "/v1/coupons/x/history": headquarters.key,
            "/v1/members/x/coupons": headquarters.new_key("app"),
        }.items()
    }

    assert list(kinds.values()) == ["campaign", "campaign", "coupon", "coupon", "member"]


def _keep_writers_out(headquarters: Headquarters) -> Callable[[], None]:
    """Be another program that is in the middle of a write; returns what ends it."""
    path = headquarters.database.path
    if path is not None:
        file = sqlite3.connect(path, isolation_level=None)
        file.execute("BEGIN IMMEDIATE")
        return file.close
    conn = headquarters.database.migration_connection()
    conn.begin()
    return conn.close


def test_a_database_locked_by_another_program_is_busy_with_a_time_to_come_again(headquarters: Headquarters) -> None:
    headquarters.campaign()
    key = headquarters.new_key("app")
    body = {"request": "r1", "campaign": "c1", "member": "m1"}
    let_go = _keep_writers_out(headquarters)
    request = httpx.Request(
        "POST", "http://headquarters/v1/claims", json=body, headers={"Authorization": f"Bearer {key}"}
    )

    busy = headquarters.send(request)
    ready = headquarters.send(httpx.Request("GET", "http://headquarters/ready"))
    let_go()

    assert (busy.status_code, busy.json()["outcome"]) == (503, "busy")
    assert int(busy.headers["Retry-After"]) >= 1
    assert (ready.status_code, ready.json()) == (503, {"status": "busy", "parts": {"database": "busy"}})
    # Nothing was decided, so nothing is remembered: the same request is granted now.
    assert headquarters.call("POST", "/v1/claims", body, key=key, status=201)["outcome"] == "ok"


def test_health_and_ready_need_no_key(headquarters: Headquarters) -> None:
    statuses = [headquarters.send(httpx.Request("GET", f"http://headquarters/{path}")) for path in ("health", "ready")]

    assert [each.status_code for each in statuses] == [200, 200]


def test_the_description_names_every_route(on_file: Headquarters) -> None:
    described = on_file.send(httpx.Request("GET", "http://headquarters/openapi.json")).json()["paths"]

    assert {path for route in SCOPES for path in [route.split(" ")[1]]} <= set(described)


def test_the_page_of_the_api_shows_every_route_and_loads_nothing_from_elsewhere(on_file: Headquarters) -> None:
    page = on_file.send(httpx.Request("GET", "http://headquarters/docs")).text

    assert all(f"<code>{route.split(' ')[1]}</code>" in page for route in SCOPES)
    assert "//" not in page.replace("<!doctype html>", "")
