"""What Prometheus is shown, by how many processes, and to whom; and what a load balancer is told."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text
from starlette.types import Receive, Scope, Send

from server import metrics
from server.db.errors import DatabaseBusy
from server.db.migrate import HEAD
from server.http.access_log import AccessLog
from server.http.running import Running
from server.scrape import GAUGES_KEPT_S, STALE_S, Scrape
from server.services import gauges
from tests.fakes.headquarters import Headquarters

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(shown: bytes) -> Samples:
    """Read the text as Prometheus does; the same series twice would be refused by it."""
    found: Samples = {}
    for family in text_string_to_metric_families(shown.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def get(
    headquarters: Headquarters, path: str, *, client: str = "127.0.0.1", headers: dict[str, str] | None = None
) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(headquarters.app, client=(client, 50000))
        request = httpx.Request("GET", f"http://headquarters{path}", headers=headers)
        answer = await transport.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

    return headquarters._loop.run(ask())


@contextmanager
def running(headquarters: Headquarters, running: Running) -> Iterator[None]:
    before = headquarters.app.state.running
    headquarters.app.state.running = running
    yield
    headquarters.app.state.running = before


# ------------------------------------------------------------------ what is shown


def test_the_chains_numbers_are_read_from_the_database(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5)
    body = {"request": "r1", "campaign": "c1", "member": "m1"}
    headquarters.call("POST", "/v1/claims", body, key=headquarters.new_key("app"), status=201)

    found = samples(Scrape(headquarters.services).text())

    assert value(found, "pawtill_stock_available", campaign="c1") == 4
    assert value(found, "pawtill_stock_size", campaign="c1") == 5
    assert value(found, "pawtill_stock_granted", campaign="c1") == 1
    assert value(found, "pawtill_outbox_lag_seconds", topic="alert") == 0
    assert value(found, "pawtill_orders_waiting", state="HELD") == 0
    assert value(found, "pawtill_database_up") == 1


def test_no_more_campaigns_are_named_than_fifty_the_hottest_first(headquarters: Headquarters) -> None:
    for number in range(gauges.CAMPAIGNS_MAX + 5):
        headquarters.campaign(f"c{number:02}", stock=number + 1)
    hot = "c54"

    found = headquarters.services.read(lambda conn, ctx: gauges.read(conn, ctx.now, hot=[hot, "gone"]))

    names = [stock.campaign_id for stock in found.stocks]
    assert len(names) == gauges.CAMPAIGNS_MAX
    assert names[0] == hot


def test_when_the_database_is_away_the_process_still_tells_its_own_numbers(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseBusy("away")

    monkeypatch.setattr(type(headquarters.database), "read", away)

    found = samples(Scrape(headquarters.services).text())

    assert value(found, "pawtill_database_up") == 0
    assert any(name == "pawtill_job_runs_total" or name.startswith("process_") for name, _ in found)


def test_asking_often_looks_into_the_database_once_in_five_seconds(headquarters: Headquarters) -> None:
    seconds = [0.0]
    scrape = Scrape(headquarters.services, monotonic=lambda: seconds[0])
    scrape.text()
    headquarters.campaign(stock=5)

    seconds[0] += GAUGES_KEPT_S - 0.1
    before = value(samples(scrape.text()), "pawtill_stock_size", campaign="c1")
    seconds[0] += 0.1
    after = value(samples(scrape.text()), "pawtill_stock_size", campaign="c1")

    assert (before, after) == (None, 5)


def test_a_request_is_counted_by_its_route_and_no_path_or_id_is_shown(headquarters: Headquarters) -> None:
    counted = httpx.ASGITransport(AccessLog(headquarters.app))
    for path in ("/v1/campaigns/secret-campaign", "/nowhere/secret-path"):
        headers = {"Authorization": f"Bearer {headquarters.key}"}
        request = httpx.Request("GET", f"http://headquarters{path}", headers=headers)
        headquarters._loop.run(counted.handle_async_request(request))

    shown = Scrape(headquarters.services).text()

    labels = {"method": "GET", "route": "/v1/campaigns/{campaign_id}", "status": "404"}
    assert (value(samples(shown), "pawtill_http_requests_total", **labels) or 0) >= 1
    assert b"secret" not in shown


def test_a_request_that_was_given_up_is_counted_as_the_busy_that_was_told(headquarters: Headquarters) -> None:
    async def given_up(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise asyncio.CancelledError

    def counted() -> float:
        shown = samples(Scrape(headquarters.services).text())
        return value(shown, "pawtill_http_requests_total", method="GET", route="none", status="503") or 0

    async def ask() -> None:
        await httpx.ASGITransport(AccessLog(given_up)).handle_async_request(httpx.Request("GET", "http://h/v1/x"))

    before = counted()

    with pytest.raises(asyncio.CancelledError):
        headquarters._loop.run(ask())

    assert counted() == before + 1


# ------------------------------------------------------------------ several processes


def test_each_process_shows_the_numbers_of_all_under_their_own_label(
    headquarters: Headquarters, tmp_path: Path
) -> None:
    first = Scrape(headquarters.services, folder=tmp_path / "metrics", worker="1")
    second = Scrape(headquarters.services, folder=tmp_path / "metrics", worker="2")
    job = f"job-{tmp_path.name}"
    metrics.job_ran(job, "done", 0.1)
    first.publish()

    found = samples(second.text())

    counts = [value(found, "pawtill_job_runs_total", job=job, outcome="done", worker=worker) for worker in ("1", "2")]
    assert counts[0] == counts[1] == 1
    assert value(found, "pawtill_job_seconds_bucket", job=job, le="0.1", worker="1") == 1
    assert value(found, "pawtill_database_up") == 1


def test_the_numbers_of_a_process_that_is_gone_are_left_out(headquarters: Headquarters, tmp_path: Path) -> None:
    first = Scrape(headquarters.services, folder=tmp_path, worker="1")
    second = Scrape(headquarters.services, folder=tmp_path, worker="2")
    first.publish()
    old = time.time() - STALE_S - 1
    os.utime(tmp_path / "1.prom", (old, old))

    killed = samples(second.text())
    first.publish()
    back = samples(second.text())
    first.withdraw()
    ended = samples(second.text())

    def workers(found: Samples) -> set[str]:
        return {dict(labels)["worker"] for _, labels in found if "worker" in dict(labels)}

    assert (workers(killed), workers(back), workers(ended)) == ({"2"}, {"1", "2"}, {"2"})
    assert list(tmp_path.glob("*.prom")) == []


# ------------------------------------------------------------------ who may see it


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("192.168.1.7", {}, 403),
        ("not an address", {}, 403),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 403),
        ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}, 403),
        ("127.0.0.1", {"Via": "1.1 proxy"}, 403),
    ],
)
def test_without_a_key_the_numbers_are_for_this_machine_alone(
    headquarters: Headquarters, client: str, headers: dict[str, str], status: int
) -> None:
    assert get(headquarters, "/metrics", client=client, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("authorization", "status"), [("Bearer right", 200), ("Bearer wrong", 403), ("Bearer ", 403), (None, 403)]
)
def test_with_a_key_they_are_for_whoever_has_it(
    headquarters: Headquarters, authorization: str | None, status: int
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    with running(headquarters, Running(Scrape(headquarters.services), metrics_key="right")):
        near = get(headquarters, "/metrics", headers=headers)
        far = get(headquarters, "/metrics", client="203.0.113.9", headers=headers)

    assert (near.status_code, far.status_code) == (status, status)


def test_the_text_is_what_prometheus_reads(headquarters: Headquarters) -> None:
    answer = get(headquarters, "/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert samples(answer.content)


# ------------------------------------------------------------------ ready


def test_ready_tells_of_a_part_that_is_away_and_stays_ready_for_the_tills(headquarters: Headquarters) -> None:
    checks = {"redis": lambda: "down"}
    with running(headquarters, Running(Scrape(headquarters.services), checks=checks)):
        answer = get(headquarters, "/ready")

    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "degraded", "parts": {"database": "ok", "redis": "down"}},
    )


def test_a_database_of_another_schema_is_not_ready(headquarters: Headquarters) -> None:
    def set_version(name: str) -> None:
        headquarters.database.write(
            lambda conn: conn.execute(text("UPDATE alembic_version SET version_num = :name"), {"name": name})
        )

    set_version("9999")

    answer = get(headquarters, "/ready")
    set_version(HEAD)  # the next test may be lent this database

    assert (answer.status_code, answer.json()["status"]) == (503, "other_schema")


def test_a_chain_that_is_not_set_up_is_not_ready(headquarters: Headquarters) -> None:
    headquarters.database.write(lambda conn: conn.exec_driver_sql("DELETE FROM chain"))

    answer = get(headquarters, "/ready")

    assert (answer.status_code, answer.json()["status"]) == (503, "not_provisioned")
