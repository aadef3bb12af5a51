"""Run the server with guards taken out: `WITHOUT=epoch,arbiter python -m tests.faults.weakened server ...`.

A test that is as content with such a server as with the real one proves nothing.

    epoch    a Redis that came back from an older snapshot is taken for the one that it was
    lua      looking and taking are two steps to Redis, as between GET and SET of a client
    arbiter  the database grants whatever Redis admitted: neither stock nor limit are looked at, nor held by the UPDATE
    lock     servers on one PostgreSQL write at the same time
    guards   stock and limit are looked at, but neither the UPDATE nor the unique index holds them (the test drops it)
    answers  what a request was answered is forgotten: asked again, it is decided anew
    refunds  the same of refunds alone
    nonces   a signed request may come twice

Workers import this module anew, so everything is done on import.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, update

import lua
from server.db import postgres
from server.db.schema import account
from server.services import accounts, grants, idempotency, nonces, refunds
from server.services.admission.claiming import Asked, Claiming
from server.services.admission.generations import Generations
from server.stock import scripts
from server.stock.connection import Acquaintance
from server.stock.scripts import No, Refused, Standing

VARIABLE = "WITHOUT"
SLOW_S = 0.01
"""Between looking and writing, so that a rival finds the gap in a short race too."""


def without_epoch() -> None:
    """Take every Redis for the one that was looked at."""
    Acquaintance.check = lambda self, run_id: None  # type: ignore[method-assign]
    Generations._run_id = lambda self, campaign_id: ""  # type: ignore[method-assign]


def without_lua() -> None:
    """Look at the stock and at the member, and take in another call what was seen."""
    read, reserve = lua.read, Claiming._reserve

    def weak(name: str) -> str:
        text = read(name)
        if name == "reserve":
            for check in ("if held + qty > limit then", "if stocked == 1 and avail < qty then"):
                assert check in text, "the script has changed: so must this control"
                text = text.replace(check, "if false then")
        return text

    async def look_and_take(self: Claiming, door: Any, entry: Any, asked: Asked, *, until_s: float) -> Any:
        found = await door.on_loop().run(scripts.inspect(door.keys(asked.campaign_id), now_ms=0))
        if isinstance(found, Standing) and found.available is not None and found.available < 1:
            return Refused(No.SOLD_OUT)
        return await reserve(self, door, entry, asked, until_s=until_s)

    lua.read = weak
    Claiming._reserve = look_and_take  # type: ignore[method-assign]


def without_arbiter() -> None:
    """Grant everything that is asked for."""
    decide = grants._decide

    def generous(ctx: Any, asked: Any, facts: Any, *, available: int | None, more: int) -> Any:
        offers = {
            key: replace(offer, rule=replace(offer.rule, per_member=10**6)) for key, offer in facts.offers.items()
        }
        return decide(ctx, asked, replace(facts, offers=offers), available=None, more=more)

    grants._decide = generous
    accounts._shift = _shift_anyway


def without_lock() -> None:
    """Let every server write when it likes, and take its time between looking and writing."""
    postgres._wait_for_our_turn = lambda conn: None
    record = grants.record

    def slow(*args: Any, **more: Any) -> Any:
        time.sleep(SLOW_S)
        return record(*args, **more)

    grants.record = slow


def without_guards() -> None:
    """Take from the stock unconditionally; the test drops the unique index and the checks."""
    accounts._shift = _shift_anyway


def without_answers() -> None:
    """Remember no request."""

    class Nothing:
        def rows(self, conn: Connection, keys: Any) -> list[Any]:
            return []

        def run(self, conn: Connection, rows: Any) -> None:
            """Keep nothing."""

    idempotency._KNOWN = Nothing()  # type: ignore[assignment]
    idempotency._REQUESTS = Nothing()  # type: ignore[assignment]


def without_refunds() -> None:
    """Decide every refund anew."""
    refunds.once = lambda conn, request_id, content, *, decide, now: decide()  # type: ignore[assignment]


def without_nonces() -> None:
    """Let every signed request in, however often it comes."""
    nonces.MemoryNonces.take = lambda self, signed, now_s: True  # type: ignore[method-assign]
    nonces.DatabaseNonces.take = lambda self, signed, now_s: True  # type: ignore[method-assign]


def _shift_anyway(conn: Connection, account_id: str, *, source: str, target: str, amount: int) -> bool:
    columns = account.c
    moved = {columns[source]: columns[source] - amount, columns[target]: columns[target] + amount}
    conn.execute(
        update(account).where(columns.id == account_id).values({**moved, columns.version: columns.version + 1})
    )
    return True


for guard in os.environ[VARIABLE].split(","):
    globals()[f"without_{guard}"]()

if __name__ == "__main__":
    from cli.main import app

    sys.exit(app())
