"""Plant faults: each takes one guard out of the real code, and the simulator must notice within so many seeds.

A guard whose absence nobody notices is either one too many, or something that is not looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import app.store.database
import sync.engine
import sync.hello
import sync.pull
import sync.push
from app.domain.refunds import REFUNDABLE
from app.domain.states import OrderState
from app.services import checkout, giving, leasing, paying, refunding, restart
from app.store import ledger, meta, rights
from app.store.errors import DiskFull
from server.db import sqlite
from server.services import accounts, catalog, facts, given_out, grants, homes, leases, ledgers, lent, sales, sessions
from server.services import orders as server_orders
from server.services import refunds as server_refunds
from server.services import rights as server_rights
from server.services.answers import ok
from server.simulation.patching import patched
from sync import protocol

Plant = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Name a fault: `why` is what the guard is there for, `harmless` why nobody can notice ("" = somebody must)."""

    name: str
    why: str
    plant: Plant
    harmless: str = ""
    disasters: bool | None = None


MUTANTS: dict[str, Mutant] = {}


def mutant(
    why: str, *, harmless: str = "", disasters: bool | None = None
) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Register what the decorated generator plants, under its name."""

    def register(plant: Callable[[], Iterator[None]]) -> None:
        name = plant.__name__.strip("_")
        MUTANTS[name] = Mutant(name, why, contextmanager(plant), harmless, disasters)

    return register


def _put(*changes: tuple[Any, str, object]) -> AbstractContextManager[object]:
    stack = ExitStack()
    for owner, name, value in changes:
        stack.enter_context(patched(owner, name, value))
    return stack


# ------------------------------------------------------------------ ids and answers


@mutant("the same claim gets the same answer")
def _claims_forget() -> Iterator[None]:
    with _put((grants, "once_each", lambda conn, asked, *, decide, now: decide(list(range(len(asked)))))):
        yield


@mutant("a refused lease stays refused, also to a copy that comes late (hole 1)")
def _lease_refusal_not_recorded() -> Iterator[None]:
    real = leases.once

    def once(conn: Any, request_id: str, content: Any, *, decide: Any, now: Any) -> Any:
        answer = decide()
        return answer if answer["outcome"] != "ok" else real(conn, request_id, content, decide=lambda: answer, now=now)

    with _put((leases, "once", once)):
        yield


@mutant(
    "a top-up asked for twice is one",
    harmless="its transfer has an id made of the request, so a repeat is the same transfer and adds nothing",
)
def _top_up_forgets() -> Iterator[None]:
    with _put((catalog, "once", lambda conn, request, content, *, decide, now: decide())):
        yield


@mutant(
    "a hold asked for twice is one",
    harmless="a till asks for an attempt once, and to a copy that the line makes the attempt is over",
)
def _hold_forgets() -> Iterator[None]:
    with _put((server_orders, "once", lambda conn, request, content, *, decide, now: decide())):
        yield


@mutant("a refund asked for twice is one")
def _refund_forgets() -> Iterator[None]:
    with _put((server_refunds, "once", lambda conn, request, content, *, decide, now: decide())):
        yield


@mutant("a till asks for a coupon of a lease again under the same id")
def _gift_forgets() -> Iterator[None]:
    with _put((giving.rights, "given", lambda conn, request_id: None)):
        yield


# ------------------------------------------------------------------ ledger and sync


@mutant("the ledger is not told from another one by the hash behind the cursor (hole 7)", disasters=True)
def _till_compares_nothing() -> Iterator[None]:
    def move(tx: Any, book: Any, acked: Any) -> None:
        meta.put(tx, acked_seq=acked[0], acked_hash=acked[1])

    with _put((sync.hello, "check", lambda answer, **known: None), (sync.hello, "move_cursor", move)):
        yield


@mutant("headquarters hears of rows that a till has lost", disasters=True)
def _lost_rows_untold() -> Iterator[None]:
    with _put((sync.hello, "_ONLY_WE_KNOW", frozenset())):
        yield


@mutant(
    "only the prefix that was acknowledged leaves the outbox",
    harmless="an answer without an error covers its batch, or is stale and refused before; with a GAP it does "
    "not, and no till sends beyond the cursor of a server that has lost nothing (a restored one is not built)",
)
def _all_that_was_sent_is_acknowledged() -> Iterator[None]:
    real = sync.push._settle

    def settle(tx: Any, session: Any, *, batch: Any, answer: Any) -> Any:
        session.ledger.settle(tx, batch.entries[-1].seq)
        return real(tx, session, batch=batch, answer=answer)

    with _put((sync.push, "_settle", settle)):
        yield


def _believe(session: Any, batch: Any) -> Any:
    """Take whatever is answered for an acknowledgement of the whole batch."""
    message = sync.push.Push(
        proto=protocol.PROTOCOL,
        till=session.till,
        epoch=session.epoch,
        entries=[protocol.PushedEntry.of(entry) for entry in batch.entries],
        last=batch.last,
    )
    session.client.exchange(protocol.PUSH_PATH, message, protocol.PushAnswer)
    results = [protocol.EntryResult(seq=entry.seq, result=protocol.OK) for entry in batch.entries]
    end = batch.entries[-1]
    return protocol.PushAnswer(acked=(end.seq, end.hash.hex()), results=results)


@mutant(
    "an answer to something else moves nothing",
    harmless="what was believed too early is pending again with the next hello: the server's cursor is the authority",
)
def _any_answer_will_do() -> Iterator[None]:
    with _put((sync.push, "_ask", _believe)):
        yield


@mutant("the server's cursor is the authority in every session (the till trusts its own acked)")
def _till_trusts_its_cursor() -> Iterator[None]:
    with _put((sync.push, "_ask", _believe), (sync.hello.outbox, "reopen", lambda tx, epoch, *, above: None)):
        yield


@mutant("records and cursor are stored together")
def _cursor_before_records() -> Iterator[None]:
    real = sync.pull._apply

    def apply(session: Any, records: Any, cursor: int) -> int:
        with session.db.write() as tx:
            meta.put(tx, cursor=cursor)
        return real(session, records, cursor)

    with _put((sync.pull, "_apply", apply)):
        yield


@mutant("a page that is older than the cursor is not applied")
def _old_pages_apply() -> Iterator[None]:
    def pull(session: Any) -> Any:
        with session.db.read() as conn:
            cursor = meta.load(conn).cursor
        message = protocol.Pull(proto=protocol.PROTOCOL, till=session.till, cursor=cursor)
        answer = session.client.exchange(protocol.PULL_PATH, message, protocol.PullAnswer)
        sync.pull._apply(session, list(answer.records), max(cursor, answer.next))
        return pull(session) if answer.more else sync.pull.Pulled(len(answer.records))

    with _put((sync.engine, "pull", pull)):
        yield


@mutant("the same number with another hash is a fork, no duplicate", disasters=True)
def _forks_are_duplicates() -> Iterator[None]:
    def recognise(conn: Any, row: Any, repeats: Any) -> Any:
        return [protocol.EntryResult(seq=entry.seq, result=protocol.DUPLICATE) for entry in repeats]

    with _put((ledgers, "recognise", recognise)):
        yield


@mutant("the server's commit is on the disk before anybody hears of it")
def _server_commits_lazily() -> Iterator[None]:
    with _put((sqlite, "_PRAGMAS", ("journal_mode=WAL", "synchronous=OFF", "foreign_keys=ON"))):
        yield


@mutant("the till's commit is on the disk before the receipt is shown (PROTOCOL 6.1)")
def _till_commits_lazily() -> Iterator[None]:
    lazy = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 500")
    with _put((app.store.database, "_WRITER_PRAGMAS", lazy)):
        yield


@mutant("what found no room was not saved, and is said so")
def _full_disk_unnoticed() -> Iterator[None]:
    real = app.store.database._translated

    @contextmanager
    def translated(path: Any) -> Iterator[None]:
        with contextlib.suppress(DiskFull), real(path):
            yield

    with _put((app.store.database, "_translated", translated)):
        yield


@mutant("a projection follows from the ledger: what a sale draws on a lease is counted")
def _draws_uncounted() -> Iterator[None]:
    with _put((rights, "use", rights.release)):
        yield


@mutant("an entry continues the hash of the one before it")
def _broken_chain() -> Iterator[None]:
    real = ledger.Ledger.tail

    def tail(self: Any, conn: Any) -> Any:
        seq, digest = real(self, conn)
        return (seq, self.genesis if seq % 7 == 6 else digest)

    with _put((ledger.Ledger, "tail", tail)):
        yield


# ------------------------------------------------------------------ money


@mutant("a charge is asked about, never made anew")
def _charges_are_not_remembered() -> Iterator[None]:
    with _put((paying, "_is_over", lambda row: row.state in (*REFUNDABLE, OrderState.CANCELLED))):
        yield


@mutant("money of an earlier charge is told when a later one fails")
def _money_taken_is_forgotten() -> Iterator[None]:
    with _put((paying, "_append_late", lambda tx, parts, row, *, tenders, now: 0)):
        yield


@mutant("a receipt that nobody has seen is found after a restart")
def _restart_looks_for_nothing() -> Iterator[None]:
    with _put((restart, "_not_shown", lambda conn, parts: [])):
        yield


@mutant("a refund is asked for again where its answer is not known")
def _refund_request_not_durable() -> Iterator[None]:
    with _put((refunding.orders, "unanswered_refunds", lambda conn: [])):
        yield


@mutant("from the moment on which a sale may be known, the server decides over its refund")
def _till_refunds_what_was_sent() -> Iterator[None]:
    def is_ours(tx: Any, order: Any) -> bool:
        return order.entry_seq is not None or order.state in (OrderState.OPEN, OrderState.HELD, OrderState.UNKNOWN)

    with _put((refunding, "_is_ours", is_ours)):
        yield


@mutant("a till whose sale is not all here yet lets nobody else refund it")
def _anybody_refunds_early() -> Iterator[None]:
    with _put((server_refunds, "_may_be_decided", lambda conn, row: False)):
        yield


# ------------------------------------------------------------------ holds


@mutant("a hold that is over gives its money back")
def _holds_keep_their_money() -> Iterator[None]:
    with _put((accounts, "void_pending", lambda conn, order_id, attempt, *, now: ())):
        yield


@mutant("a cancel of an order that nobody has heard of is remembered, so a late hold revives nothing")
def _no_tombstone() -> Iterator[None]:
    with _put((server_orders, "_remember", lambda conn, attempt, *, state, reason: None)):
        yield


@mutant("a hold whose answer never came is given back")
def _unanswered_holds_stay() -> Iterator[None]:
    with _put((checkout, "give_up", lambda parts, row, *, reason: row)):
        yield


@mutant("an attempt that is over does not hold again")
def _attempts_unfenced() -> Iterator[None]:
    def cancel(conn: Any, attempt: Any, *, reason: str) -> Any:
        row = server_orders.find(conn, attempt.order_id)
        if row is not None and row.state == OrderState.CANCELLED:
            return ok(state=row.state)
        return real(conn, attempt, reason=reason)

    real = server_orders.cancel
    with _put((server_orders, "cancel", cancel)):
        yield


@mutant("an order whose payment is unknown keeps its rights, whatever the clock says (timer_voids_payment)")
def _timer_voids_payment() -> Iterator[None]:
    real = server_orders.time_out

    def time_out(conn: Any, now: Any, *, limit: int = 200) -> int:
        conn.exec_driver_sql("UPDATE orders SET state = 'HELD', held_until_at = received_at WHERE state = 'UNKNOWN'")
        return real(conn, now, limit=limit)

    with _put((server_orders, "time_out", time_out)):
        yield


# ------------------------------------------------------------------ rights


@mutant("a coupon has one home")
def _home_elsewhere_is_no_reason() -> Iterator[None]:
    real = homes._reason_against

    def reason(row: Any, ctx: Any) -> Any:
        found = real(row, ctx)
        return None if found is not None and found.code == "leased_elsewhere" else found

    with _put((homes, "_reason_against", reason)):
        yield


@mutant("a coupon that is at home at a till is frozen by no hold")
def _holds_ignore_homes() -> Iterator[None]:
    real_facts, real_freeze = facts._coupon, server_rights.freeze

    def coupon(row: Any, *args: Any, **keys: Any) -> Any:
        return real_facts({**row, "home": None}, *args, **keys)

    def freeze(conn: Any, attempt: Any, used: Any) -> Any:
        names = ", ".join(f"'{name}'" for name in used.coupons) or "''"
        conn.exec_driver_sql(f"UPDATE coupon SET home = NULL WHERE id IN ({names}) AND state = 'ISSUED'")
        return real_freeze(conn, attempt, used)

    with _put((facts, "_coupon", coupon), (server_rights, "freeze", freeze)):
        yield


@mutant("a word of an old home revives nothing (hole 2, no_fence)")
def _no_version() -> Iterator[None]:
    def take(tx: Any, coupons: Any) -> None:
        rights.run_each(
            tx,
            "INSERT INTO home (coupon_id, version, state) VALUES (?, ?, 'HOME') ON CONFLICT (coupon_id) DO UPDATE SET "
            "version = excluded.version, state = 'HOME', order_id = NULL",
            list(coupons),
        )

    with _put((rights, "take_home", take)):
        yield


@mutant("what a till gave back it has no more")
def _returned_stays_home() -> Iterator[None]:
    with _put((rights, "return_home", lambda tx, coupon_id, version: True)):
        yield


@mutant("a lease is closed behind all that used it, and used no more")
def _closed_lease_goes_on() -> Iterator[None]:
    with _put((rights, "close", lambda tx, lease_id: True)):
        yield


@mutant("a lease that an order under way holds stays open")
def _held_lease_closes() -> Iterator[None]:
    def close(tx: Any, lease_id: str) -> bool:
        sql = "UPDATE lease SET state = 'CLOSED' WHERE id = ? AND state = 'OPEN'"
        return bool(rights.run(tx, sql, (lease_id,)).rowcount == 1)

    with _put((rights, "close", close)):
        yield


@mutant("no clock takes a lease back (reclaim at expiry)")
def _leases_expire() -> Iterator[None]:
    real = server_orders.time_out

    def time_out(conn: Any, now: Any, **keys: Any) -> int:
        conn.exec_driver_sql(
            "UPDATE account SET available = available + leased, leased = 0 WHERE id IN "
            "(SELECT account_id FROM lease WHERE state = 'OPEN')"
        )
        conn.exec_driver_sql("UPDATE lease SET state = 'REVOKED' WHERE state = 'OPEN'")
        return int(real(conn, now, **keys))

    with _put((server_orders, "time_out", time_out)):
        yield


@mutant("what comes back pays an overdraft first (hole 10)", disasters=True)
def _overdraft_not_netted() -> Iterator[None]:
    with _put((accounts, "pay_back_overdraft", lambda conn, name, *, account_id, reason, now: 0)):
        yield


@mutant("what was used late is told", disasters=True)
def _late_use_untold() -> Iterator[None]:
    real = lent.spend_late

    def spend(conn: Any, account_id: str, amount: int, **keys: Any) -> Any:
        real(conn, account_id, amount, **keys)
        return []

    with _put((lent, "spend_late", spend), (given_out, "spend_late", spend)):
        yield


@mutant("a coupon that was given out is taken from the stock")
def _gifts_cost_nothing() -> Iterator[None]:
    with _put((given_out, "_take", lambda conn, lease, told, *, body: [])):
        yield


@mutant("what a till draws on its own rights is booked on its lease")
def _lent_is_drawn_twice() -> Iterator[None]:
    def draw(conn: Any, told: Any, sale: Any, *, attempt: Any) -> Any:
        found, used = real(conn, told, sale, attempt=attempt)
        return found, server_rights.Rights(used.coupons, {**used.amounts, **found.covered.amounts})

    real = sales._draw_lent
    with _put((sales, "_draw_lent", draw)):
        yield


@mutant("a till spends no more than it was lent")
def _lease_without_end() -> Iterator[None]:
    with _put((rights.LeaseRow, "left", property(lambda self: 10**6 if self.state == "OPEN" else 0))):
        yield


@mutant("a lease is asked for again under its own id until it has an answer")
def _lease_asked_anew() -> Iterator[None]:
    with _put((leasing.rights, "unanswered", lambda conn: [])):
        yield


@mutant("the tail that a till announces counts only against the tail that it has seen (hole 8)", disasters=True)
def _announce_without_comparison() -> Iterator[None]:
    real = sessions.hello

    def hello(conn: Any, context: Any, message: Any) -> Any:
        row = conn.exec_driver_sql(f"SELECT tail_seq, tail_hash FROM till WHERE id = '{message.till}'").one()
        seen = (row[0], row[1].hex() if row[1] else "")
        return real(conn, context, message.model_copy(update={"seen": seen}))

    with _put((sessions, "hello", hello)):
        yield
