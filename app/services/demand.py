"""Count what is drawn of each account at this till, from its own ledger: the need that a lease is to meet.

Only the last days count, and of them the hours in which anything was sold, so that a shop that is shut at night is not
taken for a quiet one.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.renewal import Demand
from app.domain.rights import budget_id, stock_id, uses_id, value_id
from app.store import projections
from app.store.ledger import Ledger

WINDOW = timedelta(days=7)
ENTRIES_MAX = 5_000
"""Entries that a fresh process reads back: some seconds' work at most, whatever the ledger holds."""
_CHUNK = 500
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Sold:
    """Hold what one entry drew, by account; `at_ms` by this machine's clock."""

    at_ms: int
    drawn: Mapping[str, int]


class DemandBook:
    """Read each entry of the ledger once in the life of the process; not safe to share between threads."""

    def __init__(self) -> None:
        self._upto: int | None = None
        self._sold: deque[_Sold] = deque()
        self._touched: dict[str, int] = {}

    def read_on(self, conn: Connection, ledger: Ledger, now: datetime) -> None:
        """Take in what was appended since, and forget what is too old to count."""
        if self._upto is None:
            self._upto = max(0, ledger.tail(conn)[0] - ENTRIES_MAX)
        while chunk := ledger.since(conn, self._upto, limit=_CHUNK):
            for entry in chunk:
                self._add(entry)
            self._upto = chunk[-1].seq
        oldest_ms = _ms(now - WINDOW)
        self._sold = deque(each for each in self._sold if each.at_ms >= oldest_ms)

    def demands(self) -> dict[str, Demand]:
        """Return what was drawn of each account."""
        amounts: Counter[str] = Counter()
        largest: dict[str, int] = {}
        for sold in self._sold:
            for account_id, amount in sold.drawn.items():
                amounts[account_id] += amount
                largest[account_id] = max(largest.get(account_id, 0), amount)
        return {account_id: Demand(amount, largest[account_id]) for account_id, amount in amounts.items()}

    @property
    def hours(self) -> int:
        """Count the hours of the clock in which anything was sold."""
        return len({sold.at_ms // _HOUR_MS for sold in self._sold})

    def touched_ms(self, lease_id: str) -> int:
        """Return when a lease was drawn on last, 0 = not in living memory."""
        return self._touched.get(lease_id, 0)

    def _add(self, entry: Entry) -> None:
        if entry.kind not in (projections.SALE, projections.CLAIM):
            return
        try:
            body = entry.read()
            at_ms = _ms(datetime.fromisoformat(body["at"]))
            drawn = dict(_drawn(entry.kind, body))
            leases = _leases(entry.kind, body)
        except (KeyError, TypeError, ValueError):
            # What an older version wrote in other words draws on nothing that is lent now.
            return
        self._sold.append(_Sold(at_ms, drawn))
        for lease_id in leases:
            self._touched[lease_id] = at_ms


def _drawn(kind: str, body: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    if kind == projections.CLAIM:
        yield stock_id(body["campaign"]), 1
        return
    quote = body["quote"]
    discounts: Counter[str] = Counter()
    for stage in quote["laid"]:
        discounts[stage["campaign"]] += sum(stage["shares_minor"])
    uses = Counter(cover["card"] for cover in quote["covers"])
    value_minor = sum(each["amount_minor"] for each in body["tenders"] if each["type"] == "stored_value")
    yield from ((budget_id(campaign_id), minor) for campaign_id, minor in discounts.items())
    yield from ((uses_id(card_id), count) for card_id, count in uses.items())
    if value_minor:
        yield value_id(quote["member"]), value_minor


def _leases(kind: str, body: Mapping[str, Any]) -> list[str]:
    if kind == projections.CLAIM:
        return [body["lease"]]
    return [each["lease"] for each in (body.get("rights") or {"leases": []})["leases"]]


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
