"""Stand where the payment terminal is, in a command that sells nothing."""

from app.domain.tenders import TenderType
from app.services.ports import NoAnswer, NotPaid, PaymentAnswer


class NoTerminal:
    """Take no money; what became of an earlier payment it cannot tell, so that stays open."""

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        """Refuse."""
        return NotPaid("no terminal")

    def query(self, payment_id: str) -> PaymentAnswer:
        """Know nothing."""
        return NoAnswer()
