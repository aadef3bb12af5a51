"""A payment terminal with its own truth: what it took, and whether it says so."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from app.domain.tenders import TenderType
from app.services.ports import NoAnswer, NotPaid, Paid, PaymentAnswer


class Habit(Enum):
    """What the next charge does: what the terminal makes of it, and what the till hears."""

    PAYS = "pays"
    DECLINES = "declines"
    PAYS_IN_SILENCE = "pays in silence"
    DECLINES_IN_SILENCE = "declines in silence"


class FakeTerminal:
    """Take money once for each payment id, whatever the till hears of it.

    `taken` maps payment ids to minor units really taken. `silent` keeps `query` from answering too.
    """

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.charges = 0
        self.queries = 0
        self.silent = False
        self._known: dict[str, PaymentAnswer] = {}
        self._habits: Iterator[Habit] = iter(())

    def next(self, *habits: Habit) -> None:
        """Say what the next charges do; those after them pay."""
        self._habits = iter(habits)

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        self.charges += 1
        habit = next(self._habits, Habit.PAYS)
        if payment_id not in self._known:
            pays = habit in (Habit.PAYS, Habit.PAYS_IN_SILENCE)
            self._known[payment_id] = Paid() if pays else NotPaid("declined")
            if pays:
                self.taken[payment_id] = amount_minor
        heard = habit in (Habit.PAYS, Habit.DECLINES)
        return self._known[payment_id] if heard else NoAnswer()

    def query(self, payment_id: str) -> PaymentAnswer:
        self.queries += 1
        return NoAnswer() if self.silent else self._known.get(payment_id, NotPaid("never seen"))
