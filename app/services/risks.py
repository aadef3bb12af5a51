"""Take a coupon without a right on a manager's word, while this till cannot ask: the bound is a lease in money.

A coupon is genuine where this till's copy knows it: it came in an answer that the server signed. One that the copy has
not heard of is never taken, whatever its check digit says. What is at home at another till is that till's.

    risk_reason (app/domain/risk)   limits: budget, age of the sync, how many in a row, how many of one member
    approving                       another person's PIN and reason -> an `approval` entry, bound to order and coupon
    pricing                         the coupon takes off what campaign and budget allow, else `risk_limit`, `risk_spent`
    sale {rights: {risks, leases}}  the budget is spent in the sale's own transaction, and the entry says by whose word

The server judges it when it hears of it: free, or another's and then the store's loss (server/services/risk_uses).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rights import risk_id
from app.domain.risk import RiskFacts, RiskRoom, RiskTerms, risk_reason
from app.services.parts import Parts
from app.store import approvals, rights
from app.store.approvals import Approval, Unheard
from app.store.coupons import CouponRow
from app.store.meta import Meta
from app.store.rights import Risk


@dataclass(slots=True)
class RiskDesk:
    """Say of coupons that are not at home here whether an order may use them all the same, in one snapshot.

    What it needs to know is read once, when the first coupon is asked about: most orders have none.
    """

    conn: Connection
    parts: Parts
    known: Meta
    now: datetime
    order_id: str
    _left: int | None = field(default=None, init=False)
    _unheard: list[Unheard] = field(default_factory=list, init=False)
    _approved: dict[str, Approval] | None = field(default=None, init=False)

    def reason(self, row: CouponRow) -> Refusal | None:
        """Return why the order cannot use the coupon, `needs_approval` where a manager's word is all that lacks."""
        terms = _terms(row)
        if terms is None:
            return refuse(RefusalCode.NEEDS_ONLINE, coupon=row.id)
        approved = self._read()
        if any(each.coupon_id == row.id for each in self._unheard):
            # A pull may have brought the server's word from before it heard of that use.
            return refuse(RefusalCode.ALREADY_USED, coupon=row.id)
        others = [*self._unheard, *(Unheard(a.coupon_id, a.member_id) for a in approved.values())]
        others = [each for each in others if each.coupon_id != row.id]
        facts = RiskFacts(
            left_minor=self._left,
            in_a_row=len(others),
            of_member=sum(each.member_id is not None and each.member_id == row.member_id for each in others),
            last_sync_at=self.known.last_sync_at,
            now=self.now,
        )
        reason = risk_reason(terms, facts)
        if reason is not None:
            return Refusal(reason.code, {"coupon": row.id, **reason.facts})
        if row.id in approved:
            return None
        assert self._left is not None, "a till that takes no risk was refused above"
        return refuse(RefusalCode.NEEDS_APPROVAL, coupon=row.id, max_minor=min(terms.max_minor, self._left))

    def room(self, row: CouponRow) -> RiskRoom | None:
        """Return what the coupon may take off on the approval that the order has for it, None = it has none."""
        given = self._read().get(row.id)
        return None if given is None else RiskRoom(given.max_minor, self._left or 0)

    def _read(self) -> dict[str, Approval]:
        if self._approved is None:
            self._approved = approvals.of_order(self.conn, self.order_id) if self.order_id else {}
            self._unheard = approvals.unheard(self.conn, self.known, other_than=self.order_id)
            self._left = rights.left(self.conn, risk_id(self.parts.till_id))
        return self._approved


def _terms(row: CouponRow) -> RiskTerms | None:
    if row.offline != "risk" or row.risk_max_minor is None or row.sync_age_max_h is None:
        return None
    return RiskTerms(row.risk_max_minor, timedelta(hours=row.sync_age_max_h))


def taken(conn: Connection, parts: Parts, order_id: str, *, quote: Quote) -> list[Risk]:
    """Return what the order takes at a risk: its coupons that were approved and are not at home here.

    With a line nothing is: then the server is asked.
    """
    if parts.head_office.online or not any(stage.coupon_id for stage in quote.laid):
        return []
    given = approvals.of_order(conn, order_id)
    return [
        {
            "coupon": stage.coupon_id,
            "amount_minor": stage.discount_minor,
            "approval": given[stage.coupon_id].id,
            "by": given[stage.coupon_id].by,
            "reason": given[stage.coupon_id].reason,
        }
        for stage in quote.laid
        if stage.coupon_id in given and rights.at_home(conn, stage.coupon_id) is None
    ]
