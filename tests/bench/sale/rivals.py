"""Serve claims in the ways that others do it, over the same HTTP server, to the same database, writing the same rows.

`python -m tests.bench.sale.rivals METHOD PROCESSES URL` listens on a free port of 127.0.0.1, prints it, and answers
with so many processes. The methods:

- `row_lock`: lock the campaign's row, COUNT what was granted, insert. What most shops start with.
- `optimistic`: read the stock with its version, write it back where the version is still the same, else again.
- `conditional`: one UPDATE that takes a unit where there is one.
- `noop`: answer 201 and do nothing; the ceiling of this HTTP server with this load.

Each claim is a transaction of its own, in one of `THREADS` threads with a connection each. None keeps a claim's answer
for a repeat by looking it up first, none checks window, tier or daily limit: they are given every advantage.
"""

import asyncio
import hashlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import uvicorn
from sqlalchemy import Connection, Engine, create_engine, func, insert, select, update

from server.db.schema import account, coupon, feed, history, request

THREADS = 16
RETRIES = "retries"
Claim = dict[str, str]
Scope = dict[str, Any]
_fork = multiprocessing.get_context("fork")


def row_lock(engine: Engine, claim: Claim) -> int:
    """Count under a lock; 1 try."""
    with engine.begin() as conn:
        stock = _stock(claim)
        total = conn.execute(select(account.c.total).where(account.c.id == stock).with_for_update()).scalar_one()
        granted = select(func.count()).where(coupon.c.campaign_id == claim["campaign"])
        if conn.execute(granted).scalar_one() >= total:
            return 0
        if _has_one(conn, claim):
            return 0
        conn.execute(
            update(account)
            .where(account.c.id == stock)
            .values(available=account.c.available - 1, spent=account.c.spent + 1)
        )
        _insert(conn, claim)
    return 1


def optimistic(engine: Engine, claim: Claim) -> int:
    """Try until nobody was faster; returns the tries, 0 = nothing left."""
    tries = 0
    while True:
        tries += 1
        with engine.begin() as conn:
            stock = account.c.id == _stock(claim)
            seen = conn.execute(select(account.c.available, account.c.version).where(stock)).one()
            if seen.available < 1 or _has_one(conn, claim):
                return 0
            written = conn.execute(
                update(account)
                .where(stock, account.c.version == seen.version)
                .values(available=seen.available - 1, spent=account.c.spent + 1, version=seen.version + 1)
            )
            if written.rowcount == 1:
                _insert(conn, claim)
                return tries


def conditional(engine: Engine, claim: Claim) -> int:
    """Take one where there is one; 1 try."""
    with engine.begin() as conn:
        if _has_one(conn, claim):
            return 0
        taken = conn.execute(
            update(account)
            .where(account.c.id == _stock(claim), account.c.available >= 1)
            .values(available=account.c.available - 1, spent=account.c.spent + 1)
        )
        if taken.rowcount == 0:
            return 0
        _insert(conn, claim)
    return 1


METHODS: dict[str, Callable[[Engine, Claim], int]] = {
    "row_lock": row_lock,
    "optimistic": optimistic,
    "conditional": conditional,
}


def _stock(claim: Claim) -> str:
    return f"stock:{claim['campaign']}"


def _has_one(conn: Connection, claim: Claim) -> bool:
    mine = select(coupon.c.id).where(
        coupon.c.campaign_id == claim["campaign"], coupon.c.member_id == claim["member"], coupon.c.member_nth == 1
    )
    return conn.execute(mine).first() is not None


def _insert(conn: Connection, claim: Claim) -> None:
    """Write what Pawtill writes for one claim: the coupon, the stored answer, its history, its feed row."""
    coupon_id, now = uuid.uuid4().hex, datetime.now(UTC)
    code = str(uuid.uuid4().int)[:16]
    campaign, member = claim["campaign"], claim["member"]
    conn.execute(
        insert(coupon).values(
            id=coupon_id,
            campaign_id=campaign,
            snapshot_id=f"{campaign}/1",
            member_id=member,
            member_nth=1,
            code=code,
            code_digest=hashlib.sha256(code.encode()).digest(),
            state="ISSUED",
            source="app",
            granted_at=now,
            granted_on=now.date().isoformat(),
        )
    )
    answer = {"outcome": "ok", "coupon": coupon_id, "code": code, "state": "ISSUED", "source": "app"}
    digest = hashlib.sha256(f"{campaign} {member}".encode()).digest()
    conn.execute(insert(request).values(id=f"claim:{claim['request']}", digest=digest, answer=answer, created_at=now))
    conn.execute(
        insert(history).values(
            subject="coupon", subject_id=coupon_id, event="grant", to_state="ISSUED", server_at=now, reason="app"
        )
    )
    conn.execute(insert(feed).values(kind="coupon", key=coupon_id))


class App:
    """Answer POSTs: 201 granted, 409 not; GET tells how many tries were made beyond the first."""

    def __init__(self, method: str, url: str, retries: "Synchronized[int]") -> None:
        self._claim = METHODS.get(method)
        self._engine = create_engine(url, pool_size=THREADS, isolation_level="READ COMMITTED")
        self._threads = ThreadPoolExecutor(THREADS)
        self._retries = retries

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Scope]], send: Callable[[Scope], Awaitable[None]]
    ) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            await _answer(send, 200, json.dumps({RETRIES: self._retries.value}).encode())
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        claim = json.loads(body)
        tries = 1
        if self._claim is not None:
            loop = asyncio.get_running_loop()
            tries = await loop.run_in_executor(self._threads, self._claim, self._engine, claim)
            with self._retries.get_lock():
                self._retries.value += max(tries - 1, 0)
        await _answer(send, 201 if tries else 409, b'{"outcome":"ok"}' if tries else b'{"outcome":"out_of_stock"}')


async def _answer(send: Callable[[Scope], Awaitable[None]], status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main(method: str, processes: int, url: str) -> None:
    """Serve until told to stop; the settings of the HTTP server are those of Pawtill's own."""
    retries = _fork.Value("l", 0)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        children = [_fork.Process(target=_serve, args=(method, url, listener, retries)) for _ in range(processes)]
        for child in children:
            child.start()
        signal.signal(signal.SIGTERM, lambda _number, _frame: [child.terminate() for child in children])
        print(listener.getsockname()[1], flush=True)
        for child in children:
            child.join()


def _serve(method: str, url: str, listener: socket.socket, retries: "Synchronized[int]") -> None:
    app = App(method, url, retries)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else os.environ["PAWTILL_DATABASE_URL"])
