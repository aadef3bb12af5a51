"""Leave a ledger that the server does not take for its own any more, and go on in a new epoch (PROTOCOL 3.6).

The server decides over the epoch; what happened at this till and is not there is carried into it, each entry once. A
crash at any point leaves the old epoch, whose enrolment is asked for again under the same id, or the new one, whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.ports import Progress, Step, no_progress
from app.services.parts import Parts
from app.services.recording import append_coupon_return, append_lease_close
from app.store import meta, orders, outbox, projections, rights
from app.store.meta import instant_ms

Mark = tuple[int, str]
"""A place in a ledger: number and hash (hex; "" for number 0)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Name an order that the server holds for us; `told` is our own word of its payment, where we gave one."""

    order_id: str
    attempt: int
    state: str
    told: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """Hold what the server granted.

    `tail` is where it knows our old ledger to end; `forked`: it met two ledgers that both said to be it.
    `booked_until_ms` is the last moment of what the books hold of us, by our clock; 0 = they hold nothing.
    """

    epoch: int
    tail: Mark
    forked: bool
    booked_until_ms: int = 0
    waiting: tuple[Waiting, ...] = ()


class Registry(Protocol):
    """Ask the server for a new epoch. Both may raise `Offline` and `Busy`; nothing is changed here then."""

    def new_epoch(self, enrolment_id: str, *, epoch: int, last: Mark) -> NewEpoch:
        """Ask for the epoch after `epoch`, whose ledger ends at `last`; the same id gets the same answer."""

    def unknown(self, entry_ids: Sequence[str]) -> set[str]:
        """Return those of the entries that the server does not have, under whatever number."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Tell of the new epoch: how many entries were carried, and whether the old ledger was all there.

    Where it was not, its rights are frozen at the server, for what was lost may have used them.
    """

    epoch: int
    carried: int
    whole: bool


def begin_epoch(
    parts: Parts,
    registry: Registry,
    *,
    last: Mark | None = None,
    gaps: bool = False,
    beside: Sequence[Entry] = (),
    progress: Progress = no_progress,
) -> Begun:
    """Begin a new epoch in this file. The sync must not run meanwhile. Raises Offline, Busy and what the store raises.

    `last` is where the old ledger ended as far as anybody can tell, where that is beyond what the file holds; `gaps`:
    something is missing before that too. `beside` are entries that happened here and have no place in the file.
    """
    with parts.ordering:
        enrolment_id, tail, here = _gather(parts, beside)
        granted = registry.new_epoch(enrolment_id, epoch=parts.database.ledger.epoch, last=max(tail, last or tail))
        known = here - registry.unknown(sorted(here))
        more = [fact for fact in beside if fact.entry_id not in known]
        cut = gaps or (last is not None and last[0] > tail[0])
        with _entering(parts, granted.epoch):
            return _record(parts, granted, known=known, more=more, cut=cut, progress=progress)


def _gather(parts: Parts, beside: Sequence[Entry]) -> tuple[str, Mark, set[str]]:
    """Return the enrolment's id, durable before anybody hears it, the end of our ledger, and the ids of its facts."""
    ledger = parts.database.ledger
    with parts.database.write() as tx:
        enrolment_id = meta.load(tx).enrolment or parts.ids.new()
        meta.put(tx, enrolment=enrolment_id)
        seq, digest = ledger.tail(tx)
        here = {fact.entry_id for facts in (ledger.facts(tx), beside) for fact in facts}
        return enrolment_id, (seq, digest.hex() if seq else ""), here


@contextmanager
def _entering(parts: Parts, epoch: int) -> Iterator[None]:
    """Speak of the new epoch while it is written, and of what the file says where that fails."""
    parts.database.ledger.enter(epoch)
    try:
        yield
    except BaseException:
        with parts.database.read() as conn:
            parts.database.ledger.enter(meta.load(conn).epoch)
        raise


def _record(
    parts: Parts, granted: NewEpoch, *, known: set[str], more: Sequence[Entry], cut: bool, progress: Progress
) -> Begun:
    """Write the new epoch in one transaction: what is carried, what is given back or up, what waits for an answer."""
    ledger, now = parts.database.ledger, parts.now()
    with parts.recording() as tx:
        before = meta.load(tx).epoch
        missing = [fact for fact in ledger.facts(tx) if fact.entry_id not in known]
        missing += [fact for fact in more if all(fact.entry_id != each.entry_id for each in missing)]
        whole = not cut and not granted.forked and _reaches(tx, before, granted.tail)
        since_ms = max(instant_ms(now), granted.booked_until_ms, *(_told_ms(fact) for fact in missing))
        meta.put(tx, epoch=granted.epoch, enrolment="", epoch_since_ms=since_ms, sent_seq=0, cursor=0)
        meta.put(tx, acked_seq=0, acked_hash="", seen_seq=0, seen_hash="")
        for each in granted.waiting:
            _wait_again(tx, parts, each)
        for number, fact in enumerate(missing, 1):
            ledger.carry(tx, fact, now=now)
            progress(Step.CARRY, number, len(missing))
        outbox.settle_left(tx, before=granted.epoch)
        if whole:
            _give_back(tx, parts)
        else:
            rights.drop(tx)
        projections.rebuild(tx, ledger)
    return Begun(granted.epoch, len(missing), whole=whole)


def _told_ms(fact: Entry) -> int:
    """Return when the fact happened by the clock of then; 0 where it does not say so."""
    try:
        return instant_ms(datetime.fromisoformat(fact.read()["at"]))
    except (KeyError, TypeError, ValueError):
        return 0


def _reaches(tx: Connection, epoch: int, tail: Mark) -> bool:
    """Tell whether the file holds the old ledger up to where the server knows it to end, with the same hash."""
    seq, digest = tail
    if seq == 0:
        return True
    row = tx.exec_driver_sql("SELECT hash FROM entry WHERE epoch = ? AND seq = ?", (epoch, seq)).fetchone()
    return row is not None and row[0].hex() == digest


def _wait_again(tx: Connection, parts: Parts, each: Waiting) -> None:
    """Take a payment back whose answer is not known and of which this file knows nothing: the terminal is asked again.

    An order that the server merely holds needs nothing: it ends there by itself.
    """
    row = orders.get(tx, each.order_id)
    if each.told is None or (row is not None and row.attempt >= each.attempt):
        return
    found = projections.unknown(each.told)
    if found.rights is not None and not rights.hold(tx, found.rights, found.id):
        found = replace(found, rights=None)
    orders.put(tx, found, now=parts.now())


def _give_back(tx: Connection, parts: Parts) -> None:
    """Close every lease and return every coupon: the ledger is all there, so what it did not use was not used."""
    now = parts.now()
    for lease in rights.all_open(tx):
        append_lease_close(tx, parts, lease, now=now)
    for coupon_id, version in rights.homes(tx):
        append_coupon_return(tx, parts, coupon_id, version=version, now=now)
