"""Move the rights of an order: freeze them for an attempt, use them, thaw them, or draw them where none were held.

A right is a coupon, or an amount of an account (budget, card uses, stored value). Each step goes through the coupon's
life cycle in memory and through one conditional write whose count of rows is checked, so a rival in another process
cannot slip in between (REQUIREMENTS B1, C2, C3). The attempt of the order is the fencing token: what carries another
one is not touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, bindparam, or_, select, update

from app.domain.lifecycle import Step
from app.domain.rights import Rights
from app.domain.states import WINDOW_OVER, CouponEvent, CouponState
from resources.lifecycles import load
from server.db.bulk import Lookup, Present
from server.db.errors import DatabaseBusy
from server.db.schema import account, coupon, orders, redemption, transfer
from server.services import accounts, feed_records, history, risk_back

_ACCOUNTS, _COUPONS = Present(account.c.id), Present(coupon.c.id)
_PLACES = Lookup(select(coupon.c.id, coupon.c.state, coupon.c.home), coupon.c.id)
_FROZEN = select(coupon.c.id, coupon.c.valid_until_at).where(
    coupon.c.order_id == bindparam("order"),
    coupon.c.attempt == bindparam("number"),
    coupon.c.state == CouponState.FROZEN,
)
_PENDING = select(transfer.c.account_id, transfer.c.amount).where(
    transfer.c.order_id == bindparam("order"),
    transfer.c.attempt == bindparam("number"),
    transfer.c.state == "PENDING",
)

Record = tuple[str, str]
"""A feed record that changed: kind and key."""


class LostRace(DatabaseBusy):
    """Say that another writer changed a row between our look and our write; the caller starts over."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Name one attempt of an order, and who acts on it when: the owner and fencing token of every right it moves."""

    order_id: str
    number: int
    now: datetime
    till_id: str | None = None
    till_at: datetime | None = None
    operator: str | None = None

    def event(self, subject: str, subject_id: str, step: Step, *, reason: str = "") -> history.Event:
        """Return the step as a row of history."""
        return history.Event(
            subject=subject,
            subject_id=subject_id,
            event=step.event,
            from_state=step.frm,
            to_state=step.to,
            reason=reason,
            till_at=self.till_at,
            till_id=self.till_id,
            operator=self.operator,
        )


@dataclass(frozen=True, slots=True)
class Excess:
    """Tell of a right that an order used and that was not there.

    `kind` is the finding's: `double_redemption` (another order holds or used the coupon, or a till alone may use it),
    `invalid_redemption` (it had ended, or is not known), `overdraft` (`amount` beyond what the account had), `late_use`
    (headquarters had taken the right back, and it was still there), `lease_mismatch` (a lease that does not cover it),
    `risk_loss` (a coupon that a till took at a risk, and that was another's).
    """

    kind: str
    subject: str
    amount: int = 0

    @property
    def lost(self) -> bool:
        """Tell whether it is a coupon that was not the order's to use."""
        return self.kind in ("double_redemption", "invalid_redemption", "risk_loss")


def freeze(conn: Connection, attempt: Attempt, rights: Rights) -> list[Record]:
    """Take all rights for the attempt, or raise LostRace: the caller rolls back to its savepoint and looks again."""
    lifecycle, now = load("coupon"), attempt.now
    if rights.coupons:
        taken = conn.execute(
            update(coupon)
            .where(
                coupon.c.id.in_(rights.coupons),
                _may(CouponEvent.LOCK),
                coupon.c.home.is_(None),
                or_(coupon.c.valid_until_at.is_(None), coupon.c.valid_until_at > now),
            )
            .values(
                state=CouponState.FROZEN,
                order_id=attempt.order_id,
                attempt=attempt.number,
                version=coupon.c.version + 1,
            )
        )
        if taken.rowcount != len(rights.coupons):
            raise LostRace("a coupon of the order was taken meanwhile")
        step = lifecycle.step(CouponState.ISSUED, CouponEvent.LOCK)
        assert isinstance(step, Step), "the condition of the write is the table's own"
        _tell(conn, attempt, [(name, step) for name in sorted(rights.coupons)])
    reserve(conn, attempt, rights.amounts)
    return [*_coupon_records(rights.coupons), *account_records(rights.amounts)]


def reserve(conn: Connection, attempt: Attempt, amounts: Mapping[str, int]) -> None:
    """Hold an amount of each account for the attempt, or raise LostRace."""
    for account_id, amount in amounts.items():
        if not accounts.reserve(conn, _move(attempt, "hold", account_id, amount=amount), attempt.now):
            raise LostRace("an account of the order was drawn on meanwhile")


def held(conn: Connection, attempt: Attempt) -> Rights:
    """Return what the attempt holds now."""
    its = {"order": attempt.order_id, "number": attempt.number}
    frozen = conn.execute(_FROZEN, its).scalars()
    return Rights(frozenset(frozen), {row.account_id: row.amount for row in conn.execute(_PENDING, its)})


def use(conn: Connection, attempt: Attempt) -> list[Record]:
    """Turn everything that the attempt holds into used."""
    moved = _release(conn, attempt, CouponEvent.PAY_SUCCESS)
    return [*moved, *account_records(accounts.post_pending(conn, attempt.order_id, attempt.number, now=attempt.now))]


def thaw(conn: Connection, attempt: Attempt, event: CouponEvent) -> list[Record]:
    """Give back everything that the attempt holds; a coupon whose window is over becomes EXPIRED, never ISSUED.

    What comes back pays an overdraft before anyone may have it again (PROTOCOL 1.3), and a coupon goes to an order that
    used it without a right.
    """
    moved = _release(conn, attempt, event)
    free = accounts.void_pending(conn, attempt.order_id, attempt.number, now=attempt.now)
    _pay_back(conn, attempt, free)
    pass_on(conn, [name for _, name in moved], attempt.now)
    return [*moved, *account_records(free)]


def exchange(conn: Connection, attempt: Attempt, rights: Rights) -> tuple[list[Record], list[Excess]]:
    """Give back what the attempt holds and draw what its order used instead, as `draw` does.

    An overdraft of before is paid back last: what the order held is there for itself first.
    """
    moved = _release(conn, attempt, CouponEvent.CANCEL)
    free = accounts.void_pending(conn, attempt.order_id, attempt.number, now=attempt.now)
    drawn, excess = draw(conn, attempt, rights)
    _pay_back(conn, attempt, free)
    pass_on(conn, [name for _, name in moved], attempt.now)
    return [*moved, *account_records(free), *drawn], excess


def pass_on(conn: Connection, names: Sequence[str], now: datetime) -> None:
    """Let coupons that came back, those that nobody has now, be the use of a paid order that had no right to them.

    The order stays in its finding; the coupon is used, as it was in the shop, and nobody may use it a third time.
    """
    if not names:
        return
    rows = conn.execute(
        select(redemption.c.coupon_id, orders.c.id, orders.c.attempt)
        .join(coupon, coupon.c.id == redemption.c.coupon_id)
        .join(orders, orders.c.id == redemption.c.order_id)
        .where(
            redemption.c.coupon_id.in_(names),
            redemption.c.conflict.is_(True),
            redemption.c.reversed.is_(False),
            coupon.c.state == CouponState.ISSUED,
        )
        .order_by(redemption.c.coupon_id, orders.c.received_at.desc(), orders.c.id.desc())
    )
    for name, (order_id, number) in {row.coupon_id: (row.id, row.attempt) for row in rows}.items():
        use_unheld(conn, Attempt(order_id, number, now), [name])
        conn.execute(
            update(redemption)
            .where(redemption.c.coupon_id == name, redemption.c.order_id == order_id)
            .values(conflict=False)
        )
        risk_back.not_lost_after_all(conn, name, order_id, now=now)


def _pay_back(conn: Connection, attempt: Attempt, account_ids: Iterable[str]) -> None:
    for account_id in account_ids:
        name = f"net:thaw:{attempt.order_id}:{attempt.number}:{account_id}"
        accounts.pay_back_overdraft(conn, name, account_id=account_id, reason="overdraft paid back", now=attempt.now)


def draw(conn: Connection, attempt: Attempt, rights: Rights) -> tuple[list[Record], list[Excess]]:
    """Draw what an order used without holding it: it happened, so what is there is taken, and the excess is named."""
    excess: list[Excess] = []
    taken: list[str] = []
    states = {row.id: (row.state, row.home) for row in _PLACES.rows(conn, rights.coupons)}
    for name in sorted(rights.coupons):
        state, home = states.get(name, (None, None))
        if state == CouponState.ISSUED and home is None:
            taken.append(name)
        else:
            # What is at home at a till may be in use there: it goes to this order when it comes back.
            rival = state in (CouponState.FROZEN, CouponState.USED) or home is not None
            excess.append(Excess("double_redemption" if rival else "invalid_redemption", name))
    use_unheld(conn, attempt, taken)
    there = accounts.read(conn, rights.amounts)
    for account_id, amount in rights.amounts.items():
        # Without an account there is nothing to draw on: all of it is in excess.
        over = _overdraw(conn, attempt, there[account_id], amount=amount) if account_id in there else amount
        if over:
            excess.append(Excess("overdraft", account_id, over))
    # Also those that were no right any more: the till has noted them as used.
    return [*_coupon_records(states), *account_records(there)], excess


def known_coupon_records(conn: Connection, names: Iterable[str]) -> list[Record]:
    """Return the feed records of those coupons that the chain has; a till may tell of one that it has not."""
    return _coupon_records(_COUPONS.among(conn, set(names)))


def account_records(account_ids: Iterable[str]) -> list[Record]:
    """Return the feed records that show the accounts."""
    kinds = {
        accounts.BUDGET: feed_records.CAMPAIGN,
        accounts.VALUE: feed_records.MEMBER,
        accounts.USES: feed_records.PUNCH_CARD,
        accounts.RISK: feed_records.RISK,
    }
    parted = (account_id.partition(":") for account_id in account_ids)
    return [(kinds[kind], owner) for kind, _, owner in parted if kind in kinds]


def budgeted(conn: Connection, campaign_ids: Iterable[str]) -> set[str]:
    """Return which of the campaigns have a budget."""
    wanted = {accounts.budget_id(campaign_id): campaign_id for campaign_id in campaign_ids}
    return {wanted[found] for found in _ACCOUNTS.among(conn, wanted)}


def leave(
    conn: Connection, attempt: Attempt, ends: Mapping[str, datetime | None], *, event: CouponEvent
) -> list[Record]:
    """Move coupons, each with its end, that the order holds or used along `event`; raises LostRace when one moved.

    A coupon that ends up with nobody forgets its order, one that is used keeps it.
    """
    lifecycle = load("coupon")
    source = CouponState.USED if event is CouponEvent.RETURN else CouponState.FROZEN
    steps: dict[str, Step] = {}
    for name, end in ends.items():
        over = end is not None and end <= attempt.now
        step = lifecycle.step(source, event, {WINDOW_OVER: over})
        assert isinstance(step, Step), f"the table has {event} from {source}"
        steps[name] = step
    for to in sorted({step.to for step in steps.values()}):
        names = [name for name, step in steps.items() if step.to == to]
        kept = {} if to in (CouponState.FROZEN, CouponState.USED) else {"order_id": None, "attempt": None}
        fence = [coupon.c.order_id == attempt.order_id, _may(event)]
        if event is not CouponEvent.RETURN:
            fence.append(coupon.c.attempt == attempt.number)
        moved = conn.execute(
            update(coupon).where(coupon.c.id.in_(names), *fence).values(state=to, version=coupon.c.version + 1, **kept)
        )
        if moved.rowcount != len(names):
            raise LostRace("a coupon of the order moved meanwhile")
    _tell(conn, attempt, steps.items())
    return _coupon_records(steps)


def _release(conn: Connection, attempt: Attempt, event: CouponEvent) -> list[Record]:
    rows = conn.execute(_FROZEN, {"order": attempt.order_id, "number": attempt.number})
    ends = {row.id: row.valid_until_at for row in rows}
    return leave(conn, attempt, ends, event=event) if ends else []


def use_unheld(conn: Connection, attempt: Attempt, names: Sequence[str], *, home: str | None = None) -> None:
    """Take ISSUED coupons to USED by both steps of the life cycle at once: they were locked by the fact of the sale.

    They are at `home` (None = the server), and at the server from then on.
    """
    if not names:
        return
    lock = load("coupon").step(CouponState.ISSUED, CouponEvent.LOCK)
    assert isinstance(lock, Step)
    paid = load("coupon").step(lock.to, CouponEvent.PAY_SUCCESS)
    assert isinstance(paid, Step)
    moved = conn.execute(
        update(coupon)
        .where(coupon.c.id.in_(names), _may(CouponEvent.LOCK), coupon.c.home.is_not_distinct_from(home))
        .values(
            state=paid.to,
            order_id=attempt.order_id,
            attempt=attempt.number,
            version=coupon.c.version + 1,
            home=None,
        )
    )
    if moved.rowcount != len(names):
        raise LostRace("a coupon of the order was taken meanwhile")
    _tell(conn, attempt, [(name, step) for name in names for step in (lock, paid)])


def _tell(conn: Connection, attempt: Attempt, steps: Iterable[tuple[str, Step]]) -> None:
    """Write the steps of coupons into their history, with the order as the reason."""
    reason = f"order {attempt.order_id}"
    events = [attempt.event(history.COUPON, name, step, reason=reason) for name, step in steps]
    history.record(conn, events, attempt.now)


def _overdraw(conn: Connection, attempt: Attempt, found: accounts.Account, *, amount: int) -> int:
    """Spend `amount`, the part that is not there as an overdraft; returns that part."""
    there = min(amount, found.available)
    if there and not accounts.post(conn, _move(attempt, "draw", found.id, amount=there), attempt.now):
        raise LostRace("an account of the order was drawn on meanwhile")
    if there < amount:
        move = _move(attempt, "over", found.id, amount=amount - there, source=accounts.OVER)
        done = accounts.post(conn, move, attempt.now)
        assert done, "an overdraft has no bound"
    return amount - there


def _move(
    attempt: Attempt, what: str, account_id: str, *, amount: int, source: str = accounts.AVAILABLE
) -> accounts.Move:
    return accounts.Move(
        f"{what}:{attempt.order_id}:{attempt.number}:{account_id}",
        account_id,
        source,
        target=accounts.SPENT,
        amount=amount,
        reason=what,
        order_id=attempt.order_id,
        attempt=attempt.number,
    )


def _may(event: CouponEvent) -> ColumnElement[bool]:
    return coupon.c.state.in_(load("coupon").sources(event))


def _coupon_records(names: Iterable[str]) -> list[Record]:
    return [(feed_records.COUPON, name) for name in sorted(names)]
