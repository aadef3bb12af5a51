"""A real server does by itself what its parts do elsewhere: it wakes in time, tells a webhook, shows numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import URL

from cli.server_process import PLAIN, ServerProcess
from server.code_key import load_code_key
from tests.fakes.receiver import receiver

SECRET = "a secret of sixteen or more"


def until(true: Callable[[], bool], *, every_s: float = 0.05) -> None:
    """Wait, a minute at most."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < 60
        time.sleep(every_s)


def test_a_server_starts_a_campaign_in_time_tells_of_its_stock_and_shows_its_numbers(tmp_path: Path) -> None:
    with (
        receiver() as other_end,
        ServerProcess(
            tmp_path, {**PLAIN, "PAWTILL_ALERT_URL": other_end.url, "PAWTILL_ALERT_SECRET": SECRET}
        ) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        office = {"Authorization": f"Bearer {(tmp_path / 'headquarters.key').read_text().strip()}"}

        def call(method: str, path: str, body: Any = None, headers: Any = None) -> Any:
            answer = client.request(method, path, json=body, headers=headers or office)
            assert answer.is_success, answer.text
            return answer.json()

        call("PUT", "/v1/stores/s1", {"zone": "Asia/Shanghai"})
        call("POST", "/v1/members", {"id": "m1", "home_store": "s1"})
        app = {"Authorization": f"Bearer {call('POST', '/v1/keys', {'scope': 'app', 'name': 'app'})['key']}"}
        soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
        benefit = {"type": "amount_off", "amount": "1.00"}
        call("POST", "/v1/campaigns", {"id": "later", "state": "SCHEDULED", "from": soon, "benefit": benefit})
        call("POST", "/v1/campaigns", {"id": "few", "stock": 1, "benefit": benefit})
        call("POST", "/v1/claims", {"request": "r1", "campaign": "few", "member": "m1"}, app)

        until(lambda: call("GET", "/v1/campaigns/later")["state"] == "ACTIVE")
        until(lambda: bool(other_end.came))

        numbers = client.get("/metrics").text
        assert [alert["kind"] for alert in other_end.alerts] == ["stock_out"]
        assert "few" in other_end.alerts[0]["text"]["zh"]
        assert "pawtill_scheduler_holder 1.0" in numbers
        assert 'pawtill_stock_available{campaign="few"} 0.0' in numbers
        assert 'pawtill_http_requests_total{method="POST",route="/v1/campaigns",status="201"} 2.0' in numbers
        assert client.get("/metrics", headers={"X-Forwarded-For": "1.2.3.4"}).status_code == 403
        assert client.get("/ready").json()["status"] == "ok"
    assert SECRET not in "".join(path.read_text("utf-8") for path in tmp_path.glob("*.log"))


def test_of_two_processes_on_one_port_one_walks_the_patrols_and_each_shows_both(
    tmp_path: Path, postgres_url: URL
) -> None:
    settings = {"PAWTILL_DATABASE_URL": str(postgres_url), "PAWTILL_WORKERS": "2", "PAWTILL_REDIS_URL": "none"}
    load_code_key(tmp_path, database_exists=False)  # the database that is lent has its tables already
    with (
        ServerProcess(tmp_path, {**PLAIN, **settings}) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client,
    ):

        def holders() -> list[float]:
            return [
                sample.value
                for family in text_string_to_metric_families(client.get("/metrics").text)
                for sample in family.samples
                if sample.name == "pawtill_scheduler_holder"
            ]

        until(lambda: sorted(holders()) == [0.0, 1.0], every_s=0.5)  # a scrape is work for both sides

    assert list((tmp_path / "metrics").glob("*.prom")) == []
