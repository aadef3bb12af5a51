"""Plant faults: each takes one guard out of the real code, and the simulator must notice within so many seeds.

A guard whose absence nobody notices is either one too many, or something that is not looked at. Here: ids and answers,
ledger and sync, money, epochs; `mutants_of_rights.py` has those of holds, homes and leases, `mutants_of_backups.py` and
`mutants_of_redis.py` the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import app.store.database
import sync.engine
import sync.hello
import sync.pull
import sync.push
from app.domain.refunds import REFUNDABLE
from app.domain.states import OrderState
from app.services import giving, paying, refunding, restart
from app.store import ledger, meta, rights
from app.store.errors import DiskFull
from server.db import sqlite
from server.services import catalog, feed, grants, ingest, leases, ledgers, sessions
from server.services import epochs as server_epochs
from server.services import orders as server_orders
from server.services import quarantine as server_quarantine
from server.services import refunds as server_refunds
from server.simulation import machines
from sync import protocol
from tests.simulation import mutants_of_backups, mutants_of_redis, mutants_of_rights
from tests.simulation.planting import MUTANTS, mutant, put

__all__ = ["MUTANTS", "mutants_of_backups", "mutants_of_redis", "mutants_of_rights"]


# ------------------------------------------------------------------ ids and answers


@mutant("the same claim gets the same answer")
def _claims_forget() -> Iterator[None]:
    with put((grants, "once_each", lambda conn, asked, *, decide, now: decide(list(range(len(asked)))))):
        yield


@mutant("a refused lease stays refused, also to a copy that comes late (hole 1)")
def _lease_refusal_not_recorded() -> Iterator[None]:
    real = leases.once

    def once(conn: Any, request_id: str, content: Any, *, decide: Any, now: Any) -> Any:
        answer = decide()
        return answer if answer["outcome"] != "ok" else real(conn, request_id, content, decide=lambda: answer, now=now)

    with put((leases, "once", once)):
        yield


@mutant(
    "a top-up asked for twice is one",
    harmless="its transfer has an id made of the request, so a repeat is the same transfer and adds nothing",
)
def _top_up_forgets() -> Iterator[None]:
    with put((catalog, "once", lambda conn, request, content, *, decide, now: decide())):
        yield


@mutant(
    "a hold asked for twice is one",
    harmless="a till asks for an attempt once, and to a copy that the line makes the attempt is over",
)
def _hold_forgets() -> Iterator[None]:
    with put((server_orders, "once", lambda conn, request, content, *, decide, now: decide())):
        yield


@mutant("a refund asked for twice is one")
def _refund_forgets() -> Iterator[None]:
    with put((server_refunds, "once", lambda conn, request, content, *, decide, now: decide())):
        yield


@mutant("a till asks for a coupon of a lease again under the same id")
def _gift_forgets() -> Iterator[None]:
    with put((giving.rights, "given", lambda conn, request_id: None)):
        yield


# ------------------------------------------------------------------ ledger and sync


@mutant("the ledger is not told from another one by the hash behind the cursor (hole 7)", disasters=True)
def _till_compares_nothing() -> Iterator[None]:
    def move(tx: Any, book: Any, acked: Any) -> None:
        meta.put(tx, acked_seq=acked[0], acked_hash=acked[1])

    with put((sync.hello, "check", lambda answer, **known: None), (sync.hello, "move_cursor", move)):
        yield


@mutant("headquarters hears of rows that a till has lost", disasters=True)
def _lost_rows_untold() -> Iterator[None]:
    with put((sync.hello, "_ONLY_WE_KNOW", frozenset())):
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

    with put((sync.push, "_settle", settle)):
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
    with put((sync.push, "_ask", _believe)):
        yield


@mutant("the server's cursor is the authority in every session (the till trusts its own acked)")
def _till_trusts_its_cursor() -> Iterator[None]:
    with put((sync.push, "_ask", _believe), (sync.hello.outbox, "reopen", lambda tx, epoch, *, above: None)):
        yield


@mutant("records and cursor are stored together")
def _cursor_before_records() -> Iterator[None]:
    real = sync.pull._apply

    def apply(session: Any, records: Any, cursor: int) -> int:
        with session.db.write() as tx:
            meta.put(tx, cursor=cursor)
        return real(session, records, cursor)

    with put((sync.pull, "_apply", apply)):
        yield


@mutant("a page that is older than the cursor is not applied", disasters=False)
def _old_pages_apply() -> Iterator[None]:
    def pull(session: Any) -> Any:
        with session.db.read() as conn:
            cursor = meta.load(conn).cursor
        message = protocol.Pull(proto=protocol.PROTOCOL, till=session.till, cursor=cursor)
        answer = session.client.exchange(protocol.PULL_PATH, message, protocol.PullAnswer)
        sync.pull._apply(session, list(answer.records), max(cursor, answer.next))
        return pull(session) if answer.more else sync.pull.Pulled(len(answer.records))

    with put((sync.engine, "pull", pull)):
        yield


@mutant("a page from further on in the feed is not applied: what lies before it would be passed over", disasters=True)
def _pages_further_on_apply() -> Iterator[None]:
    def page(*args: Any, **keys: Any) -> Any:
        return real(*args, **keys).model_copy(update={"since": None})

    real = feed.page
    with put((feed, "page", page)):
        yield


@mutant("the same number with another hash is a fork, no duplicate", disasters=True)
def _forks_are_duplicates() -> Iterator[None]:
    def recognise(conn: Any, row: Any, repeats: Any) -> Any:
        return [protocol.EntryResult(seq=entry.seq, result=protocol.DUPLICATE) for entry in repeats]

    with put((ledgers, "recognise", recognise)):
        yield


@mutant("the server's commit is on the disk before anybody hears of it")
def _server_commits_lazily() -> Iterator[None]:
    with put((sqlite, "_PRAGMAS", ("journal_mode=WAL", "synchronous=OFF", "foreign_keys=ON"))):
        yield


@mutant("the till's commit is on the disk before the receipt is shown (PROTOCOL 6.1)")
def _till_commits_lazily() -> Iterator[None]:
    lazy = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 500")
    with put((app.store.database, "_WRITER_PRAGMAS", lazy)):
        yield


@mutant("a receipt is printed behind the commit (print_before_commit)")
def _prints_before_the_commit() -> Iterator[None]:
    real, printers = paying._sell_for_cash, dict[str, Any]()
    real_start = machines.TillMachine._start

    def start(part: Any, *args: Any) -> Any:
        printers[part.id] = part.printer
        return real_start(part, *args)

    def sell(tx: Any, parts: Any, *args: Any, **keys: Any) -> Any:
        done = real(tx, parts, *args, **keys)
        printers[parts.till_id].print(done.receipt.mark)
        return done

    with put((machines.TillMachine, "_start", start), (paying, "_sell_for_cash", sell)):
        yield


@mutant("what found no room was not saved, and is said so")
def _full_disk_unnoticed() -> Iterator[None]:
    real = app.store.database._translated

    @contextmanager
    def translated(path: Any) -> Iterator[None]:
        with contextlib.suppress(DiskFull), real(path):
            yield

    with put((app.store.database, "_translated", translated)):
        yield


@mutant("a projection follows from the ledger: what a sale draws on a lease is counted")
def _draws_uncounted() -> Iterator[None]:
    with put((rights, "use", rights.release)):
        yield


@mutant("an entry continues the hash of the one before it")
def _broken_chain() -> Iterator[None]:
    real = ledger.Ledger.tail

    def tail(self: Any, conn: Any) -> Any:
        seq, digest = real(self, conn)
        return (seq, self.genesis if seq % 7 == 6 else digest)

    with put((ledger.Ledger, "tail", tail)):
        yield


@mutant("an entry that cannot be judged blocks nothing behind it (poison_blocks)")
def _poison_blocks() -> Iterator[None]:
    def judge_alone(conn: Any, context: Any, item: Any) -> Any:
        return ingest.judge(conn, context, item.told, body=item.body)

    with put((ingest, "_judge_alone", judge_alone)):
        yield


@mutant("what was parked is judged again")
def _parked_for_ever() -> Iterator[None]:
    with put((server_quarantine, "try_again", lambda *_args, **_keys: False)):
        yield


# ------------------------------------------------------------------ money


@mutant("a charge is asked about, never made anew")
def _charges_are_not_remembered() -> Iterator[None]:
    with put((paying, "_is_over", lambda row: row.state in (*REFUNDABLE, OrderState.CANCELLED))):
        yield


@mutant("money of an earlier charge is told when a later one fails")
def _money_taken_is_forgotten() -> Iterator[None]:
    with put((paying, "_append_late", lambda tx, parts, row, *, tenders, now: 0)):
        yield


@mutant("a receipt that nobody has seen is found after a restart")
def _restart_looks_for_nothing() -> Iterator[None]:
    with put((restart, "_not_shown", lambda conn, parts: [])):
        yield


@mutant("a refund is asked for again where its answer is not known")
def _refund_request_not_durable() -> Iterator[None]:
    with put((refunding.orders, "unanswered_refunds", lambda conn: [])):
        yield


@mutant("from the moment on which a sale may be known, the server decides over its refund")
def _till_refunds_what_was_sent() -> Iterator[None]:
    def is_ours(tx: Any, order: Any) -> bool:
        return order.entry_seq is not None or order.state in (OrderState.OPEN, OrderState.HELD, OrderState.UNKNOWN)

    with put((refunding, "_is_ours", is_ours)):
        yield


@mutant("a till whose sale is not all here yet lets nobody else refund it", disasters=False)
def _anybody_refunds_early() -> Iterator[None]:
    with put((server_refunds, "_may_be_decided", lambda conn, row: False)):
        yield


# ------------------------------------------------------------------ epochs


@mutant(
    "an answer to another greeting says nothing about now (hole 4)",
    disasters=True,
    harmless="what an old answer moves back the next one moves on: entries are sent again, and known; a key begins "
    "one epoch only, and all is carried into it (without that it is lost: nothing_is_carried)",
)
def _old_greetings_count() -> Iterator[None]:
    real = sessions.hello

    def hello(conn: Any, context: Any, message: Any) -> Any:
        return real(conn, context, message).model_copy(update={"to": ""})

    with put((sessions, "hello", hello)):
        yield


@mutant("what is here and not at the server is carried into the new epoch (hole 5)", disasters=True)
def _nothing_is_carried() -> Iterator[None]:
    with put((ledger.Ledger, "carry", lambda self, tx, entry, *, now: entry)):
        yield


@mutant("a till that forgot a payment hears that it waits for its word (hole 6)", disasters=True)
def _pending_payments_stay_forgotten() -> Iterator[None]:
    with put((server_epochs, "_pending", lambda conn, till_id: [])):
        yield
