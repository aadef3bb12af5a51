"""Take a sale into the books: a plain one by rows alone, one with rights by settling its hold.

It happened, so it is booked whatever is wrong with it (STYLE, lesson 11); what is wrong becomes a conflict with a
finding that names it. The one exception is money for an order that is over or sold already: that changes nothing
and waits for a person (RULES, "Order life cycle").
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert

from app.domain.lifecycle import Step
from app.domain.refusals import Refusal
from app.domain.rights import Rights, rights_of
from app.domain.states import OrderEvent, OrderState
from app.domain.tenders import TenderType
from resources.lifecycles import load
from server.db import schema
from server.db.bulk import BulkInsert, Present
from server.services import accounts, evidence, feed, history, orders, rights, risk_uses
from server.services.entries import SaleBody, discounts, paid_minor, sums_problem
from server.services.epochs import told_payments
from server.services.exposure import IN_MONEY
from server.services.lent import Lent, draw, late_uses
from server.services.rights import Attempt, Excess, Record
from server.services.risk_back import LOSS
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict

_STORED_VALUE = TenderType.STORED_VALUE.value

_ORDERS = BulkInsert(
    schema.orders,
    "id",
    "attempt",
    "state",
    "store_id",
    "till_id",
    "member_id",
    "operator",
    "lines",
    "quote",
    "tenders",
    "payable_minor",
    "held_until_at",
    "sold_at",
    "received_at",
)
_LINES = BulkInsert(
    schema.order_line, "order_id", "number", "sku", "qty_milli", "gross_minor", "discount_minor", "net_minor"
)
_TENDERS = BulkInsert(schema.order_tender, "order_id", "position", "type", "amount_minor")
_REDEMPTIONS = BulkInsert(
    schema.redemption, "order_id", "position", "campaign_id", "coupon_id", "discount_minor", "conflict"
)
_USES = BulkInsert(schema.punch_use, "card_id", "order_id", "line", "number")
_HISTORY = BulkInsert(
    schema.history,
    "subject",
    "subject_id",
    "event",
    "from_state",
    "to_state",
    "server_at",
    "till_at",
    "till_id",
    "operator",
)
_MEMBERS, _SKUS = Present(schema.member.c.id), Present(schema.product.c.sku)
_PARENTS_FIRST = (_ORDERS, _LINES, _TENDERS, _REDEMPTIONS, _USES, _HISTORY)


class Rows:
    """Collect the rows of sales, to be written many at a time."""

    def __init__(self) -> None:
        self._waiting: dict[BulkInsert, list[tuple[Any, ...]]] = {each: [] for each in _PARENTS_FIRST}

    def add_sale(self, sale: SaleBody, told: Told) -> None:
        """Add a sale that the server had never heard of, and that is in order."""
        values = order_values(sale, told) | {"id": sale["order"], "state": OrderState.PAID.value}
        self._waiting[_ORDERS].append(tuple([values[name] for name in _ORDERS.columns]))
        self.add_parts(sale)
        self._waiting[_HISTORY].append(
            (
                history.ORDER,
                sale["order"],
                OrderEvent.PAY_SUCCESS.value,
                OrderState.OPEN.value,
                OrderState.PAID.value,
                told.now,
                sale["at"],
                told.till_id,
                sale["operator"] or None,
            )
        )

    def add_parts(self, sale: SaleBody, *, conflicts: Collection[str] = ()) -> None:
        """Add lines, tenders, redemptions and card uses; `conflicts` names the coupons that were not the order's."""
        order_id, quote, waiting = sale["order"], sale["quote"], self._waiting
        for line in quote["lines"]:
            gross_minor, net_minor = line["gross_minor"], line["net_minor"]
            waiting[_LINES].append(
                (
                    order_id,
                    line["number"],
                    line["sku"],
                    line["qty_milli"],
                    gross_minor,
                    gross_minor - net_minor,
                    net_minor,
                )
            )
        for i, tender in enumerate(sale["tenders"]):
            waiting[_TENDERS].append((order_id, i, tender["type"], tender["amount_minor"]))
        for i, (campaign_id, coupon_id, discount_minor) in enumerate(discounts(quote)):
            waiting[_REDEMPTIONS].append((order_id, i, campaign_id, coupon_id, discount_minor, coupon_id in conflicts))
        numbers: Counter[tuple[str, int]] = Counter()
        for cover in quote["covers"]:
            place = (cover["card"], cover["line"])
            numbers[place] += 1
            waiting[_USES].append((place[0], order_id, place[1], numbers[place]))

    def flush(self, conn: Connection) -> None:
        """Write everything, parents first, and forget it."""
        for each, rows in self._waiting.items():
            each.run(conn, rows)
            rows.clear()


def order_values(sale: SaleBody, told: Told) -> dict[str, Any]:
    """Return what the order's row says of a sale, but for its id and state."""
    return {
        "attempt": sale["attempt"],
        "store_id": sale["store"],
        "till_id": told.till_id,
        "member_id": member_of(sale),
        "operator": sale["operator"],
        "lines": sale["lines"],
        "quote": sale["quote"],
        "tenders": sale["tenders"],
        "payable_minor": paid_minor(sale["tenders"]),
        "held_until_at": None,
        "sold_at": sale["at"],
        "received_at": told.now,
    }


def member_of(sale: SaleBody) -> str | None:
    """Return the member on the order, perhaps brought by a coupon or card."""
    return sale["quote"]["member"] or sale["member"]


def rights_used(sale: SaleBody, told: Told, budgeted: Collection[str]) -> Rights:
    """Return what the sale drew on; `budgeted` are the campaigns that have a budget."""
    value_minor = sum(tender["amount_minor"] for tender in sale["tenders"] if tender["type"] == _STORED_VALUE)
    used = rights_of(
        discounts(sale["quote"]),
        cards=[cover["card"] for cover in sale["quote"]["covers"]],
        value=(member_of(sale), value_minor),
        budgeted=budgeted,
    )
    return Rights(used.coupons, {**used.amounts, **risk_uses.amounts(sale, told)})


def uses_rights(sale: SaleBody, budgeted: Collection[str]) -> bool:
    """Tell whether the sale drew on anything that only the server may decide; the quick form of `rights_used`."""
    quote = sale["quote"]
    return (
        bool(quote["covers"])
        or any(stage["coupon"] is not None or stage["campaign"] in budgeted for stage in quote["laid"])
        or any(tender["type"] == _STORED_VALUE for tender in sale["tenders"])
    )


def judge_sale(conn: Connection, told: Told, sale: SaleBody) -> Verdict:
    """Book a sale that is not plain: it settles a hold, tries a cancelled order anew, or something is wrong with it."""
    row = orders.find(conn, sale["order"])
    problem = sums_problem(sale)
    if row is None:
        verdict = _book_unheld(conn, told, sale, row=None)
    elif row.state in (OrderState.HELD, OrderState.UNKNOWN) and _is_live(row, sale, told):
        verdict = _settle(conn, told, sale, row=row)
    elif _was_given_up(row, sale, told):
        verdict = _book_unheld(conn, told, sale, row=row)
    elif row.state in (OrderState.HELD, OrderState.UNKNOWN, OrderState.CANCELLED):
        return _late(conn, told, sale, row=row)
    else:
        return _keep_out(conn, told, sale, row=row, code="duplicate_order", why="sold already")
    if problem is not None:
        detail = {"order": sale["order"], "problem": problem}
        return conflict(conn, told, "bad_sums", key=sale["order"], detail=detail)
    return _unknown_skus(conn, told, sale) or verdict


def _is_live(row: Row[Any], sale: SaleBody, told: Told) -> bool:
    """Tell whether the sale carries the token of the live attempt, from the till that owns it."""
    return bool(row.attempt == sale["attempt"] and row.till_id == told.till_id)


def _was_given_up(row: Row[Any], sale: SaleBody, told: Told) -> bool:
    """Tell whether the till has gone on to a newer attempt, so that what is known of the order is over."""
    newer = row.attempt < sale["attempt"]
    return bool(
        newer and (row.state == OrderState.CANCELLED or (row.state == OrderState.HELD and row.till_id == told.till_id))
    )


def _settle(conn: Connection, told: Told, sale: SaleBody, *, row: Row[Any]) -> Verdict:
    """Turn what the order holds into used. A sale that used something else lets go of the hold and draws that."""
    attempt = told.attempt(sale)
    event = OrderEvent.PAY_SUCCESS if row.state == OrderState.HELD else OrderEvent.PAID
    step = load("order").step(row.state, event)
    assert isinstance(step, Step), f"the table has {event} from {row.state}"
    orders.move(conn, row.id, row.attempt, step=step, values={**order_values(sale, told), "lines": _lines(row, sale)})
    sale = _with_rights(conn, told, sale, row=row)
    lent, used = _draw_lent(conn, told, sale, attempt=attempt)
    held = rights.held(conn, attempt)
    # Nobody held what was taken at a risk, or was at home at the till until headquarters took it back.
    unheld = used.coupons & (risk_uses.taken(sale).keys() | lent.late)
    younger = _younger_budgets(held, used.less(Rights(unheld, {})))
    if younger is not None:
        touched = rights.use(conn, attempt)
        drawn, excess = rights.draw(conn, attempt, Rights(unheld, younger.amounts))
        verdict = IN_ORDER
    else:
        touched = []
        drawn, excess = rights.exchange(conn, attempt, used)
        verdict = _differs(conn, told, sale, held=held, used=used)
    excess = [*lent.excess, *excess, *late_uses(lent, excess)]
    excess, risked = risk_uses.book(conn, told, sale, excess=excess)
    _book_parts(conn, sale, attempt, step=step, excess=excess, touched=[*lent.touched, *touched, *drawn, *risked])
    return _excess_verdict(conn, told, sale, excess=excess) or verdict


def _with_rights(conn: Connection, told: Told, sale: SaleBody, *, row: Row[Any]) -> SaleBody:
    """Return the sale with the rights that the till named when it told that the payment had no answer.

    A new machine that took the payment over has not the rights that it drew on, so its sale names none of them.
    """
    if "rights" in sale or row.state != OrderState.UNKNOWN:
        return sale
    body = told_payments(conn, told.till_id).get((sale["order"], sale["attempt"]), {})
    return {**sale, "rights": body["rights"]} if body.get("rights") else sale


def _draw_lent(conn: Connection, told: Told, sale: SaleBody, *, attempt: Attempt) -> tuple[Lent, Rights]:
    """Book what the till had itself; returns that, and what the sale used besides."""
    risk_uses.prepare(conn, told, sale)
    used = rights_used(sale, told, rights.budgeted(conn, (stage["campaign"] for stage in sale["quote"]["laid"])))
    lent = draw(conn, told, attempt, named=sale.get("rights"), used=used)
    return lent, used.less(lent.covered)


def _lines(row: Row[Any], sale: SaleBody) -> Any:
    """Return the lines by which a return will be priced: those of the hold, where they are the ones that were sold.

    The till's copy of prices and categories may have been behind when it asked, and the total the same all the same.
    """

    def goods(lines: Any) -> list[tuple[Any, ...]]:
        return [(line["number"], line["sku"], line["qty_milli"]) for line in lines]

    return row.lines if goods(row.lines) == goods(sale["lines"]) else sale["lines"]


def _younger_budgets(held: Rights, used: Rights) -> Rights | None:
    """Return what the sale used beyond its hold: nothing, or budgets that are younger than it; None = they differ."""
    beyond = {account_id: amount for account_id, amount in used.amounts.items() if account_id not in held.amounts}
    within = {account_id: amount for account_id, amount in used.amounts.items() if account_id in held.amounts}
    younger = all(account_id.startswith(f"{accounts.BUDGET}:") for account_id in beyond)
    same = held.coupons == used.coupons and dict(held.amounts) == within
    return Rights(frozenset(), beyond) if same and younger else None


def _book_unheld(conn: Connection, told: Told, sale: SaleBody, *, row: Row[Any] | None) -> Verdict:
    """Book a sale that holds nothing; `row` is an attempt of the order that is over."""
    attempt = told.attempt(sale)
    if row is not None and row.state == OrderState.HELD:
        ended = load("order").step(row.state, OrderEvent.CANCEL)
        assert isinstance(ended, Step), "a held order can be cancelled"
        orders.end(conn, attempt, row, step=ended, reason="a newer attempt was paid")
    step = load("order").step(OrderState.OPEN, OrderEvent.PAY_SUCCESS)
    assert isinstance(step, Step), "an order that uses no rights is paid without a hold"
    if row is None:
        conn.execute(insert(schema.orders).values(id=sale["order"], **order_values(sale, told), state=step.to))
    else:
        before = sale["attempt"] if row.state == OrderState.HELD else row.attempt
        # The newer attempt began OPEN at the till; the row that it takes over is that of the one given up.
        step = Step(OrderState.CANCELLED, step.event, step.to)
        orders.move(conn, row.id, before, step=step, values=order_values(sale, told))
    lent, used = _draw_lent(conn, told, sale, attempt=attempt)
    touched, excess = rights.draw(conn, attempt, used)
    excess = [*lent.excess, *excess, *late_uses(lent, excess)]
    excess, risked = risk_uses.book(conn, told, sale, excess=excess)
    _book_parts(conn, sale, attempt, step=step, excess=excess, touched=[*lent.touched, *touched, *risked])
    verdict = _excess_verdict(conn, told, sale, excess=excess)
    # What was taken at a risk was to be held by nobody: its leases pay for it.
    covered = Rights(lent.covered.coupons | risk_uses.taken(sale).keys(), lent.covered.amounts)
    if verdict is None and rights_used(sale, told, _budgeted_then(sale)).less(covered):
        told_of = {"coupons": sorted(used.coupons), "amounts": dict(used.amounts)}
        detail = {"order": sale["order"], **told_of, "here": evidence.of_order(row)}
        verdict = conflict(conn, told, "no_hold", key=sale["order"], detail=detail)
    return verdict or IN_ORDER


def _budgeted_then(sale: SaleBody) -> set[str]:
    """Return the campaigns that had a budget by the rules of the sale; a budget that is younger needed no hold."""
    return {stage["campaign"] for stage in sale["quote"]["laid"] if stage["rule"].get("budget") is not None}


def _book_parts(
    conn: Connection,
    sale: SaleBody,
    attempt: Attempt,
    *,
    step: Step,
    excess: Sequence[Excess],
    touched: Sequence[Record],
) -> None:
    rows = Rows()
    rows.add_parts(sale, conflicts={each.subject for each in excess if each.lost})
    rows.flush(conn)
    history.record(conn, [attempt.event(history.ORDER, attempt.order_id, step)], attempt.now)
    feed.touch(conn, [*touched, *known_member_records(conn, [member_of(sale)])])


def known_member_records(conn: Connection, member_ids: Collection[str | None]) -> list[Record]:
    """Return the feed records of those members that the chain has; a till may tell of one that it has not."""
    named = [member_id for member_id in member_ids if member_id is not None]
    return [record for member_id in sorted(_MEMBERS.among(conn, named)) for record in orders.member_records(member_id)]


def _excess_verdict(conn: Connection, told: Told, sale: SaleBody, *, excess: Sequence[Excess]) -> Verdict | None:
    """Open a finding for each right that was not there; the verdict names the first."""
    lost = {coupon_id: minor for _, coupon_id, minor in discounts(sale["quote"]) if coupon_id}
    verdicts = []
    for each in excess:
        in_money = each.subject.partition(":")[0] in IN_MONEY
        amount_minor = lost.get(each.subject, each.amount if in_money else 0)
        detail: dict[str, Any] = {"order": sale["order"], "subject": each.subject, "amount": each.amount}
        if each.kind == LOSS:
            detail |= risk_uses.both_sides(conn, sale, each.subject)
        else:
            detail["here"] = evidence.of_subject(conn, each.subject)
        key = f"{each.subject}/{sale['order']}"
        verdicts.append(conflict(conn, told, each.kind, key=key, amount_minor=amount_minor, detail=detail))
    return verdicts[0] if verdicts else None


def _differs(conn: Connection, told: Told, sale: SaleBody, *, held: Rights, used: Rights) -> Verdict:
    def shown(what: Rights) -> Mapping[str, Any]:
        return {"coupons": sorted(what.coupons), "amounts": dict(what.amounts)}

    detail = {"order": sale["order"], "held": shown(held), "used": shown(used)}
    return conflict(conn, told, "hold_mismatch", key=sale["order"], detail=detail)


def judge_late_payment(conn: Connection, told: Told, body: Any) -> Verdict:
    """Keep money that came for an order that was over for a person; nothing else changes."""
    money = sum(tender["amount_minor"] for tender in body["tenders"])
    row = orders.find(conn, body["order"])
    state = None if row is None else row.state
    if row is not None:
        attempt = told.attempt(body)
        orders.remember_refused(conn, attempt, row.state, event=OrderEvent.PAY_SUCCESS, why="late payment")
    return conflict(
        conn,
        told,
        "late_payment",
        key=f"{body['order']}/{told.entry_id}",
        amount_minor=money,
        detail={"order": body["order"], "attempt": body["attempt"], "state": state, "tenders": body["tenders"]},
    )


def _late(conn: Connection, told: Told, sale: SaleBody, *, row: Row[Any]) -> Verdict:
    refusal = load("order").step(row.state, OrderEvent.PAY_SUCCESS)
    why = "" if isinstance(refusal, Refusal) else f"attempt {row.attempt} of till {row.till_id} is live"
    return _keep_out(conn, told, sale, row=row, code="late_payment", why=why)


def _keep_out(conn: Connection, told: Told, sale: SaleBody, *, row: Row[Any], code: str, why: str) -> Verdict:
    """Keep money that is not this order's (any more) for a person; nothing else changes.

    The till has noted the coupons of its sale as used, so it is told again what they are.
    """
    named = {coupon_id for _, coupon_id, _ in discounts(sale["quote"]) if coupon_id is not None}
    feed.touch(conn, rights.known_coupon_records(conn, named))
    orders.remember_refused(conn, told.attempt(sale), row.state, event=OrderEvent.PAY_SUCCESS, why=why)
    return conflict(
        conn,
        told,
        code,
        key=f"{sale['order']}/{told.entry_id}",
        amount_minor=paid_minor(sale["tenders"]),
        detail=_money(sale, row),
    )


def _money(sale: SaleBody, row: Row[Any]) -> dict[str, Any]:
    """Return the evidence of a sale that is not in the books; the comparison of business days adds it back."""
    return {
        "order": sale["order"],
        "attempt": sale["attempt"],
        "state": row.state,
        "at": sale["at"].isoformat(),
        "tenders": sale["tenders"],
        "discount_minor": sale["quote"]["discount_minor"],
        "here": evidence.of_order(row),
    }


def _unknown_skus(conn: Connection, told: Told, sale: SaleBody) -> Verdict | None:
    """Open a finding for each product that the chain does not have; the verdict names the first."""
    skus = sorted({line["sku"] for line in sale["lines"]})
    known = _SKUS.among(conn, skus)
    verdicts = [
        conflict(conn, told, "unknown_sku", key=sku, detail={"order": sale["order"], "sku": sku})
        for sku in skus
        if sku not in known
    ]
    return verdicts[0] if verdicts else None
