"""Open a session: announce the end of our ledger, learn what the server holds of it, and check that both are one.

The server's cursor is the authority in every session (PROTOCOL 3.2). The checks come in the order of that page's table;
any of them stops the sync, and the till goes on selling what needs no server: nothing here deletes or rewrites.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version

from sqlalchemy import Connection

from app.domain.ledger import SCHEMA
from app.services.ports import Busy, Offline
from app.store import coupons, meta, outbox
from app.store.ledger import Ledger
from app.store.meta import instant_ms
from sync.adopt import adopt
from sync.protocol import HELLO_PATH, PROTOCOL, Hello, HelloAnswer, Mark
from sync.session import Session


class Stop(StrEnum):
    """Name what makes a till and its server strangers until a person has looked."""

    EPOCH = "epoch"  # enrolled anew elsewhere, an old image of this till, or of the server
    ROWS_LOST = "rows_lost"  # the server knows more of our ledger than we do
    FORK = "fork"  # the same number, another entry: two tills that think they are one, or a disk rolled back
    REVOKED = "revoked"  # headquarters took this till out of service
    BROKEN_CHAIN = "broken_chain"  # the server cannot verify the entry behind its cursor
    DAMAGED = "damaged"  # our file cannot be trusted


_ONLY_WE_KNOW = frozenset({Stop.ROWS_LOST, Stop.FORK})
"""What the server learns from the till alone (`Hello.stopped`)."""


class SyncStopped(Offline):
    """Say that this till must not exchange anything before somebody has looked at it."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.value)
        self.stop = stop


def greet(session: Session) -> bool:
    """Say hello, check the answer, and store what it teaches; True = the server came back from a backup since.

    Then it is told of our rights before it is pushed what used them.

    Raises SyncStopped, Offline and Busy; nothing is stored then, unless headquarters took this till out of service:
    what happened here is heard all the same. A till whose file is damaged says so and stops there; one that finds in
    the answer that its ledger is no longer the server's says that too, so that headquarters hears of it: only the till
    can tell, since what the server sees may as well be a copy of an old greeting.
    """
    sent_at = session.clock.now()
    answer = _say(session, sent_at)
    received_at = session.clock.now()
    if session.db.damaged:
        raise SyncStopped(Stop.DAMAGED)
    known = _known_incarnation(session)
    if known != answer.incarnation and _is_one(session, answer):
        # Also of one that we do not know: a file that was recovered has leases, and has forgotten from whom.
        adopt(session)
    stop = _take(session, answer, heard_ms=instant_ms(sent_at + (received_at - sent_at) / 2))
    if stop in _ONLY_WE_KNOW and answer.state == "OK":
        with suppress(Offline, Busy):
            _say(session, session.clock.now(), stopped=stop)
    if stop is not None:
        raise SyncStopped(stop)
    return known not in (0, answer.incarnation)


def _known_incarnation(session: Session) -> int:
    with session.db.read() as conn:
        return meta.load(conn).incarnation


def _is_one(session: Session, answer: HelloAnswer) -> bool:
    with session.db.read() as conn:
        return _compare(conn, session, answer) is None


def _compare(conn: Connection, session: Session, answer: HelloAnswer) -> Stop | None:
    return check(
        answer,
        epoch=session.epoch,
        last_seq=session.ledger.tail(conn)[0],
        hash_at=lambda seq: hash_at(conn, session.ledger, seq),
    )


def _say(session: Session, now: datetime, *, stopped: Stop | None = None) -> HelloAnswer:
    untrusted = session.client.untrusted
    with session.db.read() as conn:
        message = _hello(conn, session, now=now, stopped=stopped).model_copy(update={"untrusted": untrusted})
    answer = session.client.exchange(HELLO_PATH, message, HelloAnswer)
    if answer.to not in ("", message.name):
        # A copy of the answer to another greeting, perhaps of an epoch that is over: it says nothing about now.
        raise Offline("stale_answer")
    session.client.forget_untrusted(untrusted)
    session.heard.contact, session.heard.rest_s = answer.contact, answer.rest_s
    return answer


def _take(session: Session, answer: HelloAnswer, *, heard_ms: int) -> Stop | None:
    """Store what the answer teaches where both ledgers are one, and return what keeps this till from going on."""
    with session.db.write() as tx:
        stop = _compare(tx, session, answer)
        if stop is Stop.REVOKED:
            # That the server came back from a backup is learnt when our rights can be told it again.
            answer = answer.model_copy(update={"incarnation": meta.load(tx).incarnation})
        if stop in (None, Stop.REVOKED):
            move_cursor(tx, session.ledger, answer.acked)
            _learn(tx, answer, heard_ms)
    return stop


def check(answer: HelloAnswer, *, epoch: int, last_seq: int, hash_at: Callable[[int], str]) -> Stop | None:
    """Compare what the server holds with our ledger; None = both are one.

    `hash_at` gives our hash (hex) at a number from 0 (there "") to `last_seq`.
    """
    if answer.epoch != epoch:
        return Stop.EPOCH
    marks: tuple[Mark, ...] = (answer.acked, answer.tail)
    if any(seq > last_seq for seq, _ in marks):
        return Stop.ROWS_LOST
    if any(hash_at(seq) != digest for seq, digest in marks):
        return Stop.FORK
    return None if answer.state == "OK" else Stop(answer.state.lower())


def hash_at(conn: Connection, ledger: Ledger, seq: int) -> str:
    """Return our hash at a number as marks carry it: hex, "" at 0 and where there is no such entry."""
    found = ledger.hash_at(conn, seq) if seq else None
    return found.hex() if found else ""


def last_mark(conn: Connection, ledger: Ledger) -> Mark:
    """Return where our ledger ends."""
    seq, digest = ledger.tail(conn)
    return seq, digest.hex() if seq else ""


def move_cursor(tx: Connection, ledger: Ledger, acked: Mark) -> None:
    """Store what the server holds of our ledger; the server is the authority, also when it has become less.

    A place that is not in our ledger stops the sync and moves nothing.
    """
    seq, digest = acked
    if seq > ledger.tail(tx)[0]:
        raise SyncStopped(Stop.ROWS_LOST)
    if hash_at(tx, ledger, seq) != digest:
        raise SyncStopped(Stop.FORK)
    before = meta.load(tx).acked_seq
    if seq < before:
        outbox.reopen(tx, ledger.epoch, above=seq)
    if seq != before:
        meta.put(tx, acked_seq=seq, acked_hash=digest)


def _hello(conn: Connection, session: Session, *, now: datetime, stopped: Stop | None) -> Hello:
    known, ledger = meta.load(conn), session.ledger
    oldest_ms = ledger.oldest_pending_ms(conn)
    return Hello(
        proto=PROTOCOL,
        till=ledger.till_id,
        epoch=ledger.epoch,
        last=last_mark(conn, ledger),
        seen=(known.seen_seq, known.seen_hash),
        incarnation=known.incarnation,
        schema_range=(SCHEMA, SCHEMA),
        app=version("pawtill"),
        boot=ledger.boot,
        wall_ms=instant_ms(now),
        unsynced=ledger.counts(conn)[0],
        oldest_unsynced_s=0 if oldest_ms is None else max(0, (instant_ms(now) - oldest_ms) // 1000),
        db="damaged" if session.db.damaged else "ok",
        stopped="" if stopped is None else stopped.value,
        heard=session.heard.contact,
    )


FLOOR_SLACK_MS = 3_600_000
"""How far a server's clock may go back without taking back what it told: a correction, not a mistake."""


def _floor(known_ms: int, told_ms: int) -> int:
    """Return the instant before which this till decides nothing.

    It only grows, so that a till's clock that goes back revives nothing. But a server whose clock was years ahead once
    must not leave its tills there for good, with every coupon expired: what it says now is the authority.
    """
    return told_ms if known_ms - told_ms > FLOOR_SLACK_MS else max(known_ms, told_ms)


def _learn(tx: Connection, answer: HelloAnswer, heard_ms: int) -> None:
    """Store the server's tail, its clock, and who it is. `heard_ms`: our clock in the middle of the exchange."""
    known = meta.load(tx)
    learnt: dict[str, int | str] = {
        "seen_seq": answer.tail[0],
        "seen_hash": answer.tail[1],
        "incarnation": answer.incarnation,
        "clock_offset_ms": answer.now_ms - heard_ms,
        "time_floor_ms": _floor(known.time_floor_ms, answer.now_ms),
    }
    if known.incarnation != answer.incarnation or answer.head < known.cursor:
        # Restored from a backup: its feed counts anew from there, so our place in it means nothing any more, and
        # what it gave out since is known to nobody. A file that was recovered may have read the feed of another.
        learnt["cursor"] = 0
        coupons.forget(tx)
    changed = {name: value for name, value in learnt.items() if value != getattr(known, name)}
    if changed:
        meta.put(tx, **changed)
