"""Group a member's coupons for the search of the best combination, and bound what each can take off.

A run is a row of coupons that nothing but their ids and ends tells apart: next to each other in the order of
evaluation, with one campaign, one rule and one budget. Which of them are used makes no difference to the amount, so
only how many are is searched; those that expire first (then by id) go first, as the tie rule of RULES wants.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from app.domain.benefits import Every, Tiered, UnitBenefit, amount
from app.domain.facts import CouponFacts
from app.domain.pricing import Board
from app.domain.refusals import Refusal
from app.domain.rules import Rule, Scope

NEVER = datetime.max.replace(tzinfo=UTC)
"""The end of a coupon without end: it expires after all others."""
TRIED_TIERED = 3
"""Tiered coupons of one campaign whose tiers are tried against each other; more count at their most each."""


def end_of(coupon: CouponFacts) -> datetime:
    """Return when the coupon expires; NEVER where it has no end."""
    return coupon.valid_until_at or NEVER


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Hold identical coupons, the first to expire first.

    `place` counts the runs in the order of evaluation. `eligible` are line indices, `gross_minor` their gross.
    `by_unit` tells a benefit that looks at single units. `budget_minor` None = no budget.
    """

    place: int
    coupons: tuple[CouponFacts, ...]
    rule: Rule
    campaign_id: str
    budget_minor: int | None
    eligible: tuple[int, ...]
    gross_minor: int
    by_unit: bool

    def off(self, net_minor: int) -> int:
        """Return what one takes off an eligible net, 0 where it is refused; not for unit benefits."""
        rule = self.rule
        base_minor = self.gross_minor if rule.gross_threshold else net_minor
        if base_minor < rule.min_spend_minor:
            return 0
        assert not isinstance(rule.benefit, UnitBenefit), "single units are not in the sum"
        off_minor = amount(rule.benefit, net_minor=net_minor, base_minor=base_minor)
        return 0 if isinstance(off_minor, Refusal) else off_minor

    def most(self, net_minor: int) -> int:
        """Return the most that one takes off an eligible net of `net_minor` or less.

        Every benefit takes off more where there is more, but for tiers of which a higher gives less.
        """
        benefit = self.rule.benefit
        if not isinstance(benefit, Tiered):
            return self.off(net_minor)
        base_minor = self.gross_minor if self.rule.gross_threshold else net_minor
        if base_minor < self.rule.min_spend_minor:
            return 0
        return min(net_minor, max((t.off_minor for t in benefit.tiers if t.min_minor <= base_minor), default=0))

    def most_of(self, count: int, net_minor: int, *, each_minor: int) -> int:
        """Return the most that `count` together take off such a net, no one of them more than `each_minor`.

        They are laid one right behind the other, so each sees what those before it left; unit benefits count in full.
        """
        if count <= 1 or self.by_unit:
            return count * each_minor
        if isinstance(self.rule.benefit, Tiered) and not self.rule.gross_threshold:
            tried = min(count, TRIED_TIERED)
            together_minor = self._most_of_tiers(self.rule.benefit, tried, net_minor) + (count - tried) * each_minor
        else:
            together_minor = self._all_of(count, net_minor)
        return min(count * each_minor, together_minor)

    def _all_of(self, count: int, net_minor: int) -> int:
        """Return what `count` take off the whole net: here a smaller net never gives more in all.

        That holds for amounts and percentages, since what one leaves grows with what it saw, and for all that looks at
        the gross. It holds for `every` with its `min_spend` left aside: a net that gives one `off` more to the first
        coupon takes at most one `off` from the rest.
        """
        benefit = self.rule.benefit
        left_minor = net_minor
        for _ in range(count):
            if isinstance(benefit, Every) and not self.rule.gross_threshold:
                found = amount(benefit, net_minor=left_minor, base_minor=left_minor)
                left_minor -= 0 if isinstance(found, Refusal) else found
            else:
                left_minor -= self.off(left_minor)
        return net_minor - left_minor

    def _most_of_tiers(self, tiered: Tiered, count: int, net_minor: int) -> int:
        """Try each tier for the first of `count`, at the highest net that gives it; the others see what it leaves."""
        most_minor = 0
        for tier, above in zip(tiered.tiers, (*tiered.tiers[1:], None), strict=True):
            seen_minor = net_minor if above is None else min(net_minor, above.min_minor - 1)
            if seen_minor >= max(tier.min_minor, self.rule.min_spend_minor):
                off_minor = min(tier.off_minor, seen_minor)
                rest_minor = self._most_of_tiers(tiered, count - 1, seen_minor - off_minor) if count > 1 else 0
                most_minor = max(most_minor, off_minor + rest_minor)
        return most_minor


def runs_of(coupons: Sequence[CouponFacts], board: Board) -> list[Run]:
    """Cut coupons, which stand in the order of evaluation, into runs.

    Those without an eligible line or with too few units are left out: no discount changes the number of units.
    """
    by_scope: dict[Scope, tuple[int, ...]] = {}
    rows: list[list[CouponFacts]] = []
    for coupon in coupons:
        if coupon.rule.scope not in by_scope:
            by_scope[coupon.rule.scope] = board.eligible(coupon.rule)
        eligible = by_scope[coupon.rule.scope]
        if not eligible or sum(board.units[i] for i in eligible) < coupon.rule.min_qty:
            continue
        if rows and _alike(rows[-1][0], coupon):
            rows[-1].append(coupon)
        else:
            rows.append([coupon])
    return [
        Run(
            place=place,
            coupons=tuple(sorted(row, key=lambda coupon: (end_of(coupon), coupon.id))),
            rule=row[0].rule,
            campaign_id=row[0].campaign_id,
            budget_minor=row[0].budget_left_minor,
            eligible=by_scope[row[0].rule.scope],
            gross_minor=sum(board.grosses[i] for i in by_scope[row[0].rule.scope]),
            by_unit=isinstance(row[0].rule.benefit, UnitBenefit),
        )
        for place, row in enumerate(rows)
    ]


def _alike(one: CouponFacts, other: CouponFacts) -> bool:
    return (
        one.campaign_id == other.campaign_id
        and one.budget_left_minor == other.budget_left_minor
        and one.rule == other.rule
    )


def components(runs: Sequence[Run]) -> list[list[Run]]:
    """Part the runs so that no two parts share a line, a group, a campaign or a say over the promotions.

    What one part chooses then changes neither what another may choose nor what that takes off.
    """
    parts: list[tuple[set[object], list[Run]]] = []
    for run in runs:
        keys, members = set(_shared(run)), [run]
        apart = []
        for part in parts:
            if part[0].isdisjoint(keys):
                apart.append(part)
            else:
                keys |= part[0]
                members = [*part[1], *members]
        parts = [*apart, (keys, members)]
    return [sorted(members, key=lambda run: run.place) for _, members in parts]


def _shared(run: Run) -> Iterable[object]:
    yield from run.eligible
    yield ("group", run.rule.group)
    yield ("campaign", run.campaign_id)
    if run.rule.no_promotions:
        yield "no_promotions"
