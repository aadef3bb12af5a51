"""Campaign rules as data: every key read and written back, every senseless value named by its field."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest

from app.domain.benefits import AmountOff, Benefit, BuyXGetY, Every, FixedPrice, PercentOff, Tier, Tiered
from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode
from app.domain.rule_json import COUPON_ONLY, MAX_COUNT, WEEKDAYS, read_rule, write_rule
from app.domain.rules import Hours, Kind, RefundPolicy, Rule, Scope, Selection

YUAN = Currency.of("CNY")
OFF: Mapping[str, object] = {"type": "amount_off", "amount": "10.00"}

EVERY_KEY: dict[str, object] = {
    "kind": "coupon",
    "benefit": OFF,
    "name": "Spring",
    "scope": {"include": {"skus": ["a", "b"], "categories": ["toy"], "brands": ["x"]}, "exclude": {"skus": ["c"]}},
    "min_spend": "99.00",
    "min_qty": 2,
    "stores": ["s1", "s2"],
    "tiers": ["gold"],
    "from": "2026-06-01T00:00:00+00:00",
    "until": "2026-07-01T00:00:00+00:00",
    "use_from": "2026-06-02T00:00:00+00:00",
    "valid_days": 7,
    "weekdays": ["mon", "sun"],
    "hours": {"from": "14:00", "until": "16:30"},
    "first_order": True,
    "per_member": 2,
    "per_member_per_day": 1,
    "budget": "5000.00",
    "group": "gift",
    "max_per_order": 3,
    "exclusive": True,
    "no_promotions": True,
    "priority": -5,
    "bearer": True,
    "threshold_base": "gross",
    "refund_policy": "recompute",
}


def read(data: Mapping[str, object] | None = None, **more: object) -> Rule:
    found = read_rule({"benefit": OFF, **(data or {}), **more}, YUAN)
    assert isinstance(found, Rule), found
    return found


def wrong(data: Mapping[str, object] | None = None, **more: object) -> str:
    """Return the field that the refusal names."""
    found = read_rule({"benefit": OFF, **(data or {}), **more}, YUAN)
    assert isinstance(found, Refusal), found
    assert found.code is RefusalCode.INVALID_CAMPAIGN
    assert set(found.facts) == {"field", "reason"}
    return str(found.facts["field"])


def benefit(**data: object) -> Benefit:
    return read(benefit=data).benefit


def wrong_benefit(**data: object) -> str:
    return wrong(benefit=data)


def test_a_benefit_is_all_that_a_rule_needs() -> None:
    assert read() == Rule(AmountOff(1000))
    assert write_rule(Rule(AmountOff(1000)), YUAN) == {"kind": "coupon", "benefit": OFF}


def test_every_key_is_read() -> None:
    assert read(EVERY_KEY) == Rule(
        benefit=AmountOff(1000),
        kind=Kind.COUPON,
        name="Spring",
        scope=Scope(
            Selection(frozenset({"a", "b"}), frozenset({"toy"}), frozenset({"x"})), Selection(skus=frozenset({"c"}))
        ),
        min_spend_minor=9900,
        min_qty=2,
        stores=frozenset({"s1", "s2"}),
        tiers=frozenset({"gold"}),
        from_at=datetime(2026, 6, 1, tzinfo=UTC),
        until_at=datetime(2026, 7, 1, tzinfo=UTC),
        use_from_at=datetime(2026, 6, 2, tzinfo=UTC),
        valid_days=7,
        weekdays=frozenset({0, 6}),
        hours=Hours(840, 990),
        first_order=True,
        per_member=2,
        per_member_per_day=1,
        budget_minor=500_000,
        group="gift",
        max_per_order=3,
        exclusive=True,
        no_promotions=True,
        priority=-5,
        bearer=True,
        gross_threshold=True,
        refund_policy=RefundPolicy.RECOMPUTE,
    )


def test_every_key_is_written_back() -> None:
    assert write_rule(read(EVERY_KEY), YUAN) == EVERY_KEY


def test_an_automatic_promotion_is_read_and_written_back() -> None:
    data = {"benefit": OFF, "kind": "automatic", "priority": 1}

    assert read(data) == Rule(AmountOff(1000), kind=Kind.AUTOMATIC, priority=1)
    assert write_rule(read(data), YUAN) == data


# ---- benefits


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"type": "amount_off", "amount": "0.01"}, AmountOff(1)),
        ({"type": "percent_off", "percent": 15}, PercentOff(Fraction(15))),
        ({"type": "percent_off", "percent": "12.5"}, PercentOff(Fraction("12.5"))),
        ({"type": "percent_off", "percent": 8.5, "max_discount": "9.00"}, PercentOff(Fraction("8.5"), 900)),
        (
            {"type": "tiered", "tiers": [{"min": "200.00", "off": "30.00"}, {"min": "0.00", "off": "1.00"}]},
            Tiered((Tier(0, 100), Tier(20_000, 3000))),
        ),
        ({"type": "every", "min": "50.00", "off": "5.00"}, Every(5000, 500)),
        ({"type": "every", "min": "50.00", "off": "5.00", "max_times": 3}, Every(5000, 500, 3)),
        ({"type": "fixed_price", "price": "0.00"}, FixedPrice(0, 1)),
        ({"type": "fixed_price", "price": "9.90", "qty": 2}, FixedPrice(990, 2)),
        ({"type": "buy_x_get_y", "buy": 10, "get": 3}, BuyXGetY(10, 3, Fraction(100))),
        (
            {"type": "buy_x_get_y", "buy": 1, "get": 1, "percent": "50", "max_times": 2},
            BuyXGetY(1, 1, Fraction(50), 2),
        ),
    ],
)
def test_a_benefit_is_read_and_written_so_that_it_reads_back_the_same(
    data: dict[str, object], expected: Benefit
) -> None:
    assert benefit(**data) == expected
    assert read(write_rule(Rule(expected), YUAN)) == Rule(expected)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (AmountOff(1050), {"type": "amount_off", "amount": "10.50"}),
        (PercentOff(Fraction("12.5"), 900), {"type": "percent_off", "percent": "12.50", "max_discount": "9.00"}),
        (PercentOff(Fraction("0.05")), {"type": "percent_off", "percent": "0.05"}),
        (PercentOff(Fraction(100)), {"type": "percent_off", "percent": "100"}),
        (
            Tiered((Tier(0, 100), Tier(500, 200))),
            {"type": "tiered", "tiers": [{"min": "0.00", "off": "1.00"}, {"min": "5.00", "off": "2.00"}]},
        ),
        (Every(5000, 500, 3), {"type": "every", "min": "50.00", "off": "5.00", "max_times": 3}),
        (Every(5000, 500), {"type": "every", "min": "50.00", "off": "5.00"}),
        (FixedPrice(0, 1), {"type": "fixed_price", "price": "0.00", "qty": 1}),
        (BuyXGetY(10, 3), {"type": "buy_x_get_y", "buy": 10, "get": 3, "percent": "100"}),
        (BuyXGetY(1, 1, Fraction(50), 2), {"type": "buy_x_get_y", "buy": 1, "get": 1, "percent": "50", "max_times": 2}),
    ],
)
def test_a_benefit_is_written_under_its_own_keys(value: Benefit, written: dict[str, object]) -> None:
    assert write_rule(Rule(value), YUAN)["benefit"] == written


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "benefit.type"),
        ({"type": "free_lunch"}, "benefit.type"),
        ({"type": 5}, "benefit.type"),
        ({"type": "amount_off"}, "benefit.amount"),
        ({"type": "amount_off", "amount": None}, "benefit.amount"),
        ({"type": "amount_off", "amount": "0.00"}, "benefit.amount"),
        ({"type": "amount_off", "amount": "-1.00"}, "benefit.amount"),
        ({"type": "amount_off", "amount": "1.005"}, "benefit.amount"),
        ({"type": "amount_off", "amount": 10}, "benefit.amount"),
        ({"type": "amount_off", "amount": "1.00", "percent": 5}, "benefit.percent"),
        ({"type": "amount_off", "amount": "1.00", "max_times": 5}, "benefit.max_times"),
        ({"type": "percent_off"}, "benefit.percent"),
        ({"type": "percent_off", "percent": 15, "max_discount": "0.00"}, "benefit.max_discount"),
        ({"type": "tiered"}, "benefit.tiers"),
        ({"type": "tiered", "tiers": []}, "benefit.tiers"),
        ({"type": "tiered", "tiers": "x"}, "benefit.tiers"),
        ({"type": "tiered", "tiers": [5]}, "benefit.tiers"),
        ({"type": "tiered", "tiers": [{"min": "1.00"}]}, "benefit.tiers.off"),
        ({"type": "tiered", "tiers": [{"off": "1.00"}]}, "benefit.tiers.min"),
        ({"type": "tiered", "tiers": [{"min": "1.00", "off": "0.00"}]}, "benefit.tiers.off"),
        ({"type": "tiered", "tiers": [{"min": "1.00", "off": "1.00", "up": 1}]}, "benefit.tiers.up"),
        (
            {"type": "tiered", "tiers": [{"min": "1.00", "off": "1.00"}, {"min": "1.00", "off": "2.00"}]},
            "benefit.tiers",
        ),
        ({"type": "every", "min": "0.00", "off": "1.00"}, "benefit.min"),
        ({"type": "every", "min": "1.00", "off": "0.00"}, "benefit.off"),
        ({"type": "every", "min": "1.00", "off": "1.00", "max_times": 0}, "benefit.max_times"),
        ({"type": "fixed_price"}, "benefit.price"),
        ({"type": "fixed_price", "price": "1.00", "qty": 0}, "benefit.qty"),
        ({"type": "buy_x_get_y", "buy": 0, "get": 1}, "benefit.buy"),
        ({"type": "buy_x_get_y", "buy": 1, "get": 0}, "benefit.get"),
        ({"type": "buy_x_get_y", "buy": 1}, "benefit.get"),
        ({"type": "buy_x_get_y", "buy": 1, "get": 1, "percent": 0}, "benefit.percent"),
    ],
)
def test_a_benefit_that_makes_no_sense_is_named(data: dict[str, object], field: str) -> None:
    assert wrong_benefit(**data) == field


@pytest.mark.parametrize(
    "percent", [0, "0", "0.00", 101, "100.01", "-5", "12.345", "1e1", "", True, None, "１", "1000", 1e-5]
)
def test_a_percentage_is_above_0_and_at_most_100_with_two_decimals(percent: object) -> None:
    assert wrong_benefit(type="percent_off", percent=percent) == "benefit.percent"


@pytest.mark.parametrize("percent", ["0.01", "100", "100.00", 1, 99.99])
def test_the_smallest_and_the_largest_percentage_are_read(percent: object) -> None:
    assert benefit(type="percent_off", percent=percent) == PercentOff(Fraction(str(percent)))


# ---- values that make no sense


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("benefit", [None, "x", [], 5]),
        ("kind", ["automat", 1, True]),
        ("name", ["", 5, "x" * 201]),
        ("scope", ["x", [], 1]),
        ("min_spend", ["x", "-0.01", 5, "1.234"]),
        ("min_qty", [0, -1, "2", 1.5, True, MAX_COUNT + 1]),
        ("stores", ["s1", [1], [""], {"a": 1}]),
        ("tiers", ["gold", [None]]),
        ("from", ["2026-06-01", "2026-06-01T00:00:00", "x", 5, datetime(2026, 6, 1)]),  # noqa: DTZ001
        ("until", ["never"]),
        ("use_from", ["never"]),
        ("valid_days", [0, 36_501]),
        ("weekdays", [["Mon"], ["monday"], "mon"]),
        ("hours", ["14:00-16:00", []]),
        ("first_order", [1, "true"]),
        ("per_member", [0]),
        ("per_member_per_day", [0]),
        ("budget", ["0.00", "-1.00"]),
        ("group", ["", 5]),
        ("max_per_order", [0]),
        ("exclusive", ["yes"]),
        ("no_promotions", [0]),
        ("priority", ["1", 1.0, False, MAX_COUNT + 1, -MAX_COUNT - 1]),
        ("bearer", ["no"]),
        ("threshold_base", ["brutto", True]),
        ("refund_policy", ["never"]),
        ("min_spent", ["1.00"]),
    ],
)
def test_a_value_that_makes_no_sense_is_named_by_its_key(key: str, values: list[object]) -> None:
    assert [wrong({key: value}) for value in values] == [key] * len(values)


def test_a_rule_without_a_benefit_is_refused() -> None:
    found = read_rule({}, YUAN)

    assert isinstance(found, Refusal)
    assert found.facts == {"field": "benefit", "reason": "is missing"}


def test_a_rule_that_is_no_table_is_refused() -> None:
    found = read_rule([], YUAN)  # type: ignore[arg-type]

    assert isinstance(found, Refusal)
    assert found.facts["field"] == "campaign"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"scope": {"includes": {}}}, "scope.includes"),
        ({"scope": {"include": {"sku": ["a"]}}}, "scope.include.sku"),
        ({"scope": {"exclude": {"skus": "a"}}}, "scope.exclude.skus"),
        ({"scope": {"include": 5}}, "scope.include"),
        ({"hours": {"from": "14:00"}}, "hours.until"),
        ({"hours": {"until": "14:00"}}, "hours.from"),
        ({"hours": {"from": "14:00", "until": "16:00", "on": "x"}}, "hours.on"),
        ({"hours": {"from": "14:00", "until": "14:00"}}, "hours"),
        ({"hours": {"from": "24:00", "until": "02:00"}}, "hours"),
        ({"hours": {"from": "14:60", "until": "16:00"}}, "hours.from"),
        ({"hours": {"from": "24:01", "until": "16:00"}}, "hours.from"),
        ({"hours": {"from": "2:00", "until": "16:00"}}, "hours.from"),
        ({"hours": {"from": 14, "until": "16:00"}}, "hours.from"),
        ({"hours": {"from": "14:00", "until": "25:00"}}, "hours.until"),
    ],
)
def test_a_table_inside_is_named_by_its_path(data: dict[str, object], field: str) -> None:
    assert wrong(data) == field


# ---- boundaries of what makes sense


def test_the_longest_text_and_the_largest_counts_are_read() -> None:
    rule = read(name="x" * 200, min_qty=MAX_COUNT, priority=-MAX_COUNT, valid_days=36_500, per_member=MAX_COUNT)

    assert (len(rule.name), rule.min_qty, rule.priority, rule.valid_days) == (200, MAX_COUNT, -MAX_COUNT, 36_500)
    assert read(priority=MAX_COUNT).priority == MAX_COUNT
    assert read(name="x").name == "x"
    assert read(min_qty=1, per_member=1, valid_days=1).min_qty == 1


def test_hours_reach_from_midnight_to_midnight() -> None:
    assert read(hours={"from": "00:00", "until": "24:00"}).hours == Hours(0, 1440)
    assert read(hours={"from": "22:00", "until": "02:00"}).hours == Hours(1320, 120)
    assert read(hours={"from": "23:59", "until": "00:00"}).hours == Hours(1439, 0)
    assert read(hours={"from": "19:08", "until": "19:09"}).hours == Hours(1148, 1149)


def test_hours_are_written_with_two_digits() -> None:
    assert write_rule(Rule(AmountOff(1), hours=Hours(65, 1440)), YUAN)["hours"] == {"from": "01:05", "until": "24:00"}


def test_every_weekday_is_known_and_monday_comes_first() -> None:
    assert read(weekdays=list(WEEKDAYS)).weekdays == frozenset(range(7))
    assert [read(weekdays=[day]).weekdays for day in ("mon", "sun")] == [{0}, {6}]


def test_a_window_has_to_last() -> None:
    noon = "2026-06-01T12:00:00Z"

    assert wrong({"from": noon, "until": noon}) == "until"
    assert read({"from": noon, "until": "2026-06-01T12:00:00.000001Z"}).from_at == datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert wrong({"use_from": noon, "until": noon}) == "use_from"
    assert read({"use_from": noon, "until": "2026-06-01T12:00:01Z"}).until_at is not None
    assert wrong({"from": "2026-06-02T00:00:00Z", "until": noon}) == "until"


def test_an_instant_is_kept_in_utc() -> None:
    rule = read({"from": datetime(2026, 6, 1, 8, tzinfo=timezone(timedelta(hours=8)))})

    assert rule.from_at == datetime(2026, 6, 1, tzinfo=UTC)
    assert rule.from_at.tzinfo is UTC


def test_nothing_in_a_key_is_its_default() -> None:
    assert read({"min_spend": None, "group": None, "scope": None, "hours": None, "kind": None}) == read()


def test_a_threshold_of_nothing_and_a_net_base_are_the_defaults() -> None:
    assert read(min_spend="0.00", threshold_base="net", refund_policy="keep", kind="coupon") == read()


def test_empty_sides_of_a_scope_are_everything() -> None:
    assert read(scope={}) == read(scope={"include": {}, "exclude": {}}) == read()


def test_one_side_of_a_scope_is_written_alone() -> None:
    rule = Rule(AmountOff(1), scope=Scope(exclude=Selection(brands=frozenset({"y", "x"}))))

    assert write_rule(rule, YUAN)["scope"] == {"exclude": {"brands": ["x", "y"]}}


@pytest.mark.parametrize("key", COUPON_ONLY)
def test_an_automatic_promotion_has_none_of_what_belongs_to_a_coupon(key: str) -> None:
    assert wrong({"kind": "automatic", key: EVERY_KEY[key]}) == key
    assert read({"kind": "automatic", key: None}).kind is Kind.AUTOMATIC


def test_amounts_are_in_the_currency_of_the_chain() -> None:
    yen = Currency.of("JPY")
    found = read_rule({"benefit": {"type": "amount_off", "amount": "500"}}, yen)

    assert found == Rule(AmountOff(500))
    assert write_rule(found, yen)["benefit"] == {"type": "amount_off", "amount": "500"}
    assert isinstance(read_rule({"benefit": {"type": "amount_off", "amount": "500.00"}}, yen), Refusal)


def test_a_wrong_amount_is_told_how_amounts_look() -> None:
    found = read_rule({"benefit": OFF, "min_spend": 5}, YUAN)

    assert isinstance(found, Refusal)
    assert found.facts["reason"] == "must be an amount such as '50.00'"
