"""Count what a till may spend without asking: its open leases, and the coupons at home there.

That is what it would cost to take them back from a till that has spent them already (PROTOCOL 1.3).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from app.domain.money import Currency
from server.db.schema import coupon
from server.services import accounts, leases

IN_MONEY = (accounts.VALUE, accounts.BUDGET, accounts.RISK)
"""Kinds of account whose amounts are minor units; the others count pieces."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Hold what is left at a till by kind of account, and how many `coupons` are at home there."""

    left: Mapping[str, int]
    coupons: int

    @property
    def money_minor(self) -> int:
        """Sum up what is left of stored value, budgets, and the risk budget."""
        return sum(self.left.get(kind, 0) for kind in IN_MONEY)

    @property
    def pieces(self) -> dict[str, int]:
        """Count coupons that may still be given out (`stock`), card `uses`, and `coupons` that may be used."""
        counted = {kind: self.left.get(kind, 0) for kind in (accounts.STOCK, accounts.USES)}
        return {**counted, "coupons": self.coupons}


@dataclass(frozen=True, slots=True)
class Exposure:
    """Hold the rows of a till's open leases and of the coupons at home there, by id."""

    lent: Sequence[Row[Any]]
    at_home: Sequence[Row[Any]]

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self.lent or self.at_home)

    @property
    def sums(self) -> Sums:
        """Add it up."""
        left: dict[str, int] = {}
        for row in self.lent:
            left[_kind(row)] = left.get(_kind(row), 0) + row.qty - row.used
        return Sums(left, len(self.at_home))

    @property
    def money_minor(self) -> int:
        """Sum up what it is worth in money."""
        return self.sums.money_minor

    @property
    def pieces(self) -> dict[str, int]:
        """Count what is no money."""
        return self.sums.pieces

    @property
    def token(self) -> str:
        """Name exactly this exposure, so that what is confirmed is what was shown."""
        told = [f"{row.id} {row.qty - row.used}" for row in self.lent]
        told += [f"{row.id} {row.version}" for row in self.at_home]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]

    def to_json(self, currency: Currency) -> dict[str, Any]:
        """Return it for people and programs; `money` is written in the chain's currency."""
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
            "money": currency.format(self.money_minor),
            "pieces": self.pieces,
            "exposure": self.token,
        }


def _kind(row: Row[Any]) -> str:
    return str(row.account_id).partition(":")[0]


def of_till(conn: Connection, till_id: str) -> Exposure:
    """Return what a till has now."""
    at_home = conn.execute(select(coupon).where(coupon.c.home == till_id).order_by(coupon.c.id)).all()
    return Exposure(leases.open_of(conn, till_id), at_home)
