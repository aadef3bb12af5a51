"""Compare both sides after a session that left nothing pending: our ledger's sums against the server's tables.

Number and hash were compared by hello and push. What is compared here is what both made of the same entries: counts and
sums of each business day. A difference is reported, never repaired by overwriting one side (PROTOCOL 3.2, sanity).
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from app.domain.ledger import Entry
from app.store import catalog, meta
from app.store.meta import instant
from sync.hello import last_mark
from sync.protocol import PROTOCOL, REFUND, SALE, SANITY_PATH, Sanity, SanityAnswer
from sync.session import Session

DAYS_MAX = 31
"""Days in one comparison, the newest: bounds the message after months without a line."""
_CHUNK = 500

Difference = dict[str, Any]


@dataclass(slots=True)
class Day:
    """Sum up one business day; `tenders_minor` maps a tender's name to what was kept less what was paid back."""

    sales: int = 0
    refunds: int = 0
    discount_minor: int = 0
    tenders_minor: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Day") -> None:
        """Add another's sums to these."""
        self.sales += other.sales
        self.refunds += other.refunds
        self.discount_minor += other.discount_minor
        for name, minor in other.tenders_minor.items():
            # Not `+=`: a Counter would drop sums below 0.
            self.tenders_minor[name] += minor

    def to_json(self) -> dict[str, Any]:
        """Return the shape of `Sanity.days`; a tender whose sum is 0 is left out."""
        tenders = {name: minor for name, minor in sorted(self.tenders_minor.items()) if minor}
        return {
            "sales": self.sales,
            "refunds": self.refunds,
            "tenders": tenders,
            "discount_minor": self.discount_minor,
        }


class Daybook:
    """Add up the ledger by business days; it only grows, so each entry is read once in the life of the process.

    A business day is a date in the store's zone, by the till's own clock at the sale; the zone is that of the first
    comparison, and goes along with each, so that both sides cut the days alike while a store changes its zone.
    """

    def __init__(self, zone: ZoneInfo, *, after: str = "") -> None:
        self.zone = zone
        self.after = after
        """The day on which this epoch began, "" for the first: up to there the books hold what earlier epochs sold."""
        self.days: dict[str, Day] = {}
        self.upto = 0
        self.changed: set[str] = set()
        """Days that grew since they were compared last."""

    def add(self, entry: Entry) -> None:
        """Count one entry, the one behind `upto`; kinds without the money of a sale change nothing."""
        assert entry.seq == self.upto + 1, "the ledger has no gaps"
        self.upto = entry.seq
        if entry.kind not in (SALE, REFUND):
            return
        try:
            date, change = _read(entry, self.zone)
        except (KeyError, TypeError, ValueError):
            # What we cannot read the server could not either: it is parked there, and in no one's sums.
            return
        if date <= self.after:
            return
        self.days.setdefault(date, Day()).add(change)
        self.changed.add(date)


def _read(entry: Entry, zone: ZoneInfo) -> tuple[str, Day]:
    """Return the business day of a sale or refund, and what it adds to that day."""
    body = entry.read()
    date = datetime.fromisoformat(body["at"]).astimezone(zone).date().isoformat()
    day = Day()
    if entry.kind == SALE:
        day.sales = 1
        day.discount_minor = body["quote"]["discount_minor"]
        sign, tenders = 1, body["tenders"]
    else:
        day.refunds = 1
        sign, tenders = -1, body["body"]["tenders"]
    for tender in tenders:
        day.tenders_minor[tender["type"]] += sign * tender["amount_minor"]
    return date, day


def open_daybook(session: Session) -> Daybook | None:
    """Return an empty daybook in the store's zone, None before the first pull told it."""
    with session.db.read() as conn:
        known = meta.load(conn)
        zone = catalog.store_zone(conn, known.store_id)
    if zone is None:
        return None
    began = instant(known.epoch_since_ms).astimezone(zone).date().isoformat() if known.epoch_since_ms else ""
    return Daybook(zone, after=began)


def verify(session: Session, book: Daybook) -> tuple[Difference, ...]:
    """Compare the days that changed since the last comparison; the ledger must be wholly acknowledged.

    Returns the server's differences, each `{"day", "field", "till", "server"}`. Raises Offline and Busy; the days stay
    marked as changed then.
    """
    while True:
        with session.db.read() as conn:
            last = last_mark(conn, session.ledger)
            chunk = session.ledger.since(conn, book.upto, limit=_CHUNK)
        for entry in chunk:
            book.add(entry)
        if len(chunk) < _CHUNK:
            break
    if not book.changed:
        return ()
    days = {date: book.days[date].to_json() for date in sorted(book.changed)[-DAYS_MAX:]}
    message = Sanity(proto=PROTOCOL, till=session.till, epoch=session.epoch, last=last, days=days, zone=book.zone.key)
    answer = session.client.exchange(SANITY_PATH, message, SanityAnswer)
    book.changed.clear()
    return tuple(answer.differences)
