"""Steer a batch issue over HTTP, and be its worker."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx

from server.services import issue_work
from server.services.issue_work import Lease
from tests.fakes.headquarters import Headquarters

MEMBERS = 12


def found(headquarters: Headquarters) -> Headquarters:
    """Set up the members and a campaign c1 of ten coupons."""
    headquarters.furnish(members=MEMBERS)
    headquarters.campaign(stock=10)
    return headquarters


def names(count: int = MEMBERS) -> list[str]:
    return [f"m{number}" for number in range(1, count + 1)]


def begin(chain: Headquarters, task: str = "t1", *, status: int = 201, **more: Any) -> dict[str, Any]:
    body = {"task": task, "campaign": "c1", "chunk": 3, **more}
    return chain.call("POST", "/v1/issues", body, status=status)


def show(chain: Headquarters, task: str = "t1") -> dict[str, Any]:
    return chain.call("GET", f"/v1/issues/{task}", status=200)


def steer(chain: Headquarters, event: str, *, status: int = 200) -> dict[str, Any]:
    return chain.call("POST", f"/v1/issues/t1/{event}", {}, status=status)


def counts(chain: Headquarters) -> tuple[str, int, int]:
    shown = show(chain)
    return shown["state"], shown["granted"], shown["failed"]


def send(chain: Headquarters, path: str, content: bytes | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {chain.key}", "Content-Type": "text/csv"}
    method = "GET" if content is None else "PUT"
    return chain.send(httpx.Request(method, f"http://headquarters{path}", content=content, headers=headers))


def failures(chain: Headquarters) -> list[list[str]]:
    response = send(chain, "/v1/issues/t1/failures")
    assert response.status_code == 200
    return list(csv.reader(io.StringIO(response.content.decode("utf-8-sig"))))


def take(chain: Headquarters) -> Lease:
    held = chain.services.write(issue_work.lease)
    assert held is not None
    return held


def work_on(chain: Headquarters, held: Lease) -> Lease | None:
    return chain.services.write(lambda conn, ctx: issue_work.work(conn, ctx, held))
