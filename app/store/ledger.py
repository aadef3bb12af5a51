"""Append to the till's ledger and read it back: numbered, chained, never changed (PROTOCOL 3.1).

The outbox row of an entry is written in the same transaction. Everything here runs inside a transaction of
`TillDatabase`; an entry that was appended but not committed never was.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import CARRY, Entry, carried_id, carry, genesis, make_entry, original, verifies
from app.domain.receipt_number import ReceiptNumber
from app.store.driver import run, run_each
from app.store.meta import instant_ms

PENDING, ACKNOWLEDGED, PARKED, CARRIED = "PENDING", "ACKNOWLEDGED", "PARKED", "CARRIED"

_ENTRY = "epoch, seq, entry_id, kind, schema, body, prev_hash, hash"


Tail = tuple[int, bytes]
"""Number and hash of the last entry."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Say when and by whom an entry is made: `now` is the till's own clock, not corrected."""

    entry_id: str
    now: datetime
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Note how the server judged an entry: `state` ACKNOWLEDGED or PARKED, `code` why it is parked ("" otherwise)."""

    seq: int
    state: str = ACKNOWLEDGED
    code: str = ""


def monotonic_ms() -> int:
    """Return milliseconds that never go back while this process lives."""
    return time.monotonic_ns() // 1_000_000


class Ledger:
    """Speak of one till's ledger in one epoch.

    `boot` names this run of the process; `mono_ms` of an entry counts within it, so the order of events stands even
    where the clock was turned.
    """

    def __init__(self, till_id: str, epoch: int, boot: str) -> None:
        self.till_id = till_id
        self.boot = boot
        self.appended: Entry | None = None
        """The last entry appended in the transaction under way; `TillDatabase` takes it at the commit."""
        self.enter(epoch)

    def enter(self, epoch: int) -> None:
        """Speak of another epoch from now on; what the file says of it is the caller's."""
        self.epoch = epoch
        self.genesis = genesis(self.till_id, epoch)

    # -------------------------------------------------------------- writing

    def append(
        self, tx: Connection, kind: str, data: Mapping[str, Any], *, stamp: Stamp, tail: Tail | None = None
    ) -> Entry:
        """Append one entry with its outbox row, inside the caller's transaction.

        `tail` where the caller has read it in this transaction already.
        """
        seq, prev_hash = tail or self.tail(tx)
        entry = make_entry(
            prev_hash,
            till_id=self.till_id,
            epoch=self.epoch,
            seq=seq + 1,
            entry_id=stamp.entry_id,
            kind=kind,
            data=data,
        )
        run(
            tx,
            f"INSERT INTO entry ({_ENTRY}, wall_ms, mono_ms, boot, operator) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                entry.epoch,
                entry.seq,
                entry.entry_id,
                entry.kind,
                entry.schema,
                entry.body,
                entry.prev_hash,
                entry.hash,
                instant_ms(stamp.now),
                monotonic_ms(),
                self.boot,
                stamp.operator,
            ),
        )
        run(tx, "INSERT INTO outbox (epoch, seq, state) VALUES (?, ?, 'PENDING')", (entry.epoch, entry.seq))
        self.appended = entry
        return entry

    def carry(self, tx: Connection, entry: Entry, *, now: datetime) -> Entry:
        """Append an entry that brings one of an earlier epoch into the present one; the outbox says what became of it.

        Nothing is carried twice into one epoch: the database refuses the second by its id.
        """
        stamp = Stamp(carried_id(entry.entry_id, self.epoch), now)
        appended = self.append(tx, CARRY, carry(entry), stamp=stamp)
        run(
            tx,
            "UPDATE outbox SET state = 'CARRIED', code = ? "
            "WHERE (epoch, seq) = (SELECT epoch, seq FROM entry WHERE entry_id = ?)",
            (str(ReceiptNumber(self.till_id, appended.epoch, appended.seq)), entry.entry_id),
        )
        return appended

    def settle(self, tx: Connection, acked_seq: int, results: Sequence[Result] = ()) -> int:
        """Mark every entry up to `acked_seq` as acknowledged, those in `results` as they say; return how many were new.

        An entry that was parked stays parked, until a later result says otherwise.
        """
        done = run(
            tx,
            "UPDATE outbox SET state = 'ACKNOWLEDGED' WHERE epoch = ? AND seq <= ? AND state = 'PENDING'",
            (self.epoch, acked_seq),
        ).rowcount
        rows = [(result.state, result.code, self.epoch, result.seq) for result in results if result.seq <= acked_seq]
        if rows:
            run_each(tx, "UPDATE outbox SET state = ?, code = ? WHERE epoch = ? AND seq = ?", rows)
        return done

    # -------------------------------------------------------------- reading

    def tail(self, conn: Connection) -> Tail:
        """Return number and hash of the last entry; (0, genesis) where there is none."""
        row = run(
            conn, "SELECT seq, hash FROM entry WHERE epoch = ? ORDER BY seq DESC LIMIT 1", (self.epoch,)
        ).fetchone()
        return (row[0], row[1]) if row else (0, self.genesis)

    def hash_at(self, conn: Connection, seq: int) -> bytes | None:
        """Return the hash of an entry; genesis for 0, None for a number that is not there."""
        if seq == 0:
            return self.genesis
        row = run(conn, "SELECT hash FROM entry WHERE epoch = ? AND seq = ?", (self.epoch, seq)).fetchone()
        return row[0] if row else None

    def since(self, conn: Connection, seq: int, *, limit: int) -> list[Entry]:
        """Return at most `limit` entries after number `seq`, in order."""
        rows = run(
            conn,
            f"SELECT {_ENTRY} FROM entry WHERE epoch = ? AND seq > ? ORDER BY seq LIMIT ?",
            (self.epoch, seq, limit),
        )
        return [Entry(*row) for row in rows]

    def entry(self, conn: Connection, seq: int, *, epoch: int | None = None) -> Entry | None:
        """Return one entry, or the one that it carries; None for a place that is not there.

        `epoch` None = the present one.
        """
        rows = run(
            conn,
            f"SELECT {_ENTRY} FROM entry WHERE epoch = ? AND seq = ?",
            (self.epoch if epoch is None else epoch, seq),
        )
        row = rows.fetchone()
        return original(Entry(*row), self.till_id) if row else None

    def every(self, conn: Connection) -> Iterator[tuple[Entry, int]]:
        """Yield all entries of every epoch, oldest first, each with the till's clock at it (`wall_ms`)."""
        rows = run(conn, f"SELECT {_ENTRY}, wall_ms FROM entry ORDER BY epoch, seq")
        for row in rows:
            yield Entry(*row[:8]), row[8]

    def facts(self, conn: Connection) -> Iterator[Entry]:
        """Yield everything that happened at this till, once, oldest first: of what was carried, the original."""
        seen: set[str] = set()
        for entry, _ in self.every(conn):
            fact = original(entry, self.till_id)
            if fact.entry_id not in seen:
                seen.add(fact.entry_id)
                yield fact

    def latest(self, conn: Connection, *, limit: int) -> list[Entry]:
        """Return the last `limit` entries, the last first."""
        rows = run(conn, f"SELECT {_ENTRY} FROM entry WHERE epoch = ? ORDER BY seq DESC LIMIT ?", (self.epoch, limit))
        return [Entry(*row) for row in rows]

    def counts(self, conn: Connection) -> tuple[int, int]:
        """Return how many entries are pending and how many parked."""
        rows = run(conn, "SELECT state, count(*) FROM outbox WHERE state != 'ACKNOWLEDGED' GROUP BY state")
        found = {row[0]: row[1] for row in rows}
        return found.get(PENDING, 0), found.get(PARKED, 0)

    def count(self, conn: Connection) -> int:
        """Return how many entries there are, of every epoch."""
        return int(run(conn, "SELECT count(*) FROM entry").fetchone()[0])

    def oldest_pending_ms(self, conn: Connection) -> int | None:
        """Return the till's clock at the oldest entry that is not acknowledged; None where there is none."""
        row = run(
            conn,
            "SELECT e.wall_ms FROM outbox o JOIN entry e USING (epoch, seq) WHERE o.state != 'ACKNOWLEDGED' "
            "AND o.state = 'PENDING' ORDER BY o.epoch, o.seq LIMIT 1",  # both: the partial index is on the first
        ).fetchone()
        return row[0] if row else None

    def verify_all(self, conn: Connection) -> list[str]:
        """Check every entry of every epoch: what it says, and that it continues the one before where that is here.

        Epochs that were left may have gaps: of them only what there is was kept.
        """
        problems, before = [], None
        for entry, _ in self.every(conn):
            follows = before is not None and (before.epoch, before.seq + 1) == (entry.epoch, entry.seq)
            if before is not None and follows and entry.prev_hash != before.hash:
                problems.append(f"entry {entry.seq} of epoch {entry.epoch} does not continue the one before it")
            if not verifies(entry, self.till_id):
                problems.append(f"entry {entry.seq} of epoch {entry.epoch} is not what was written")
            before = entry
        return problems

    def verify(self, conn: Connection, *, last: int | None = None) -> list[str]:
        """Check numbers, hashes and links of the last `last` entries (None = all); return what is wrong, [] = sound.

        Everything wrong is listed, so that one bad entry does not hide the next.
        """
        end, _ = self.tail(conn)
        start = 0 if last is None else max(0, end - last)
        expected, prev_hash = start + 1, self.hash_at(conn, start)
        problems: list[str] = []
        for row in run(
            conn,
            f"SELECT {_ENTRY} FROM entry WHERE epoch = ? AND seq > ? ORDER BY seq",
            (self.epoch, start),
        ):
            entry = Entry(*row)
            if entry.seq != expected:
                problems.append(f"entry {expected} is missing")
            elif entry.prev_hash != prev_hash:
                problems.append(f"entry {entry.seq} does not continue the one before it")
            if not verifies(entry, self.till_id):
                problems.append(f"entry {entry.seq} is not what was written")
            expected, prev_hash = entry.seq + 1, entry.hash
        return problems


def mark(till_id: str, entry: Entry) -> str:
    """Return how a receipt names an entry: `T17-1-42 9f2c01ab`."""
    return f"{ReceiptNumber(till_id, entry.epoch, entry.seq)} {entry.hash[:4].hex()}"
