"""Be the payment terminal at a till: it knows whether it took money, and does not always say so."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from app.domain.tenders import TenderType
from app.services.ports import NoAnswer, NotPaid, Paid, PaymentAnswer


@dataclass(frozen=True, slots=True)
class Charge:
    """Remember one charge: for which order, in which way, how much, and whether the money was taken."""

    order_id: str
    kind: str
    minor: int
    taken: bool


class Terminal:
    """Take money by card and wallet; it outlives the till's process and its disk.

    `order_id` is whose payment is under way, `silence` how often no answer comes, `rng` decides for the action that is
    under way.
    """

    def __init__(self, wait: Callable[[int], None], silence: float) -> None:
        self._wait, self.silence = wait, silence
        self.rng = random.Random(0)
        self.order_id = ""
        self.charges: dict[str, Charge] = {}
        self.doubled: list[str] = []
        self.unanswered = 0

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        """Charge; that a payment is charged a second time is noted, and takes money a second time."""
        taken = self.rng.random() < 0.75
        self._wait(self.rng.randint(500, 4000))
        self.keep(payment_id, Charge(self.order_id, kind.value, amount_minor, taken))
        self._wait(self.rng.randint(500, 20_000))
        return self._answer(payment_id)

    def keep(self, payment_id: str, charge: Charge) -> None:
        """Remember a charge."""
        if payment_id in self.charges:
            self.doubled.append(payment_id)
        self.charges[payment_id] = charge

    def query(self, payment_id: str) -> PaymentAnswer:
        """Tell what became of a payment; the charge may be later than the question."""
        self._wait(self.rng.randint(100, 2000))
        return self._answer(payment_id) if payment_id in self.charges else NotPaid("never seen")

    def _answer(self, payment_id: str) -> PaymentAnswer:
        if self.rng.random() < self.silence:
            self.unanswered += 1
            return NoAnswer()
        return Paid() if self.charges[payment_id].taken else NotPaid("declined")
