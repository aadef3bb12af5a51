"""Take money by a card terminal that stands beside the till: the cashier reads its answer and says it here.

A `PaymentPort` without Qt. The till's call waits on its own thread until the window has the cashier's answer.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from app.domain.tenders import TenderType
from app.services.ports import NoAnswer, NotPaid, Paid, PaymentAnswer


@dataclass(frozen=True, slots=True)
class Question:
    """Ask the cashier what the terminal says.

    `again` False: charge now; True: look the payment up on the terminal, charge nothing. `kind` and `amount_minor` are
    None for a payment of before a restart, whose amount the list of interrupted orders shows.
    """

    payment_id: str
    kind: TenderType | None
    amount_minor: int | None
    again: bool


class CashierTerminal:
    """Let the cashier stand between till and terminal.

    Until a window attends, and after it has closed, every question is answered with `NoAnswer`: the order stays
    UNKNOWN and is asked about later. Questions come one at a time.
    """

    def __init__(self) -> None:
        self._one = threading.Lock()
        self._guard = threading.Lock()
        self._ask: Callable[[Question], None] | None = None
        self._open: tuple[Question, threading.Event] | None = None
        self._answer: PaymentAnswer = NoAnswer()
        self._known: dict[str, tuple[TenderType, int]] = {}

    def attend(self, ask: Callable[[Question], None]) -> None:
        """Let `ask` put each question on the screen; it is called on the till's thread and must not wait."""
        with self._guard:
            self._ask = ask

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        """Have the cashier charge on the terminal, and wait for what it says."""
        self._known[payment_id] = kind, amount_minor
        return self._wait(Question(payment_id, kind, amount_minor, again=False))

    def query(self, payment_id: str) -> PaymentAnswer:
        """Have the cashier look the payment up on the terminal's own list."""
        kind, amount_minor = self._known.get(payment_id, (None, None))
        return self._wait(Question(payment_id, kind, amount_minor, again=True))

    def answer(self, question: Question, answer: PaymentAnswer) -> None:
        """Give the cashier's answer; one to a question that is no longer open is ignored."""
        with self._guard:
            if self._open is not None and self._open[0] is question:
                self._answer = answer
                self._open[1].set()

    def close(self) -> None:
        """Stop asking: what is open stays unknown."""
        with self._guard:
            self._ask = None
            if self._open is not None:
                self._answer = NoAnswer()
                self._open[1].set()

    def _wait(self, question: Question) -> PaymentAnswer:
        with self._one:
            answered = threading.Event()
            with self._guard:
                ask = self._ask
                if ask is None:
                    return NoAnswer()
                self._open = question, answered
            ask(question)
            answered.wait()
            with self._guard:
                self._open = None
                return self._answer


PAID, NOT_PAID, NO_ANSWER = Paid(), NotPaid(), NoAnswer()
