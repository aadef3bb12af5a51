"""Decide what a return gives back: money to the fen, tenders, punch-card uses, coupons (RULES, "Refunds")."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from app.domain.basket import MILLI, Cover, Line
from app.domain.money import round_half_up, round_to_step
from app.domain.pricing import Board
from app.domain.quote import Quote, QuoteLine
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rules import RefundPolicy
from app.domain.tenders import Tender, TenderType


@dataclass(frozen=True, slots=True)
class RefundLine:
    """Ask for (or tell of) a return of `qty_milli` thousandths of line `number`."""

    number: int
    qty_milli: int


@dataclass(frozen=True, slots=True)
class SoldOrder:
    """Describe a paid order and what came back of it so far.

    `lines` are the basket's lines, in the same order as `quote.lines`. `tenders` add up to the payable amount, rounding
    included. `refunded_milli` maps line numbers to thousandths already returned; `refunded_minor` and
    `refunded_tenders` (by the tender's name, `rounding` too) what was paid back.
    """

    order_id: str
    state: str
    lines: tuple[Line, ...]
    quote: Quote
    tenders: tuple[Tender, ...]
    refunded_milli: Mapping[int, int] = field(default_factory=dict)
    refunded_minor: int = 0
    refunded_tenders: Mapping[str, int] = field(default_factory=dict)

    def after(self, refunds: Sequence["Refund"]) -> "SoldOrder":
        """Return the order with all that has come back of it: these refunds, in any order."""
        milli, minor, tenders = refunded_so_far(refunds)
        return replace(self, refunded_milli=milli, refunded_minor=minor, refunded_tenders=tenders)


@dataclass(frozen=True, slots=True)
class Refund:
    """Tell what comes back.

    `tenders` add up to `amount_minor`, with a `ROUNDING` line where cash was rounded. `uses` counts the uses that go
    back to each card. `returned` are the coupons that leave USED; `budget_minor` what each campaign's budget regains,
    coupons and automatic promotions alike. `whole` tells whether nothing of the order is left with the customer.
    """

    lines: tuple[RefundLine, ...]
    amount_minor: int
    tenders: tuple[Tender, ...]
    uses: Mapping[str, int]
    returned: tuple[str, ...]
    budget_minor: Mapping[str, int]
    whole: bool


REFUNDABLE = frozenset({"PAID", "PARTLY_REFUNDED", "REFUNDED"})


def decide_refund(
    order: SoldOrder, asked: Sequence[RefundLine] | None, *, cash_step_minor: int = 0
) -> Refund | Refusal:
    """Decide a return of the lines asked for (None = all that is left).

    Refuses an order that was never paid (`illegal_transition`), more than is left or a line that is not there
    (`not_refundable`), and quantities that are not above 0 (`invalid_quantity`).
    """
    if order.state not in REFUNDABLE:
        return refuse(RefusalCode.ILLEGAL_TRANSITION, order=order.order_id, state=order.state, event="refund")
    returning = _returning(order, asked)
    if isinstance(returning, Refusal):
        return returning
    before = dict(order.refunded_milli)
    after = {line.number: before.get(line.number, 0) + returning.get(line.number, 0) for line in order.quote.lines}
    amount_minor = _amount(order, before, after)
    done = {line.number for line in order.quote.lines if after[line.number] == line.qty_milli}
    budget, returned = _given_back(order, before, done)
    return Refund(
        lines=tuple(RefundLine(number, milli) for number, milli in sorted(returning.items())),
        amount_minor=amount_minor,
        tenders=_pay_back(order, amount_minor, cash_step_minor),
        uses=dict(Counter(cover.card_id for cover, _ in covers_back(order, returning))),
        returned=returned,
        budget_minor=budget,
        whole=len(done) == len(order.quote.lines),
    )


def _returning(order: SoldOrder, asked: Sequence[RefundLine] | None) -> dict[int, int] | Refusal:
    left = {line.number: line.qty_milli - order.refunded_milli.get(line.number, 0) for line in order.quote.lines}
    if asked is None:
        everything = {number: milli for number, milli in left.items() if milli}
        return everything or refuse(RefusalCode.NOT_REFUNDABLE, order=order.order_id)
    by_weight = {line.number for line in order.lines if line.by_weight}
    returning: Counter[int] = Counter()
    for line in asked:
        whole = line.number in by_weight or line.qty_milli % MILLI == 0
        if line.qty_milli <= 0 or not whole:
            return refuse(RefusalCode.INVALID_QUANTITY, line=line.number, qty_milli=line.qty_milli)
        returning[line.number] += line.qty_milli
    for number, milli in returning.items():
        if milli > left.get(number, 0):
            return refuse(RefusalCode.NOT_REFUNDABLE, order=order.order_id, line=number, left_milli=left.get(number, 0))
    return dict(returning) or refuse(RefusalCode.INVALID_QUANTITY, lines=0)


def _paid_milli(line: QuoteLine) -> int:
    return line.qty_milli - line.covered_units * MILLI


def _worth(line: QuoteLine, returned_milli: int) -> int:
    """Return what the first `returned_milli` of a line are worth: paid units come back before covered ones."""
    paid_milli = _paid_milli(line)
    if paid_milli == 0:
        return 0
    return round_half_up(Fraction(line.net_minor * min(returned_milli, paid_milli), paid_milli))


def _amount(order: SoldOrder, before: Mapping[int, int], after: Mapping[int, int]) -> int:
    if any(stage.coupon_id and stage.rule.refund_policy is RefundPolicy.RECOMPUTE for stage in order.quote.laid):
        return max(0, order.quote.payable_minor - order.refunded_minor - reprice(order, after))
    return sum(
        _worth(line, after[line.number]) - _worth(line, before.get(line.number, 0)) for line in order.quote.lines
    )


def reprice(order: SoldOrder, returned_milli: Mapping[int, int]) -> int:
    """Return what the lines that stay cost under the rules that priced the order, laid in the same order.

    A rule that takes nothing off any more (its threshold is missed) is left out; it is not replaced by another.
    """
    covered = {line.number: line.covered_units for line in order.quote.lines}
    staying: list[Line] = []
    covers: list[Cover] = []
    for line in order.lines:
        left_milli = line.qty_milli - returned_milli.get(line.number, 0)
        if left_milli:
            staying.append(replace(line, qty_milli=left_milli))
            # Paid units went first, so what stays of a covered line is covered as far as it can be.
            units = min(covered[line.number], left_milli // MILLI)
            covers.extend(Cover("", line.number) for _ in range(units))
    board = Board.of(tuple(staying), covers)
    for stage in order.quote.laid:
        eligible = board.eligible(stage.rule)
        shares = board.shares(stage.rule, eligible)
        if not isinstance(shares, Refusal):
            board.take(eligible, shares)
    return sum(board.nets)


def covers_back(order: SoldOrder, returning: Mapping[int, int]) -> list[tuple[Cover, int]]:
    """Return the covers that come back with these thousandths of each line; of a line's covers, the last laid first.

    With each comes its number: the how-manieth of its card on its line it is (from 1).
    """
    back: list[tuple[Cover, int]] = []
    for line in order.quote.lines:
        covers = [cover for cover in order.quote.covers if cover.line == line.number]
        numbered = [(cover, covers[: i + 1].count(cover)) for i, cover in enumerate(covers)][::-1]
        before = order.refunded_milli.get(line.number, 0) - _paid_milli(line)
        after = before + returning.get(line.number, 0)
        back += numbered[max(0, before) // MILLI : max(0, after) // MILLI]
    return back


def _given_back(order: SoldOrder, before: Mapping[int, int], done: set[int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the budget regained and the coupons returned: stages whose every discounted line is back, now at last."""
    budget: Counter[str] = Counter()
    returned: list[str] = []
    was_done = {line.number for line in order.quote.lines if before.get(line.number, 0) == line.qty_milli}
    for stage in order.quote.laid:
        touched = {line.number for line, share in zip(order.quote.lines, stage.shares_minor, strict=True) if share}
        if touched <= done and not touched <= was_done:
            budget[stage.campaign_id] += stage.discount_minor
            if stage.coupon_id is not None:
                returned.append(stage.coupon_id)
    return dict(budget), tuple(returned)


_BACK_ORDER = {TenderType.STORED_VALUE: 0, TenderType.CARD: 1, TenderType.WALLET: 1}


def _pay_back(order: SoldOrder, amount_minor: int, cash_step_minor: int) -> tuple[Tender, ...]:
    """Share the amount out: stored value first, then cards and wallets as they were given, cash last.

    Cash goes back rounded the way it came: what has come back so far is always the rounded sum, so several partial
    refunds end exactly at the cash that was paid.
    """
    paid: dict[TenderType, int] = {}
    for tender in order.tenders:
        paid[tender.type] = paid.get(tender.type, 0) + tender.amount_minor
    left = amount_minor
    back: list[Tender] = []
    others = [kind for kind in paid if kind not in (TenderType.CASH, TenderType.ROUNDING)]
    for kind in sorted(others, key=lambda kind: _BACK_ORDER[kind]):
        part = min(left, paid[kind] - order.refunded_tenders.get(kind.value, 0))
        if part:
            back.append(Tender(kind, part))
            left -= part
    if left:
        gone_cash = order.refunded_tenders.get("cash", 0)
        gone_exact = gone_cash + order.refunded_tenders.get("rounding", 0)
        rounded = round_to_step(gone_exact + left, cash_step_minor) if cash_step_minor else gone_exact + left
        # Not below nothing: other coins since then may have given more back than is due by now.
        cash = max(0, min(rounded, paid.get(TenderType.CASH, 0)) - gone_cash)
        if cash:
            back.append(Tender(TenderType.CASH, cash))
        if left != cash:
            back.append(Tender(TenderType.ROUNDING, left - cash))
    return tuple(back)


def refunded_so_far(
    refunds: Sequence[Refund],
) -> tuple[dict[int, int], int, dict[str, int]]:
    """Add up earlier refunds as `SoldOrder` wants them: thousandths by line, amount, tenders."""
    milli: Counter[int] = Counter()
    tenders: Counter[str] = Counter()
    for refund in refunds:
        milli.update({line.number: line.qty_milli for line in refund.lines})
        tenders.update({tender.type.value: tender.amount_minor for tender in refund.tenders})
    return dict(milli), sum(refund.amount_minor for refund in refunds), dict(tenders)
