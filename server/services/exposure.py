"""Count what a till may spend without asking: its open leases, and the coupons at home there.

That is what it would cost to take them back from a till that has spent them already (PROTOCOL 1.3). In money it is the
most that can be lost: a coupon is worth what its rule can take off one order at most, a card use what its service costs
now. What no rule bounds is no amount: it is counted in pieces, `without_limit`.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, Select, Text, and_, cast, func, select

from app.domain.benefits import most_off
from app.domain.money import Currency
from server.db.schema import account, campaign, coupon, lease, product, punch_card, snapshot
from server.services import accounts, leases
from server.services.facts import stored_rule

IN_MONEY = (accounts.VALUE, accounts.BUDGET, accounts.RISK)
"""Kinds of account whose amounts are minor units; the others count pieces."""
COUPONS = "coupons"
"""Coupons that may be used, beside the kinds of account."""
IN_PIECES = (accounts.STOCK, accounts.USES, COUPONS)


@dataclass(slots=True)
class Sums:
    """Add up what is left at a till, each by kind: an account's, or COUPONS.

    `parts_minor` is what it is worth at most, `pieces` how many there are of what is no money, `without_limit` how many
    of these are worth nobody knows how much and stand in no sum. `leases` counts those that are open.
    """

    parts_minor: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*IN_MONEY, *IN_PIECES), 0))
    pieces: dict[str, int] = field(default_factory=lambda: dict.fromkeys(IN_PIECES, 0))
    without_limit: dict[str, int] = field(default_factory=lambda: dict.fromkeys(IN_PIECES, 0))
    leases: int = 0

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self.leases or self.pieces[COUPONS])

    def add(self, kind: str, number: int, *, each_minor: int | None) -> None:
        """Count `number` pieces that are worth `each_minor` at most; None = without a limit."""
        self.pieces[kind] += number
        if each_minor is None:
            self.without_limit[kind] += number
        else:
            self.parts_minor[kind] += number * each_minor

    @property
    def money_minor(self) -> int:
        """Sum up what can be lost at most, but for what is without a limit."""
        return sum(self.parts_minor.values())

    def to_json(self, currency: Currency) -> dict[str, Any]:
        """Return it for people and programs; `money` and its `parts` are written in the chain's currency."""
        return {
            "money": currency.format(self.money_minor),
            "parts": {kind: currency.format(minor) for kind, minor in self.parts_minor.items()},
            "pieces": self.pieces,
            "without_limit": self.without_limit,
        }

    def outstanding(self) -> dict[str, Any]:
        """Return it as the evidence of a finding keeps it."""
        told = {"money_minor": self.money_minor, "pieces": self.pieces, "without_limit": self.without_limit}
        return {**told, "leases": self.leases}


@dataclass(frozen=True, slots=True)
class Exposure:
    """Hold the rows of a till's open leases and of the coupons at home there, by id, and their `sums`."""

    lent: Sequence[Row[Any]]
    at_home: Sequence[Row[Any]]
    sums: Sums

    @property
    def token(self) -> str:
        """Name exactly this exposure, so that what is confirmed is what was shown: the rights, and their worth."""
        told = [f"{row.id} {row.qty - row.used}" for row in self.lent]
        told += [f"{row.id} {row.version}" for row in self.at_home]
        told += [f"{kind} {minor}" for kind, minor in self.sums.parts_minor.items()]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]

    def to_json(self, currency: Currency) -> dict[str, Any]:
        """Return it for people and programs."""
        return {
            "leases": [
                {
                    "lease": row.id,
                    "account": row.account_id,
                    "lent": row.qty,
                    "left": row.qty - row.used,
                    "stranded": row.stranded_at is not None,
                }
                for row in self.lent
            ],
            "coupons": [row.id for row in self.at_home],
            "currency": currency.code,
            **self.sums.to_json(currency),
            "exposure": self.token,
        }


def of_till(conn: Connection, till_id: str, currency: Currency) -> Exposure:
    """Return what a till has now."""
    at_home = conn.execute(select(coupon).where(coupon.c.home == till_id).order_by(coupon.c.id)).all()
    return Exposure(leases.open_of(conn, till_id), at_home, of_tills(conn, [till_id], currency)[till_id])


def of_tills(conn: Connection, till_ids: Collection[str], currency: Currency) -> Mapping[str, Sums]:
    """Add up what each of the tills has. Two queries, however many there are."""
    sums = {name: Sums() for name in till_ids}
    for row in conn.execute(_lent(till_ids)):
        found = sums[row.till_id]
        found.leases += row.number
        if row.kind in IN_MONEY:
            found.parts_minor[row.kind] += int(row.left)
        elif row.kind == accounts.USES:
            found.add(row.kind, int(row.left), each_minor=row.price_minor)
        else:
            found.add(row.kind, int(row.left), each_minor=_most_off(row.rule, currency))
    for row in conn.execute(_at_home(till_ids)):
        sums[row.home].add(COUPONS, row.number, each_minor=_most_off(row.rule, currency))
    return sums


def _most_off(rule: str, currency: Currency) -> int | None:
    return most_off(stored_rule(rule, currency).benefit)


_RULE = cast(snapshot.c.rule, Text)


def _lent(till_ids: Collection[str]) -> Select[Any]:
    """Sum up leases by what one unit is worth: by the rule in force of a stock's campaign, the price of a service."""
    owner = func.substr(lease.c.account_id, func.length(account.c.kind) + 2)
    worth = (lease.c.till_id, account.c.kind, _RULE, product.c.price_minor)
    return (
        select(
            lease.c.till_id,
            account.c.kind,
            _RULE.label("rule"),
            product.c.price_minor,
            func.sum(lease.c.qty - lease.c.used).label("left"),
            func.count().label("number"),
        )
        .join(account, account.c.id == lease.c.account_id)
        .outerjoin(campaign, and_(account.c.kind == accounts.STOCK, campaign.c.id == owner))
        .outerjoin(snapshot, snapshot.c.id == campaign.c.snapshot_id)
        .outerjoin(punch_card, and_(account.c.kind == accounts.USES, punch_card.c.id == owner))
        .outerjoin(product, product.c.sku == punch_card.c.service)
        .where(lease.c.till_id.in_(till_ids), lease.c.state == leases.OPEN)
        .group_by(*worth)
    )


def _at_home(till_ids: Collection[str]) -> Select[Any]:
    """Count coupons by what one is worth: by the rule that it was granted under."""
    return (
        select(coupon.c.home, _RULE.label("rule"), func.count().label("number"))
        .join(snapshot, snapshot.c.id == coupon.c.snapshot_id)
        .where(coupon.c.home.in_(till_ids))
        .group_by(coupon.c.home, _RULE)
    )
