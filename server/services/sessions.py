"""Open a till's sync session, and compare both sides at its end (PROTOCOL 3.2, hello and sanity)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row, bindparam, func, select, update

from app.domain.instants import FIRST, LAST
from app.domain.money import MAX_MINOR
from app.domain.refusals import Refusal, unknown
from server.db import schema
from server.services import boots, feed, findings, lost_tills, restoring, revoked
from server.services.context import Context
from server.services.devices import REVOKED
from server.services.entries import SCHEMAS
from server.services.ledgers import FORK, ledger_here, mark_of, strand, tail_of
from sync import protocol
from sync.protocol import Hello, HelloAnswer, Sanity, SanityAnswer

_ROWS_LOST, _FORKED = "rows_lost", "fork"
"""What a till may have stopped for (`sync.hello.Stop`) and the server would not know otherwise."""

_TILL = select(schema.till).where(schema.till.c.id == bindparam("of"))
_TILL_NOW = update(schema.till).where(schema.till.c.id == bindparam("of"))
_TILL_IN_ZONE = (
    select(schema.till, schema.store.c.zone)
    .join(schema.store, schema.store.c.id == schema.till.c.store_id)
    .where(schema.till.c.id == bindparam("of"))
)

_SOLD = (
    schema.orders.c.till_id == bindparam("of"),
    schema.orders.c.sold_at >= bindparam("start"),
    schema.orders.c.sold_at < bindparam("end"),
)
_SALES = select(func.count()).select_from(schema.orders).where(*_SOLD)
_DISCOUNT = (
    select(func.coalesce(func.sum(schema.order_line.c.discount_minor), 0))
    .join(schema.orders, schema.orders.c.id == schema.order_line.c.order_id)
    .where(*_SOLD)
)
_TENDERS = (
    select(schema.order_tender.c.type, func.sum(schema.order_tender.c.amount_minor))
    .join(schema.orders, schema.orders.c.id == schema.order_tender.c.order_id)
    .where(*_SOLD)
    .group_by(schema.order_tender.c.type)
)
_REFUNDS = (
    select(schema.refund.c.body)
    .join(schema.ledger_entry, schema.ledger_entry.c.entry_id == schema.refund.c.entry_id)
    .where(
        schema.ledger_entry.c.till_id == bindparam("of"),
        schema.refund.c.paid_at >= bindparam("start"),
        schema.refund.c.paid_at < bindparam("end"),
    )
)
_KEPT_OUT = ("late_payment", "duplicate_order", "refund_mismatch")
_FINDINGS = select(schema.finding.c.detail).where(schema.finding.c.kind.in_(_KEPT_OUT))

DAYS_MAX = 31
"""Days compared in one message."""


def hello(conn: Connection, context: Context, message: Hello) -> HelloAnswer | Refusal:
    """Greet a till, and note where its ledger ends.

    Compare-and-announce: `last` is stored only if `seen` is what we hold as its tail, so a till whose disk was rolled
    back cannot erase the evidence of it, not even once it has sold past the old end.
    """
    row = conn.execute(_TILL, {"of": message.till}).one_or_none()
    if row is None:
        return unknown("till", message.till)
    if message.untrusted and not revoked.is_held(context):
        _open_untrusted(conn, context, message)
    lost_tills.note_contact(conn, context, row)
    values: dict[str, Any] = {
        "last_seen_at": context.now,
        "clock_drift_ms": message.wall_ms - round(context.now.timestamp() * 1000),
    }
    tail, contact, state = tail_of(row), boots.next_contact(conn, row.id), row.state
    if message.epoch == row.epoch and row.state != FORK:
        if revoked.is_held(context):
            state = REVOKED  # what else it says of itself may be anything, as often as it likes
        elif _is_another(conn, context, row, message=message, contact=contact):
            state = FORK
        if state != FORK and message.seen == tail and message.last[0] >= tail[0]:
            tail = message.last
            values |= {"tail_seq": tail[0], "tail_hash": bytes.fromhex(tail[1])}
    conn.execute(_TILL_NOW, {"of": row.id, **values})
    return HelloAnswer(
        incarnation=context.chain.incarnation,
        epoch=row.epoch,
        acked=mark_of(row),
        tail=tail,
        state=state,
        now_ms=round(context.now.timestamp() * 1000),
        schema_accept=SCHEMAS,
        head=feed.head(conn),
        to=message.name,
        contact=contact,
        rest_s=context.pace.rest_s(conn, context.now),
    )


def _open_untrusted(conn: Connection, context: Context, message: Hello) -> None:
    """Keep that a till was given answers that are not ours: once a day, with how many they were until it told first."""
    findings.open_finding(
        conn,
        kind="untrusted_answers",
        key=f"{message.till}/{context.now:%Y-%m-%d}",
        amount_minor=message.untrusted,
        detail={"till": message.till, "answers": message.untrusted, "boot": message.boot},
        now=context.now,
    )


def _is_another(conn: Connection, context: Context, row: Row[Any], *, message: Hello, contact: int) -> bool:
    """Take in what a till says of itself; tells whether there are two of it."""
    _open_findings(conn, context, row, message=message)
    restoring.lost(conn, context, row, message=message)
    restoring.reported(conn, context, row, message=message)
    return _is_cloned(conn, context, row, message=message, contact=contact)


def _is_cloned(conn: Connection, context: Context, row: Row[Any], *, message: Hello, contact: int) -> bool:
    """Stop a till of which two copies are alive: each would draw on the same rights, and only one may go on."""
    other = boots.other_alive(conn, message, contact, incarnation=context.chain.incarnation)
    if other is None:
        return False
    told = {
        "boots": [other.boot, message.boot],
        "since": [other.since, contact],
        "heard": [other.heard, message.heard],
        "last": list(message.last),
    }
    strand(conn, context, row, kind="till_cloned", told=told)
    return True


def _open_findings(conn: Connection, context: Context, row: Row[Any], *, message: Hello) -> None:
    """Keep what the till tells of itself: rows that it lost, a ledger that is not ours, a file that is damaged.

    That a ledger ends earlier than we know is no sign of loss by itself: a bad line may bring a copy of an old
    greeting. The till, which knows what it has, compares and tells (`stopped`).
    """
    known = max(row.acked_seq, row.tail_seq)
    place = f"{row.id}/{row.epoch}"
    found = {
        _ROWS_LOST: ("ledger_rows_lost", f"{place}/{known}"),
        _FORKED: ("ledger_fork", place),
    }
    told = [found[message.stopped]] if message.stopped in found else []
    if message.db == "damaged":
        told.append(("till_damaged", f"{place}/{message.boot}"))
    if not told:
        return
    theirs = {"last": message.last, "boot": message.boot}
    ours = {"known": known, "here": ledger_here(conn, row, at=message.last[0])}
    detail = {"till": row.id, "epoch": row.epoch, **theirs, **ours}
    for kind, key in told:
        findings.open_finding(conn, kind=kind, key=key, amount_minor=0, detail=detail, now=context.now)


def compare(conn: Connection, context: Context, message: Sanity) -> SanityAnswer | Refusal:
    """Compare the till's sums of each business day with what is in the books.

    Compared only where everything is acknowledged (`last` is our cursor), and nothing waits for what a backup lacks:
    else the difference is known, and no fault. What was kept out of the books as a conflict is added back from its
    finding: it is surfaced already.
    """
    row = conn.execute(_TILL_IN_ZONE, {"of": message.till}).one_or_none()
    if row is None:
        return unknown("till", message.till)
    if context.chain.restoring or row.epoch != message.epoch or message.last != mark_of(row):
        return SanityAnswer()
    differences: list[dict[str, Any]] = []
    zone = _zone(message.zone) or ZoneInfo(row.zone)
    for day in sorted(message.days)[-DAYS_MAX:]:
        date_ = _date(day)
        if date_ is None:
            differences.append({"day": day, "field": "day", "till": day, "server": None})
            continue
        ours = _business_day(conn, row.id, date_, zone=zone)
        differences += _differences(day, message.days[day], ours)
    return SanityAnswer(differences=differences)


def _date(day: str) -> date | None:
    """Return the business day, None where it names none that begins and ends in the calendar."""
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return None
    return found if FIRST.date() < found < LAST.date() else None


def _zone(name: str) -> ZoneInfo | None:
    """Return the zone in which the till counted, None where it names none that we know."""
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None


def report(conn: Connection, context: Context, message: Sanity, *, differences: Sequence[Mapping[str, Any]]) -> None:
    """Open a finding for each business day that differs; one that is open stays as it is."""
    for day in sorted({each["day"] for each in differences}):
        found = [each for each in differences if each["day"] == day]
        findings.open_finding(
            conn,
            kind="sanity",
            key=f"{message.till}/{message.epoch}/{day}",
            amount_minor=_money(found),
            detail={"till": message.till, "day": day, "last": message.last[0], "differences": found},
            now=context.now,
        )


def _differences(day: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"day": day, "field": field, "till": theirs.get(field), "server": ours[field]}
        for field in ours
        if theirs.get(field) != ours[field]
    ]


def _money(differences: Sequence[Mapping[str, Any]]) -> int:
    """Sum up how far the tenders lie apart, in minor units; what is no table of numbers counts as nothing."""
    apart = 0
    for each in differences:
        till, server = each["till"], each["server"]
        if isinstance(till, Mapping) and isinstance(server, Mapping):
            apart += sum(abs(_minor(till.get(name)) - _minor(server.get(name))) for name in {*till, *server})
    return min(apart, MAX_MINOR)


def _minor(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _business_day(conn: Connection, till_id: str, day: date, *, zone: ZoneInfo) -> dict[str, Any]:
    """Add up what the books hold of one till and one date in its store's zone; tenders without those that are 0."""
    start, end = (datetime.combine(date_, time(), zone).astimezone(UTC) for date_ in (day, day + timedelta(days=1)))
    its = {"of": till_id, "start": start, "end": end}
    sales = conn.execute(_SALES, its).scalar_one()
    discount_minor = conn.execute(_DISCOUNT, its).scalar_one()
    tenders: dict[str, int] = {row[0]: row[1] for row in conn.execute(_TENDERS, its)}
    refunds = _refunds(conn, till_id, start=start, end=end)
    for kept in _kept_out(conn, till_id, start=start, end=end):
        if kept["entry_kind"] == protocol.SALE:
            sales += 1
            discount_minor += kept["discount_minor"]
            _add(tenders, kept["tenders"], sign=1)
        else:
            refunds.append(kept["tenders"])
    for paid_back in refunds:
        _add(tenders, paid_back, sign=-1)
    return {
        "sales": sales,
        "refunds": len(refunds),
        "tenders": {name: minor for name, minor in sorted(tenders.items()) if minor},
        "discount_minor": discount_minor,
    }


def _add(sums: dict[str, int], tenders: list[dict[str, Any]], *, sign: int) -> None:
    for tender in tenders:
        sums[tender["type"]] = sums.get(tender["type"], 0) + sign * tender["amount_minor"]


def _kept_out(conn: Connection, till_id: str, *, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return the sales and refunds of the day that stand in a finding instead of the books; findings are few."""
    rows = conn.execute(_FINDINGS).scalars()
    return [
        detail
        for detail in rows
        if detail["till"] == till_id
        and detail["entry_kind"] in (protocol.SALE, protocol.REFUND)
        and start <= datetime.fromisoformat(detail["at"]) < end
    ]


def _refunds(conn: Connection, till_id: str, *, start: datetime, end: datetime) -> list[list[dict[str, Any]]]:
    """Return the tenders of each refund that the till paid out on that day by its own clock.

    It may lie far from the server's decision: the till was down in between, or its clock is years behind.
    """
    bodies = conn.execute(_REFUNDS, {"of": till_id, "start": start, "end": end}).scalars()
    return [body["tenders"] for body in bodies]
