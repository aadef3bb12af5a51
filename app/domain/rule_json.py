"""Read a campaign's rule from plain data (a scenario file, the API, a snapshot) and write it back.

Money is a string in the chain's currency, instants are ISO 8601 with an offset. Anything that makes no sense is
`invalid_campaign`, and the facts name the field. Keys: scenarios/FORMAT.md, "Campaign keys".
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction
from typing import TypeVar, assert_never, cast

from app.domain.benefits import AmountOff, Benefit, BuyXGetY, Every, FixedPrice, PercentOff, Tier, Tiered
from app.domain.instants import in_utc
from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rules import Hours, Kind, RefundPolicy, Rule, Scope, Selection

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_COUNT = 1_000_000_000

T = TypeVar("T")

_CLOCK = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,2})?", re.ASCII)


class _Invalid(Exception):
    """Carry the field that makes no sense up to `read_rule`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


class _Table:
    """Take known keys out of a table, each once and checked; what is left over is unknown and refused by name."""

    def __init__(self, data: object, currency: Currency, path: str = "") -> None:
        if not isinstance(data, Mapping):
            raise _Invalid(path or "campaign", "must be a table")
        self._left = dict(cast("Mapping[str, object]", data))
        self._currency, self._path = currency, path

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def take(self, key: str, read: Callable[[str, object], T], default: T) -> T:
        value = self._left.pop(key, None)
        return default if value is None else read(self._name(key), value)

    def need(self, key: str, read: Callable[[str, object], T]) -> T:
        if self._left.get(key) is None:
            raise _Invalid(self._name(key), "is missing")
        return read(self._name(key), self._left.pop(key))

    def done(self) -> None:
        for key in self._left:
            raise _Invalid(self._name(key), "is not known")

    def money(self, field: str, value: object) -> int:
        minor = self._currency.parse(value) if isinstance(value, str) else None
        if not isinstance(minor, int) or minor < 0:
            raise _Invalid(field, f"must be an amount such as {self._currency.format(5000)!r}")
        return minor

    def positive_money(self, field: str, value: object) -> int:
        minor = self.money(field, value)
        if minor == 0:
            raise _Invalid(field, "must be above 0")
        return minor

    def table(self, field: str, value: object) -> "_Table":
        return _Table(value, self._currency, field)


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise _Invalid(field, "must be a text of 1 to 200 characters")
    return value


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _Invalid(field, "must be true or false")
    return value


def _whole(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_COUNT:
        raise _Invalid(field, "must be a whole number")
    return value


def _count(field: str, value: object) -> int:
    count = _whole(field, value)
    if count < 1:
        raise _Invalid(field, "must be 1 or more")
    return count


def _percent(field: str, value: object) -> Fraction:
    # TOML and JSON write 8.5 as a float; its shortest decimal form is what was written.
    text = str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else ""
    if not _PERCENT.fullmatch(text) or not 0 < Fraction(text) <= 100:
        raise _Invalid(field, "must be above 0 and at most 100, with at most 2 decimals")
    return Fraction(text)


def _instant(field: str, value: object) -> datetime:
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        instant = None
    if not isinstance(instant, datetime) or instant.tzinfo is None:
        raise _Invalid(field, "must be a date-time with an offset")
    return in_utc(instant)


def _texts(field: str, value: object) -> frozenset[str]:
    if not isinstance(value, list | tuple):
        raise _Invalid(field, "must be a list of texts")
    return frozenset(_text(field, item) for item in value)


def _weekdays(field: str, value: object) -> frozenset[int]:
    names = _texts(field, value)
    if not names <= set(WEEKDAYS):
        raise _Invalid(field, f"must name days as {', '.join(WEEKDAYS)}")
    return frozenset(WEEKDAYS.index(name) for name in names)


def _clock(field: str, value: object) -> int:
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    minutes = int(found.group(1)) * 60 + int(found.group(2)) if found else -1
    if not 0 <= minutes <= 24 * 60:
        raise _Invalid(field, 'must be a time of day such as "14:00"')
    return minutes


def _choice(*names: str) -> Callable[[str, object], str]:
    def read(field: str, value: object) -> str:
        if value not in names:
            raise _Invalid(field, f"must be one of {', '.join(names)}")
        return str(value)

    return read


def _selection(table: _Table) -> Selection:
    found = Selection(
        skus=table.take("skus", _texts, frozenset()),
        categories=table.take("categories", _texts, frozenset()),
        brands=table.take("brands", _texts, frozenset()),
    )
    table.done()
    return found


def _scope(table: _Table) -> Scope:
    include = table.take("include", table.table, None)
    exclude = table.take("exclude", table.table, None)
    table.done()
    return Scope(
        include=_selection(include) if include else Selection(), exclude=_selection(exclude) if exclude else Selection()
    )


def _hours(table: _Table) -> Hours:
    hours = Hours(table.need("from", _clock), table.need("until", _clock))
    table.done()
    if hours.start_min in (hours.end_min, 24 * 60):
        raise _Invalid("hours", "must last longer than nothing")
    return hours


def _tiers(table: _Table) -> tuple[Tier, ...]:
    def read(field: str, value: object) -> tuple[Tier, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise _Invalid(field, "must be a list of {min, off}")
        rows = [table.table(field, row) for row in value]
        tiers = [Tier(row.need("min", row.money), row.need("off", row.positive_money)) for row in rows]
        for row in rows:
            row.done()
        if len({tier.min_minor for tier in tiers}) != len(tiers):
            raise _Invalid(field, "must not name one min twice")
        return tuple(sorted(tiers, key=lambda tier: tier.min_minor))

    return table.need("tiers", read)


def _benefit(table: _Table) -> Benefit:
    kind = table.need("type", _text)
    max_times = table.take("max_times", _count, 0) or None if kind in ("every", "buy_x_get_y") else None
    benefit: Benefit
    match kind:
        case "amount_off":
            benefit = AmountOff(table.need("amount", table.positive_money))
        case "percent_off":
            cap = table.take("max_discount", table.positive_money, 0) or None
            benefit = PercentOff(table.need("percent", _percent), cap)
        case "tiered":
            benefit = Tiered(_tiers(table))
        case "every":
            benefit = Every(table.need("min", table.positive_money), table.need("off", table.positive_money), max_times)
        case "fixed_price":
            benefit = FixedPrice(table.need("price", table.money), table.take("qty", _count, 1))
        case "buy_x_get_y":
            percent = table.take("percent", _percent, Fraction(100))
            benefit = BuyXGetY(table.need("buy", _count), table.need("get", _count), percent, max_times)
        case _:
            raise _Invalid("benefit.type", "is not a known benefit")
    table.done()
    return benefit


def read_rule(data: Mapping[str, object], currency: Currency) -> Rule | Refusal:
    """Read a rule; `invalid_campaign` names the first field that is missing, unknown or makes no sense."""
    try:
        table = _Table(data, currency)
        rule = _rule(table)
        table.done()
        _check(rule, data)
    except _Invalid as wrong:
        return refuse(RefusalCode.INVALID_CAMPAIGN, field=wrong.field, reason=wrong.reason)
    return rule


def _rule(table: _Table) -> Rule:
    scope = table.take("scope", table.table, None)
    hours = table.take("hours", table.table, None)
    return Rule(
        benefit=_benefit(table.need("benefit", table.table)),
        kind=Kind(table.take("kind", _choice("coupon", "automatic"), "coupon")),
        name=table.take("name", _text, ""),
        name_en=table.take("name_en", _text, ""),
        scope=_scope(scope) if scope else Scope(),
        min_spend_minor=table.take("min_spend", table.money, 0),
        min_qty=table.take("min_qty", _count, 0),
        stores=table.take("stores", _texts, frozenset()),
        tiers=table.take("tiers", _texts, frozenset()),
        from_at=table.take("from", _instant, None),
        until_at=table.take("until", _instant, None),
        use_from_at=table.take("use_from", _instant, None),
        valid_days=table.take("valid_days", _count, 0) or None,
        weekdays=table.take("weekdays", _weekdays, frozenset()),
        hours=_hours(hours) if hours else None,
        first_order=table.take("first_order", _flag, False),
        per_member=table.take("per_member", _count, 1),
        per_member_per_day=table.take("per_member_per_day", _count, 0) or None,
        budget_minor=table.take("budget", table.positive_money, 0) or None,
        group=table.take("group", _text, "coupon"),
        max_per_order=table.take("max_per_order", _count, 1),
        exclusive=table.take("exclusive", _flag, False),
        no_promotions=table.take("no_promotions", _flag, False),
        priority=table.take("priority", _whole, 0),
        bearer=table.take("bearer", _flag, False),
        gross_threshold=table.take("threshold_base", _choice("net", "gross"), "net") == "gross",
        refund_policy=RefundPolicy(table.take("refund_policy", _choice("keep", "recompute"), "keep")),
    )


COUPON_ONLY = ("valid_days", "use_from", "per_member", "per_member_per_day", "max_per_order", "exclusive", "bearer")


def _check(rule: Rule, data: Mapping[str, object]) -> None:
    if rule.from_at and rule.until_at and rule.from_at >= rule.until_at:
        raise _Invalid("until", "must be after from")
    if rule.use_from_at and rule.until_at and rule.use_from_at >= rule.until_at:
        raise _Invalid("use_from", "must be before until")
    if rule.valid_days and rule.valid_days > 36_500:
        raise _Invalid("valid_days", "must be at most 36500")
    if rule.kind is Kind.AUTOMATIC:
        for key in COUPON_ONLY:
            if data.get(key) is not None:
                raise _Invalid(key, "is for coupons; an automatic promotion has none")


def write_rule(rule: Rule, currency: Currency) -> dict[str, object]:
    """Write the rule as JSON data that `read_rule` reads back to an equal rule.

    What is at its default is left out, except for `kind`: it says what the rest is about.
    """
    default = Rule(benefit=rule.benefit)
    data: dict[str, object] = {"benefit": _write_benefit(rule.benefit, currency)}
    values: dict[str, object] = {
        "kind": rule.kind.value,
        "name": rule.name,
        "name_en": rule.name_en,
        "scope": _write_scope(rule.scope),
        "min_spend": currency.format(rule.min_spend_minor) if rule.min_spend_minor else None,
        "min_qty": rule.min_qty or None,
        "stores": sorted(rule.stores),
        "tiers": sorted(rule.tiers),
        "from": rule.from_at.isoformat() if rule.from_at else None,
        "until": rule.until_at.isoformat() if rule.until_at else None,
        "use_from": rule.use_from_at.isoformat() if rule.use_from_at else None,
        "valid_days": rule.valid_days,
        "weekdays": [WEEKDAYS[day] for day in sorted(rule.weekdays)],
        "hours": _write_hours(rule.hours) if rule.hours else None,
        "first_order": rule.first_order,
        "per_member": rule.per_member if rule.per_member != default.per_member else None,
        "per_member_per_day": rule.per_member_per_day,
        "budget": currency.format(rule.budget_minor) if rule.budget_minor else None,
        "group": rule.group if rule.group != default.group else None,
        "max_per_order": rule.max_per_order if rule.max_per_order != default.max_per_order else None,
        "exclusive": rule.exclusive,
        "no_promotions": rule.no_promotions,
        "priority": rule.priority,
        "bearer": rule.bearer,
        "threshold_base": "gross" if rule.gross_threshold else None,
        "refund_policy": rule.refund_policy.value if rule.refund_policy is not default.refund_policy else None,
    }
    data.update({key: value for key, value in values.items() if value})
    return data


def _write_scope(scope: Scope) -> dict[str, object]:
    sides = {"include": scope.include, "exclude": scope.exclude}
    return {
        side: {
            key: sorted(names)
            for key, names in (("skus", chosen.skus), ("categories", chosen.categories), ("brands", chosen.brands))
            if names
        }
        for side, chosen in sides.items()
        if not chosen.empty
    }


def _write_hours(hours: Hours) -> dict[str, str]:
    def clock(minutes: int) -> str:
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    return {"from": clock(hours.start_min), "until": clock(hours.end_min)}


def _write_percent(percent: Fraction) -> str:
    whole, hundredths = divmod(int(percent * 100), 100)
    return f"{whole}.{hundredths:02d}" if hundredths else str(whole)


def _write_benefit(benefit: Benefit, currency: Currency) -> dict[str, object]:
    money = currency.format
    data: dict[str, object]
    match benefit:
        case AmountOff(amount_minor=amount):
            data = {"type": "amount_off", "amount": money(amount)}
        case PercentOff(percent=percent, max_discount_minor=cap):
            data = {
                "type": "percent_off",
                "percent": _write_percent(percent),
                "max_discount": money(cap) if cap else None,
            }
        case Tiered(tiers=tiers):
            rows = [{"min": money(tier.min_minor), "off": money(tier.off_minor)} for tier in tiers]
            data = {"type": "tiered", "tiers": rows}
        case Every(min_minor=minimum, off_minor=off, max_times=times):
            data = {"type": "every", "min": money(minimum), "off": money(off), "max_times": times}
        case FixedPrice(price_minor=price, qty=qty):
            data = {"type": "fixed_price", "price": money(price), "qty": qty}
        case BuyXGetY(buy=buy, get=get, percent=percent, max_times=times):
            share = _write_percent(percent)
            data = {"type": "buy_x_get_y", "buy": buy, "get": get, "percent": share, "max_times": times}
        case _:
            assert_never(benefit)
    return {key: value for key, value in data.items() if value is not None}
