"""Know what happened at the counters, and nothing of how the program keeps it; then compare both.

What is written down here is what people have in their hands: receipts, cash, coupons that they were promised. What the
terminals took, they know themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from app.domain.tenders import TenderType
from app.services.api import PaidOrder, RefundDone
from app.store import projections
from server.db import schema
from server.scenario.till_part import TillPart
from server.scenario.world import World
from server.services.audit import audit
from server.services.context import Context
from tests.simulation.weather import Terminal

SOLD = ("PAID", "PARTLY_REFUNDED", "REFUNDED")
BY_TERMINAL = ("card", "wallet")


@dataclass
class Books:
    """Write down what people saw. `unsure` are orders whose till died while cash for a cancelled order was on it."""

    receipts: dict[str, PaidOrder] = field(default_factory=dict)
    till_of: dict[str, str] = field(default_factory=dict)
    late_cash: Counter[str] = field(default_factory=Counter)
    unsure: set[str] = field(default_factory=set)
    refunds: dict[str, RefundDone] = field(default_factory=dict)
    promised: dict[str, dict[str, Any]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    perhaps_revoked: set[str] = field(default_factory=set)

    def receipt(self, done: PaidOrder, till_id: str) -> None:
        first = self.receipts.setdefault(done.order_id, done)
        assert first.receipt == done.receipt, f"another receipt for {done.order_id}"
        assert sum(tender.amount_minor for tender in done.tenders) == done.quote.payable_minor
        self.till_of[done.order_id] = till_id

    def refund(self, done: RefundDone) -> None:
        assert sum(tender.amount_minor for tender in done.refund.tenders) == done.refund.amount_minor
        assert self.refunds.setdefault(done.request_id, done) == done, f"another answer to {done.request_id}"


class Truth:
    """Read what the server has in its books in the end."""

    def __init__(self, conn: Connection, ctx: Context) -> None:
        def rows(table: Any) -> dict[str, Row[Any]]:
            return {row.id: row for row in conn.execute(select(table))}

        self.now = ctx.now
        self.orders, self.coupons, self.refunds = rows(schema.orders), rows(schema.coupon), rows(schema.refund)
        self.accounts = rows(schema.account)
        self.findings = list(rows(schema.finding).values())
        self.audit = [str(violation) for violation in audit(conn, ctx, everything=True).violations]
        self.late: Mapping[str, list[Row[Any]]] = defaultdict(list)
        for found in self.findings:
            if found.kind == "late_payment":
                self.late[found.detail["order"]].append(found)

    def late_tenders(self, order_id: str) -> Iterable[Mapping[str, Any]]:
        """Yield the money that came for an order that was off, without what a sale brought."""
        for found in self.late[order_id]:
            if found.detail["entry_kind"] == "late_payment":
                yield from found.detail["tenders"]


def compare(books: Books, world: World, terminals: Iterable[Terminal]) -> None:
    """Assert that every promise was kept (PROTOCOL 8, I1 and I6 to I13), once all is healed and drained."""
    truth = world.server.services.read(Truth)
    assert truth.audit == []
    booked = _sales(books, truth)
    _late_money(books, truth)
    _terminals(books, truth, terminals)
    _refunds(books, truth)
    _coupons(books, truth, booked)
    _accounts(books, truth, booked, world)
    numbers = [done.receipt.number for done in books.receipts.values()]
    assert len(numbers) == len(set(numbers)), "no two receipts have one number"
    for part in world.tills.values():
        _till(part, truth)


def _sales(books: Books, truth: Truth) -> dict[str, PaidOrder]:
    """Every receipt is a paid order of the same money, or a finding with it; and there is no other paid order."""
    assert {found.kind for found in truth.findings} <= {"late_payment", "illegal_transition", "overdraft"}
    assert all(_is_excused(books, found) for found in truth.findings if found.kind == "overdraft")
    booked = {}
    for order_id, done in books.receipts.items():
        row = truth.orders.get(order_id)
        assert row is not None, f"the sale {order_id} is lost"
        late = [found.amount_minor for found in truth.late[order_id] if found.detail["entry_kind"] == "sale"]
        if row.state in SOLD:
            kept = [{"type": tender.type.value, "amount_minor": tender.amount_minor} for tender in done.tenders]
            assert (row.tenders, row.till_id, late) == (kept, books.till_of[order_id], []), order_id
            booked[order_id] = done
        else:
            assert (row.state, late) == ("CANCELLED", [done.quote.payable_minor]), order_id
    states = {order_id: row.state for order_id, row in truth.orders.items() if order_id not in books.receipts}
    assert set(states.values()) <= {"CANCELLED"}, states
    return booked


def _is_excused(books: Books, found: Row[Any]) -> bool:
    """Only a budget is ever overdrawn, and only by a sale by rules that had none: its till could not know of it."""
    kind, _, campaign_id = found.detail["subject"].partition(":")
    laid = [stage for stage in books.receipts[found.detail["order"]].quote.laid if stage.campaign_id == campaign_id]
    return kind == "budget" and all(stage.rule.budget_minor is None for stage in laid)


def _late_money(books: Books, truth: Truth) -> None:
    for order_id in {*truth.late, *books.late_cash}:
        in_cash = sum(t["amount_minor"] for t in truth.late_tenders(order_id) if t["type"] not in BY_TERMINAL)
        known = books.late_cash[order_id]
        assert in_cash >= known if order_id in books.unsure else in_cash == known, order_id


def _terminals(books: Books, truth: Truth, terminals: Iterable[Terminal]) -> None:
    """What the terminals took stands on receipts, or in findings of money that came too late."""
    took, told = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for terminal in terminals:
        for charge in terminal.charges.values():
            took[charge.order_id, charge.kind] += charge.minor if charge.taken else 0
    for order_id in {*books.receipts, *truth.late}:
        done = books.receipts.get(order_id)
        for tender in done.tenders if done else ():
            if tender.type.value in BY_TERMINAL:
                told[order_id, tender.type.value] += tender.amount_minor
        for late in truth.late_tenders(order_id):
            if late["type"] in BY_TERMINAL:
                told[order_id, late["type"]] += late["amount_minor"]
    assert +took == +told


def _refunds(books: Books, truth: Truth) -> None:
    """Every refund was paid out once, and as it was decided; no order gave back more than it took."""
    assert truth.refunds.keys() == books.refunds.keys()
    back = Counter[str]()
    for request_id, done in books.refunds.items():
        row = truth.refunds[request_id]
        assert (row.amount_minor, row.entry_id is not None) == (done.refund.amount_minor, True), request_id
        back[done.order_id] += done.refund.amount_minor
    assert all(back[order_id] <= books.receipts[order_id].quote.payable_minor for order_id in back)


def _coupons(books: Books, truth: Truth, booked: Mapping[str, PaidOrder]) -> None:
    """Every coupon that was promised is there, used once where somebody used it, and back where it was returned."""
    live = Counter(coupon_id for done in booked.values() for coupon_id in done.quote.used)
    live.subtract(coupon_id for done in books.refunds.values() for coupon_id in done.refund.returned)
    assert truth.coupons.keys() == books.promised.keys()
    for coupon_id, row in truth.coupons.items():
        assert live[coupon_id] in (0, 1), f"{coupon_id} was used {live[coupon_id]} times"
        assert (row.state == "USED") == (live[coupon_id] == 1), f"{coupon_id} is {row.state}"
        assert row.state != "FROZEN"
        assert row.state != "EXPIRED" or row.valid_until_at <= truth.now
        assert (row.state == "REVOKED") <= (coupon_id in books.revoked | books.perhaps_revoked)
        assert (coupon_id in books.revoked) <= (row.state == "REVOKED")


def _accounts(books: Books, truth: Truth, booked: Mapping[str, PaidOrder], world: World) -> None:
    """Stock, budgets, uses and balances are what the receipts say; nothing is held, or over without need."""
    spent = Counter[str]()
    for done in booked.values():
        spent.update(f"uses:{cover.card_id}" for cover in done.quote.covers)
        for stage in done.quote.laid:
            spent[f"budget:{stage.campaign_id}"] += stage.discount_minor
        for tender in done.tenders:
            if tender.type is TenderType.STORED_VALUE:
                spent[f"value:{done.quote.member_id}"] += tender.amount_minor
    for back in books.refunds.values():
        member = books.receipts[back.order_id].quote.member_id
        for card_id, count in back.refund.uses.items():
            spent[f"uses:{card_id}"] -= count
        for campaign_id, minor in back.refund.budget_minor.items():
            spent[f"budget:{campaign_id}"] -= minor
        for tender in back.refund.tenders:
            if tender.type is TenderType.STORED_VALUE:
                spent[f"value:{member}"] -= tender.amount_minor
    spent.update(f"stock:{each['campaign']}" for each in books.promised.values())
    for account_id, row in truth.accounts.items():
        left = row.total - row.spent
        assert (row.spent, row.held) == (spent[account_id], 0), account_id
        assert (row.available, row.over) == (max(0, left), max(0, -left)), account_id
    for member_row in world.table.member:
        assert truth.accounts[f"value:{member_row.id}"].total >= member_row.stored_value


def _till(part: TillPart, truth: Truth) -> None:
    """The till's ledger is whole, its books follow from it, nothing waits, and its copy is the server's."""
    database = part.database
    with database.read() as conn:
        assert database.ledger.verify(conn) == []
        copies = dict(conn.exec_driver_sql("SELECT id, state FROM coupon").fetchall())
    with database.write() as tx:
        assert projections.rebuild(tx, database.ledger) == []
    assert part.till.interrupted() == ()
    assert copies == {coupon_id: row.state for coupon_id, row in truth.coupons.items()}
    for name, account in truth.accounts.items():
        kind, _, owner = name.partition(":")
        if kind == "value":
            member = part.till.member(owner)
            assert member is not None
            assert member.balance_minor == account.available
            assert {card.id: card.uses_left for card in member.cards} == {
                card.id: truth.accounts[f"uses:{card.id}"].available for card in member.cards
            }
    mine = sum(found.detail.get("till") == part.id for found in truth.findings)
    assert (part.engine.status.parked, part.engine.status.pending) == (mine, 0)
