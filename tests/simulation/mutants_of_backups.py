"""Plant faults in what a server and its tills do behind a backup (PROTOCOL 3.9); hunted in seeds that have one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import sync.hello
import sync.push
from app.store import coupons, outbox
from server.services import adopting, context, homes, ingest, lent, quarantine, restoring, sessions
from server.services import orders as server_orders
from tests.simulation.planting import mutant, put


@mutant("a till tells its rights before the entries that use them", backups=True)
def _rights_untold() -> Iterator[None]:
    with put((sync.hello, "adopt", lambda session: None)):
        yield


@mutant("a till sends again what the server forgot (till trusts its own acked)", backups=True)
def _acknowledged_for_good() -> Iterator[None]:
    with put((outbox, "reopen", lambda tx, epoch, *, above: None)):
        yield


@mutant("a till keeps the coupons that it has at home", backups=True)
def _homes_not_adopted() -> Iterator[None]:
    with put((adopting, "_adopt_homes", lambda conn, ctx, till_id, *, homes: 0)):
        yield


@mutant("a home that an entry names was given out behind the backup", backups=True)
def _named_homes_not_believed() -> Iterator[None]:
    nothing: Any = lambda conn, till_id, versions: None  # noqa: E731
    with put((lent, "adopt_named", nothing), (homes, "adopt_named", nothing)):
        yield


@mutant("nothing is given out before every till has told", backups=True)
def _given_out_at_once() -> Iterator[None]:
    with put((context.Context, "not_now", lambda self: None)):
        yield


@mutant("no hold ends by time before its till has told", backups=True)
def _holds_end_meanwhile() -> Iterator[None]:
    real = server_orders.time_out

    def time_out(conn: Any, ctx: Any, *, limit: int = 200) -> int:
        return real(conn, replace(ctx, all_told=True), limit=limit)

    with put((server_orders, "time_out", time_out)):
        yield


@mutant("what lacks another till's word waits for it", backups=True)
def _nothing_waits() -> Iterator[None]:
    with put((ingest, "MENDED_BY_OTHERS", frozenset[str]())):
        yield


@mutant("what waited is judged in the end", backups=True)
def _waits_for_ever() -> Iterator[None]:
    with put((quarantine, "try_again", lambda conn, ctx, *, finding_id: False)):
        yield


@mutant("a restore ends when all has been told", backups=True)
def _ends_at_the_first_word() -> Iterator[None]:
    with put((restoring, "_missing", lambda conn: [])):
        yield


@mutant("what waits is no difference between the books", backups=True)
def _days_compared_meanwhile() -> Iterator[None]:
    real = sessions.compare

    def compare(conn: Any, ctx: Any, message: Any) -> Any:
        return real(conn, replace(ctx, chain=replace(ctx.chain, restoring=False)), message)

    with put((sessions, "compare", compare)):
        yield


@mutant("a coupon that the server forgot goes from the copies", backups=True)
def _copies_stay() -> Iterator[None]:
    with put((coupons, "forget", lambda tx: None)):
        yield
