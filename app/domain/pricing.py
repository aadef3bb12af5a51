"""Price an order: punch cards, promotions, coupons, each a stage that is stored (RULES, "Order of evaluation").

`price` is the one function that till and server both run. It decides in rounds. A round lays the stages in the order
of evaluation; a coupon that turns out to take nothing off leaves, since a refused coupon takes no place in its group
and brings no `no_promotions` with it, and the next round prices the rest anew. What the next round lets in only makes
the basket cheaper, so a threshold missed stays missed; but a discount too large for its budget may then fit. So those
over budget leave only when nobody else does, the one scanned last first. Each round but the last removes at least one
coupon, so there are at most as many rounds as coupons.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from app.domain.basket import MILLI, Cover, Line, line_gross
from app.domain.benefits import Shares, lay, stage
from app.domain.conditions import coupon_reason, own_reason, promotion_reason
from app.domain.facts import CardFacts, CouponFacts, OrderFacts, PromotionFacts
from app.domain.punching import cover_units
from app.domain.quote import Laid, Quote, QuoteLine
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.risk import room_reason
from app.domain.rules import Rule
from app.domain.stacking import keep_first_scanned


def effective_member_id(
    member_id: str | None,
    coupons: Sequence[CouponFacts],
    cards: Sequence[CardFacts],
    *,
    now: datetime,
    order_id: str,
) -> str | None:
    """Return the member on the order: the one named, else the one whom the first good coupon or card brings.

    A coupon that is refused for itself (used, expired, paused) brings nobody, nor does a bearer coupon.
    """
    if member_id is not None:
        return member_id
    for coupon in coupons:
        if coupon.member_id is not None and own_reason(coupon, now, order_id=order_id) is None:
            return coupon.member_id
    return cards[0].member_id if cards else None


@dataclass(slots=True)
class Board:
    """Hold the lines while stages are laid on them: `nets` shrink, `grosses` and `units` stay.

    Covered units have left: `units` counts whole units still priced, 0 for a line by weight; a line that is covered
    whole has gross 0 and no units.
    """

    lines: tuple[Line, ...]
    grosses: tuple[int, ...]
    units: tuple[int, ...]
    nets: list[int]

    @classmethod
    def of(cls, lines: tuple[Line, ...], covers: Sequence[Cover]) -> "Board":
        """Set the lines up at their gross price, without the units that punch cards cover."""
        covered = Counter(cover.line for cover in covers)
        left = [line.qty_milli - covered[line.number] * MILLI for line in lines]
        grosses = tuple(line_gross(line.price_minor, milli) for line, milli in zip(lines, left, strict=True))
        units = tuple(0 if line.by_weight else milli // MILLI for line, milli in zip(lines, left, strict=True))
        return cls(lines, grosses, units, list(grosses))

    def blank(self) -> "Board":
        """Return a board of the same lines on which nothing is laid yet."""
        return replace(self, nets=list(self.grosses))

    def eligible(self, rule: Rule) -> tuple[int, ...]:
        """Return the indices of the lines in scope that are not covered whole.

        Goods by weight are among them: they count for amounts, and a unit benefit passes them by.
        """
        return tuple(
            i for i, line in enumerate(self.lines) if (self.units[i] or line.by_weight) and rule.scope.holds(line)
        )

    def shares(self, rule: Rule, eligible: tuple[int, ...]) -> Shares | Refusal:
        """Return what the rule takes off each eligible line now, or `below_minimum`, `nothing_eligible`."""
        if not eligible:
            return refuse(RefusalCode.NOTHING_ELIGIBLE)
        base_minor = sum((self.grosses if rule.gross_threshold else self.nets)[i] for i in eligible)
        if base_minor < rule.min_spend_minor:
            return refuse(RefusalCode.BELOW_MINIMUM, missing_minor=rule.min_spend_minor - base_minor)
        nets, units = [self.nets[i] for i in eligible], [self.units[i] for i in eligible]
        if sum(units) < rule.min_qty:
            return refuse(RefusalCode.BELOW_MINIMUM, missing_units=rule.min_qty - sum(units))
        return lay(rule.benefit, nets, units, base_minor=base_minor)

    def take(self, eligible: tuple[int, ...], shares: Shares) -> Shares:
        """Take the shares off the lines; return them spread over all lines of the basket."""
        spread = [0] * len(self.lines)
        for i, share in zip(eligible, shares, strict=True):
            assert 0 <= share <= self.nets[i], "a net never falls below 0"
            self.nets[i] -= share
            spread[i] = share
        return tuple(spread)


def evaluation_key(coupon: CouponFacts) -> tuple[int, int, str, str]:
    """Sort coupons into the order of evaluation: stage, priority, campaign, coupon; never the order of scanning."""
    return (stage(coupon.rule.benefit), coupon.rule.priority, coupon.campaign_id, coupon.id)


@dataclass(slots=True)
class _Round:
    """Collect what one round laid and refused."""

    board: Board
    laid: list[Laid] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)
    skipped: dict[str, Refusal] = field(default_factory=dict)
    spent: Counter[str] = field(default_factory=Counter)
    risked_minor: int = 0

    def lay(
        self, source: CouponFacts | PromotionFacts, *, coupon_id: str | None, eligible: tuple[int, ...]
    ) -> Refusal | None:
        """Lay one stage; return the reason when it takes nothing off or would pass its campaign's budget."""
        shares = self.board.shares(source.rule, eligible)
        if isinstance(shares, Refusal):
            return shares
        campaign_id, off_minor = source.campaign_id, sum(shares)
        left_minor = source.budget_left_minor
        if left_minor is not None and self.spent[campaign_id] + off_minor > left_minor:
            return refuse(RefusalCode.BUDGET_SPENT, campaign=campaign_id)
        room = source.risk if isinstance(source, CouponFacts) else None
        if room is not None:
            reason = room_reason(room, off_minor, spent_minor=self.risked_minor)
            if reason is not None:
                return reason
            self.risked_minor += off_minor
        self.spent[campaign_id] += off_minor
        self.laid.append(Laid(campaign_id, coupon_id, source.rule, self.board.take(eligible, shares)))
        return None


def price(facts: OrderFacts) -> Quote:
    """Return the quote: what the order costs with everything in it that holds, and a reason for what does not."""
    covers, refused_cards = cover_units(facts)
    refused: dict[str, Refusal] = {**facts.unknown, **refused_cards}
    blank = Board.of(facts.lines, covers)
    candidates = list({coupon.id: coupon for coupon in facts.coupons}.values())
    eligible = {coupon.id: blank.eligible(coupon.rule) for coupon in candidates}
    for coupon in candidates:
        reason = coupon_reason(coupon, place=facts.place, now=facts.now, order_id=facts.order_id, member=facts.member)
        if reason is None and not eligible[coupon.id]:
            reason = refuse(RefusalCode.NOTHING_ELIGIBLE, coupon=coupon.id)
        if reason is not None:
            refused[coupon.id] = reason
    candidates = [coupon for coupon in candidates if coupon.id not in refused]
    while True:
        kept, clashes = keep_first_scanned(candidates)
        done = _price_round(facts, blank.blank(), candidates=candidates, clashes=clashes, eligible=eligible)
        leaving = {c.id for c in _leaving([c for c in kept if c.id in done.refused], done.refused)}
        if not leaving:
            break
        refused.update({coupon_id: done.refused[coupon_id] for coupon_id in leaving})
        candidates = [coupon for coupon in candidates if coupon.id not in leaving]
    return _quote(facts, covers, done=done, refused=refused | done.refused)


def _leaving(failed: Sequence[CouponFacts], reasons: Mapping[str, Refusal]) -> Sequence[CouponFacts]:
    """Choose which of the coupons that failed leave for good.

    One that kept the promotions away goes first and alone: what else failed was judged without them. Those over budget
    go last and one by one, since the budget looks different once another is gone.
    """
    for_good = [coupon for coupon in failed if reasons[coupon.id].code is not RefusalCode.BUDGET_SPENT]
    silencers = [coupon for coupon in for_good if coupon.rule.no_promotions]
    return silencers or for_good or failed[-1:]


def _price_round(
    facts: OrderFacts,
    board: Board,
    *,
    candidates: Sequence[CouponFacts],
    clashes: Mapping[str, str],
    eligible: Mapping[str, tuple[int, ...]],
) -> _Round:
    now = _Round(board)
    silencer = next((c.id for c in candidates if c.rule.no_promotions and c.id not in clashes), None)
    for promotion in sorted(facts.promotions, key=lambda p: (p.rule.priority, p.campaign_id)):
        reason = promotion_reason(promotion, facts.place, facts.now, member=facts.member)
        if reason is None and silencer is not None:
            reason = refuse(RefusalCode.NOT_STACKABLE, campaign=promotion.campaign_id, **{"with": silencer})
        if reason is None:
            reason = now.lay(promotion, coupon_id=None, eligible=now.board.eligible(promotion.rule))
        if reason is not None:
            now.skipped[promotion.campaign_id] = reason
    for coupon in sorted(candidates, key=evaluation_key):
        other = clashes.get(coupon.id)
        if other is None:
            reason = now.lay(coupon, coupon_id=coupon.id, eligible=eligible[coupon.id])
        else:
            # A threshold that is not reached either is the earlier reason of the two.
            shares = now.board.shares(coupon.rule, eligible[coupon.id])
            reason = shares if isinstance(shares, Refusal) else refuse(RefusalCode.NOT_STACKABLE, **{"with": other})
        if reason is not None:
            now.refused[coupon.id] = Refusal(reason.code, {"coupon": coupon.id, **reason.facts})
    return now


def _quote(facts: OrderFacts, covers: tuple[Cover, ...], *, done: _Round, refused: Mapping[str, Refusal]) -> Quote:
    covered = Counter(cover.line for cover in covers)
    board = done.board
    lines = tuple(
        QuoteLine(
            number=line.number,
            sku=line.sku,
            price_minor=line.price_minor,
            qty_milli=line.qty_milli,
            covered_units=covered[line.number],
            gross_minor=board.grosses[i],
            discount_minor=board.grosses[i] - board.nets[i],
        )
        for i, line in enumerate(board.lines)
    )
    member_id = facts.member.id if facts.member else None
    return Quote(lines, tuple(done.laid), covers, dict(refused), done.skipped, member_id)
