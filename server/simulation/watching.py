"""Hold the books against what they must say at any moment (PROTOCOL 8, I1 to I5), all along: what is cheap to see."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

from server.simulation.chain import Chain
from server.simulation.truth import Broken, hold

EVERY = 12
"""Commits of the server between two looks."""

_UNEQUAL = (
    "SELECT id FROM account WHERE total + over <> available + held + reserved + leased + spent + stranded "
    "OR total < 0 OR over < 0 OR available < 0 OR held < 0 OR reserved < 0 OR leased < 0 OR spent < 0 OR stranded < 0"
)
_LEASED = (
    "SELECT id FROM account WHERE leased <> coalesce((SELECT sum(qty - used) FROM lease "
    "WHERE account_id = account.id AND state = 'OPEN' AND stranded_at IS NULL), 0) "
    "OR stranded <> coalesce((SELECT sum(qty - used) FROM lease "
    "WHERE account_id = account.id AND state = 'OPEN' AND stranded_at IS NOT NULL), 0)"
)
_INCARNATION = "SELECT incarnation, restored_at IS NOT NULL FROM chain"
_LEDGERS = (
    "SELECT t.id, t.epoch, t.acked_seq, count(e.seq), coalesce(max(e.seq), 0) FROM till t "
    "LEFT JOIN ledger_entry e ON e.till_id = t.id AND e.epoch = t.epoch GROUP BY t.id"
)


Rows = Callable[[str], Iterable[Sequence[Any]]]
"""Ask the server's database, in one snapshot."""


class BooksWatch:
    """Hold I1, I2 and I5, which the server's own books show at any moment; remember what was acknowledged."""

    def __init__(self) -> None:
        self._acked: dict[str, tuple[int, int]] = {}
        self._incarnation = 0
        self.restoring = False
        """Whether the server waits for what a backup lacks."""

    def look(self, rows: Rows) -> None:
        """Raise Broken for the first that does not hold."""
        for account_id, *_ in rows(_UNEQUAL):
            raise Broken("I1", f"{account_id} does not add up")
        for account_id, *_ in rows(_LEASED):
            raise Broken("I2", f"{account_id}: leased is not what its leases have left")
        for incarnation, restoring in rows(_INCARNATION):
            if incarnation != self._incarnation:
                # It came back from a backup: what it had acknowledged behind that, it has forgotten.
                self._incarnation, self._acked = incarnation, {}
            self.restoring = bool(restoring)
        for till_id, epoch, acked, count, last in rows(_LEDGERS):
            hold(acked == count == last, "I5", f"{till_id}/{epoch}: acked {acked}, {count} entries up to {last}")
            before = self._acked.get(till_id, (0, 0))
            hold((epoch, acked) >= before, "I5", f"{till_id}: {epoch}/{acked} is less than it was")
            self._acked[till_id] = (epoch, acked)


class Watch:
    """Look at the books of a chain all along."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._commits = 0
        self._books = BooksWatch()
        self.failure: Broken | None = None
        chain.server.disk.told = self._committed

    def _committed(self) -> None:
        self._commits += 1
        if self._commits % EVERY == 0 and self.failure is None:
            try:
                self.look()
            except Broken as broken:
                # Here a transaction of the server's ends; it must not be undone by what we found.
                self.failure = broken

    def raise_found(self) -> None:
        """Raise what was found, outside of the server."""
        if self.failure is not None:
            raise self.failure

    def look(self) -> None:
        """Hold I1 to I5."""
        with closing(sqlite3.connect(self._chain.server.disk.path)) as books:
            self._books.look(books.execute)
            self._tills(books)

    def _tills(self, books: sqlite3.Connection) -> None:
        """Hold I3 and I4 for the tills that no disaster befell."""
        used = dict(books.execute("SELECT id, used FROM lease"))
        at_server = {
            row[0]: row[1:]
            for row in books.execute("SELECT id, home, state FROM coupon WHERE state IN ('ISSUED', 'FROZEN')")
        }
        believers: dict[str, str] = {}
        for part in self._chain.tills:
            if part.id in self._chain.truth.disasters or not part.on:
                continue
            with closing(sqlite3.connect(part.disk.path)) as own:
                for lease_id, mine in own.execute("SELECT id, used FROM lease"):
                    hold(used.get(lease_id, 0) <= mine, "I3", f"{part.id}: {lease_id} is used more than it says")
                for coupon_id, *_ in own.execute("SELECT coupon_id FROM home WHERE state IN ('HOME', 'HELD')"):
                    home, state = at_server.get(coupon_id, (part.id, ""))
                    known = home is not None or self._books.restoring
                    hold(known, "I4", f"{coupon_id} is {state} at the server and at home at {part.id}")
                    hold(coupon_id not in believers, "I4", f"{coupon_id}: {part.id} and {believers.get(coupon_id)}")
                    believers[coupon_id] = part.id
