"""Draw orders for the laws of value: few lines, small prices, so that roundings, ties and thresholds happen often."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

from hypothesis import strategies as st

from app.domain.basket import MILLI, Cover, Line
from app.domain.benefits import AmountOff, Benefit, BuyXGetY, Every, FixedPrice, PercentOff, Tier, Tiered
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.rules import Hours, Kind, RefundPolicy, Rule, Scope, Selection

NOW = datetime(2026, 6, 1, 2, tzinfo=UTC)
CATEGORIES = ("", "food", "toy")
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=9)

amounts = st.integers(1, 400)
percents = st.one_of(
    st.sampled_from([Fraction(10), Fraction(50), Fraction(100), Fraction("12.5"), Fraction("33.33")]),
    st.integers(1, 10_000).map(lambda hundredths: Fraction(hundredths, 100)),
)


@st.composite
def tiers(draw: st.DrawFn) -> Tiered:
    """Draw one to three tiers; a higher one may give less."""
    mins = sorted(draw(st.sets(st.integers(0, 900), min_size=1, max_size=3)))
    return Tiered(tuple(Tier(minimum, draw(amounts)) for minimum in mins))


benefits: st.SearchStrategy[Benefit] = st.one_of(
    st.builds(AmountOff, amounts),
    st.builds(PercentOff, percents, st.none() | amounts),
    tiers(),
    st.builds(Every, st.integers(1, 300), st.integers(1, 120), st.none() | st.integers(1, 3)),
    st.builds(FixedPrice, st.integers(0, 150), st.integers(1, 3)),
    st.builds(BuyXGetY, st.integers(1, 3), st.integers(1, 2), percents, st.none() | st.integers(1, 2)),
)

selections = st.builds(
    Selection,
    skus=st.frozensets(st.sampled_from(["sku1", "sku2"]), max_size=1),
    categories=st.frozensets(st.sampled_from(CATEGORIES[1:]), max_size=2),
)
scopes = st.one_of(st.just(Scope()), st.builds(Scope, selections), st.builds(Scope, selections, selections))


@st.composite
def baskets(draw: st.DrawFn, *, max_size: int = 4) -> tuple[Line, ...]:
    """Draw lines of whole units and weights."""

    def one(number: int) -> Line:
        by_weight = draw(st.booleans()) and draw(st.booleans())
        return Line(
            number=number,
            sku=f"sku{draw(st.integers(1, 3))}",
            price_minor=draw(st.integers(0, 400)),
            qty_milli=draw(st.integers(1, 3000)) if by_weight else draw(st.integers(1, 4)) * MILLI,
            category=draw(st.sampled_from(CATEGORIES)),
            by_weight=by_weight,
        )

    return tuple(one(number) for number in range(1, draw(st.integers(1, max_size)) + 1))


def rules(*, kind: Kind = Kind.COUPON, policy: RefundPolicy | None = None) -> st.SearchStrategy[Rule]:
    """Draw rules whose conditions of time, place and person hold: the amounts are what is tried."""
    rare = st.integers(0, 7).map(lambda drawn: drawn == 0)
    coupon = kind is Kind.COUPON
    return st.builds(
        Rule,
        benefit=benefits,
        kind=st.just(kind),
        scope=scopes,
        min_spend_minor=st.one_of(st.just(0), st.integers(1, 900)),
        min_qty=st.one_of(st.just(0), st.just(0), st.integers(1, 4)),
        group=st.sampled_from(["coupon", "a", "b", "c", "d"]),
        max_per_order=st.sampled_from([1, 1, 2, 3]) if coupon else st.just(1),
        exclusive=rare if coupon else st.just(False),
        no_promotions=rare if coupon else st.just(False),
        priority=st.sampled_from([0, 0, 0, 1, -1]),
        gross_threshold=st.booleans(),
        refund_policy=st.just(policy) if policy else st.sampled_from(RefundPolicy),
    )


@st.composite
def coupons(draw: st.DrawFn, *, max_size: int, policy: RefundPolicy | None = None) -> tuple[CouponFacts, ...]:
    """Draw coupons of a few campaigns, some of them by an older snapshot of the rule."""
    campaigns = draw(st.lists(rules(policy=policy), min_size=1, max_size=max_size))
    budgets = [draw(st.none() | st.none() | st.integers(0, 500)) for _ in campaigns]
    older = draw(rules(policy=policy))

    def one(number: int) -> CouponFacts:
        which = draw(st.integers(0, len(campaigns) - 1))
        end = draw(st.none() | st.integers(1, 3))
        return CouponFacts(
            id=f"k{number}",
            campaign_id=f"c{which}",
            rule=older if draw(st.integers(0, 15)) == 0 else campaigns[which],
            valid_until_at=None if end is None else NOW + timedelta(days=end),
            budget_left_minor=budgets[which],
        )

    ids = draw(st.permutations(range(draw(st.integers(1, max_size)))))
    return tuple(one(number) for number in ids)


@st.composite
def orders(draw: st.DrawFn, *, max_coupons: int = 5, policy: RefundPolicy | None = None) -> OrderFacts:
    """Draw an order with coupons, promotions and covered units."""
    lines = draw(baskets())
    found = draw(coupons(max_size=max_coupons, policy=policy)) if max_coupons else ()
    promotions = tuple(
        PromotionFacts(f"p{number}", rule, budget_left_minor=draw(st.none() | st.integers(0, 200)))
        for number, rule in enumerate(draw(st.lists(rules(kind=Kind.AUTOMATIC), max_size=2)))
    )
    whole = [line for line in lines if not line.by_weight]
    covered = draw(st.none() | st.sampled_from(whole)) if whole else None
    return OrderFacts(
        order_id="o1",
        lines=lines,
        place=Place("s1", UTC),
        now=NOW,
        member=MemberFacts("m1"),
        coupons=found,
        promotions=promotions,
        covers=(Cover("card1", covered.number),) if covered else (),
        cards={"card1": CardFacts("card1", "m1", covered.sku, uses_left=9)} if covered else {},
    )


@st.composite
def any_rules(draw: st.DrawFn) -> Rule:
    """Draw a rule with every key that `rule_json` can carry."""
    instants = st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
    first, second, third = sorted(draw(st.lists(instants, min_size=3, max_size=3, unique=True)))
    texts = st.frozensets(NAMES, max_size=3)
    sides = st.builds(Selection, skus=texts, categories=texts, brands=texts)
    minutes = draw(st.lists(st.integers(0, 1439), min_size=2, max_size=2, unique=True))
    kind = draw(st.sampled_from(Kind))
    coupon = kind is Kind.COUPON
    counts = st.integers(1, 10**9)
    return Rule(
        benefit=draw(benefits),
        kind=kind,
        name=draw(st.just("") | NAMES),
        scope=Scope(draw(sides), draw(sides)),
        min_spend_minor=draw(st.just(0) | counts),
        min_qty=draw(st.just(0) | counts),
        stores=draw(texts),
        tiers=draw(texts),
        from_at=draw(st.none() | st.just(first)),
        until_at=draw(st.none() | st.just(third)),
        use_from_at=draw(st.none() | st.just(second)) if coupon else None,
        valid_days=draw(st.none() | st.integers(1, 36_500)) if coupon else None,
        weekdays=draw(st.frozensets(st.integers(0, 6))),
        hours=draw(st.none() | st.just(Hours(*minutes))),
        first_order=draw(st.booleans()),
        per_member=draw(counts) if coupon else 1,
        per_member_per_day=draw(st.none() | counts) if coupon else None,
        budget_minor=draw(st.none() | counts),
        group=draw(NAMES),
        max_per_order=draw(counts) if coupon else 1,
        exclusive=draw(st.booleans()) if coupon else False,
        no_promotions=draw(st.booleans()),
        priority=draw(st.integers(-(10**9), 10**9)),
        bearer=draw(st.booleans()) if coupon else False,
        gross_threshold=draw(st.booleans()),
        refund_policy=draw(st.sampled_from(RefundPolicy)),
    )
