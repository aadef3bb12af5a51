"""Stand in for the payment terminal at each till: it does what the step says, and remembers every payment."""

from app.domain.tenders import TenderType
from app.services.ports import NotPaid, Paid, PaymentAnswer


class ScenarioTerminal:
    """Take payments by card and wallet; it outlives the till's process, as the real one does."""

    def __init__(self) -> None:
        self.declines = False
        self._payments: dict[str, PaymentAnswer] = {}

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        """Charge once; the same payment again gets its first answer."""
        return self._payments.setdefault(payment_id, NotPaid("declined") if self.declines else Paid())

    def query(self, payment_id: str) -> PaymentAnswer:
        """Tell what became of a payment."""
        return self._payments.get(payment_id, NotPaid("unknown"))
