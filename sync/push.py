"""Send what the server does not have yet, and believe nothing but a prefix that names our own hash.

Where to begin is read from the database before each batch: at the first PENDING entry. That is right behind the
server's cursor (where that goes back, the entries behind it become pending again), or earlier, where the server holds
entries whose verdict we never heard: sent again, a duplicate gets its first verdict. So a batch can be lost, doubled or
cut anywhere and the next one begins where it must; there is no state in memory that could be wrong.

No answer deletes or skips an entry. An entry leaves PENDING only for ACKNOWLEDGED or PARKED, both times because the
server holds it; a parked one never blocks those behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.ports import Step
from app.services.ports import Offline
from app.store import meta, outbox
from app.store.ledger import PARKED, Result
from sync.client import Misunderstood, TooLarge
from sync.hello import Stop, SyncStopped, greet, last_mark, move_cursor
from sync.protocol import (
    CLAIM,
    CONFLICT,
    DUPLICATE,
    OK,
    PROTOCOL,
    PUSH_MAX_BYTES,
    PUSH_MAX_ENTRIES,
    PUSH_PATH,
    QUARANTINED,
    REFUND,
    SALE,
    EntryResult,
    Mark,
    Push,
    PushAnswer,
    PushedEntry,
)
from sync.session import Session

SHOWINGS_MAX = 2
"""How often a push says hello so that the server sees the announced tail first: once to learn it, once to tell."""
COUNTED_KINDS = frozenset({SALE, REFUND, CLAIM})
"""What people count as pushed; the rest (cancels, payments without answer) goes along unnamed."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """Tell what reached the server: `counted` sales, refunds and claims; `conflicts` are all that were parked."""

    counted: int = 0
    conflicts: int = 0

    def __add__(self, other: "Pushed") -> "Pushed":
        return Pushed(self.counted + other.counted, self.conflicts + other.conflicts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold what one request carries: entries without a gap, where our ledger ends, and for which server they are."""

    entries: tuple[Entry, ...]
    last: Mark
    incarnation: int


def push(session: Session, *, batches_max: int | None = None) -> Pushed:
    """Push until nothing is pending, or `batches_max` batches; None = no end.

    Raises Offline, Busy, and SyncStopped where the server's ledger and ours are no longer one.
    """
    done, size, sent, gaps, unshown = Pushed(), PUSH_MAX_ENTRIES, 0, 0, 0
    first: int | None = None
    while batches_max is None or sent < batches_max:
        batch = _next(session, size)
        if batch is None:
            break
        _announce(session, batch)
        try:
            answer = _ask(session, batch)
        except TooLarge:
            # A proxy's limit may be below ours. One entry that is too large by itself stays, pending and in sight.
            if len(batch.entries) == 1:
                raise
            size = len(batch.entries) // 2
            continue
        session.probe("before_ack")
        if answer.error in ("EPOCH", "ANNOUNCE"):
            # The answer to a greeting says whether we are one; a copy of an old answer to a push cannot.
            _show(session)
            unshown += 1
            if answer.error == "EPOCH" or unshown > SHOWINGS_MAX:
                raise Offline("stale_answer")
            continue
        done += _record(session, batch, answer)
        first = batch.entries[0].seq if first is None else first
        session.progress(Step.SEND, max(0, answer.acked[0] - first + 1), batch.last[0] - first + 1)
        sent += 1
        gaps += answer.error == "GAP"
        if gaps > 1:
            # The first gap told where to go on, and there it stops again: it finds the hash of our next entry wrong.
            raise SyncStopped(Stop.BROKEN_CHAIN)
    return done


def fit(entries: Sequence[Entry], max_bytes: int = PUSH_MAX_BYTES) -> tuple[Entry, ...]:
    """Return the first entries that fit into one request, at least one: a large entry travels alone."""
    room = max_bytes
    for count, entry in enumerate(entries):
        room -= len(PushedEntry.of(entry).model_dump_json()) + 1
        if room < 0 and count > 0:
            return tuple(entries[:count])
    return tuple(entries)


def _next(session: Session, size: int) -> Batch | None:
    """Read the next batch and note durably that it is on its way, in one transaction.

    The note (`sent_seq`) ends this till's right to refund these orders without asking: from the moment on which the
    server might know an order, the server decides over it.
    """
    with session.db.read() as conn:
        if outbox.first_pending(conn, session.epoch) is None:
            return None
    with session.db.write() as tx:
        first = outbox.first_pending(tx, session.epoch)
        assert first is not None, "only a push, and one at a time, takes entries out of PENDING"
        entries = fit(session.ledger.since(tx, first - 1, limit=size))
        assert entries and entries[0].seq == first, "the ledger has no gaps"
        known = meta.load(tx)
        if entries[-1].seq > known.sent_seq:
            meta.put(tx, sent_seq=entries[-1].seq)
        return Batch(entries, last_mark(tx, session.ledger), known.incarnation)


def _announce(session: Session, batch: Batch) -> None:
    """Tell the server where our ledger ends before a batch that ends earlier.

    What stays behind may be our own refund of a sale in the batch. The server lets nobody else refund that sale while
    it knows that there is more to come, so it must know before the sale is there and the line breaks.
    """
    with session.db.read() as conn:
        told = meta.load(conn).seen_seq
    if batch.entries[-1].seq < batch.last[0] and told < batch.last[0]:
        _show(session)


def _show(session: Session) -> None:
    """Say hello. A till that headquarters took out of service goes on: what happened here is heard all the same."""
    try:
        greet(session)
    except SyncStopped as stopped:
        if stopped.stop is not Stop.REVOKED:
            raise


def _ask(session: Session, batch: Batch) -> PushAnswer:
    """Send the batch and return an answer that belongs to it."""
    message = Push(
        proto=PROTOCOL,
        till=session.till,
        epoch=session.epoch,
        entries=[PushedEntry.of(entry) for entry in batch.entries],
        last=batch.last,
        incarnation=batch.incarnation,
    )
    answer = session.client.exchange(PUSH_PATH, message, PushAnswer)
    sent = [entry.seq for entry in batch.entries]
    whole = answer.acked[0] >= sent[-1] and sorted(row.seq for row in answer.results) == sent
    if answer.epoch not in (0, session.epoch) or (answer.error == "" and not whole):
        # Of another epoch, or taken without an error yet not answered entry by entry: a copy of some other answer.
        raise Offline("stale_answer")
    return answer


def _record(session: Session, batch: Batch, answer: PushAnswer) -> Pushed:
    """Store what the answer says of the batch, in one transaction."""
    if answer.error == "FORK":
        raise SyncStopped(Stop.FORK)
    if answer.error not in ("", "GAP"):
        raise Misunderstood("unknown_error")
    with session.db.write() as tx:
        move_cursor(tx, session.ledger, answer.acked)
        return _settle(tx, session, batch=batch, answer=answer)


def _settle(tx: Connection, session: Session, *, batch: Batch, answer: PushAnswer) -> Pushed:
    """Give every entry of the batch that the server holds its verdict; return what is new by it.

    Without an error every entry has one. Behind a gap they are heard when the entries are sent again.
    """
    verdicts = {row.seq: parking_code(row) for row in answer.results if row.seq <= answer.acked[0]}
    judged = list(takewhile(lambda entry: entry.seq in verdicts, batch.entries))
    if not judged:
        return Pushed()
    results = [Result(entry.seq, PARKED, verdicts[entry.seq] or "") for entry in judged if verdicts[entry.seq]]
    session.ledger.settle(tx, judged[-1].seq, results)
    return Pushed(
        counted=sum(entry.kind in COUNTED_KINDS for entry in judged),
        conflicts=sum(verdicts[entry.seq] is not None for entry in judged),
    )


def parking_code(result: EntryResult) -> str | None:
    """Return why an entry is parked, e.g. "CONFLICT late_payment"; None = it is in order.

    A duplicate carries the code of its first verdict, so it is parked under the same words as if that had been heard. A
    verdict that this version does not know parks the entry too, so that a person sees it.
    """
    if result.result == OK or (result.result == DUPLICATE and not result.code):
        return None
    first = result.result
    if first == DUPLICATE:
        first = QUARANTINED if result.code == "quarantined" else CONFLICT
    return f"{first} {result.code}".rstrip()
