"""Prove the invariants from the database alone (REQUIREMENTS G2).

Tells the equation of each campaign, card and balance, the open findings, every violation, and the verdict. A finding
is no violation: it is the surfaced kind of wrong. A violation is what nobody has been told yet.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select
from sqlalchemy.exc import DBAPIError

from app.domain.ledger import CARRY, Entry, carried, genesis, verifies
from app.domain.money import Currency
from server.db import portable
from server.db.schema import account, campaign, coupon, ledger_entry, orders, refund, till
from server.services import accounts, findings
from server.services.audit_checks import checks
from server.services.audit_orders import SOLD
from server.services.context import Context
from server.services.entries import paid_minor, read_body
from server.services.exposure import IN_MONEY
from server.services.ledgers import is_elsewhere, true_entry_id
from server.services.verdicts import NOT_BOOKED
from sync.protocol import QUARANTINED, REFUND, SALE

SHOWN = 20
"""Equations, and violations of one kind, that are written out before the rest is counted."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Name one invariant that does not hold: of what kind, about what, and the numbers that show it."""

    kind: str
    subject: str
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        """Write it as one line."""
        facts = " ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.kind} {self.subject}: {facts}".rstrip(": ")


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Hold what was found: the text, the violations written out, and how many there are in all."""

    lines: tuple[str, ...]
    violations: tuple[Violation, ...]
    count: int

    @property
    def clean(self) -> bool:
        """Tell whether every invariant holds."""
        return self.count == 0


def audit(
    conn: Connection, context: Context, *, everything: bool = False, tell: Callable[[str], None] | None = None
) -> AuditReport:
    """Check every invariant in one snapshot; the last line is `audit: clean` or `audit: N violations`.

    `everything` writes out every equation and violation, however many; then give `tell`, which gets each line as it is
    found, and the report keeps none: memory stays flat.
    """
    kept: list[str] = []
    say = kept.append if tell is None else tell
    limit = None if everything else SHOWN
    for line in _equations(conn, context.chain.currency, limit):
        say(line)
    for kind, number in sorted(findings.open_counts(conn).items()):
        say(f"finding {kind}: {number} open")
    shown: list[Violation] = []
    count = 0
    for kind, found in _violations(conn):
        number = 0
        for violation in found:
            number += 1
            if limit is None or number <= limit:
                say(f"VIOLATION {violation}")
            if number <= SHOWN:
                shown.append(violation)
        if limit is not None and number > limit:
            say(f"VIOLATION {kind}: and {number - limit} more")
        count += number
    say("audit: clean" if count == 0 else f"audit: {count} violation{'s' if count > 1 else ''}")
    return AuditReport(tuple(kept), tuple(shown), count)


# ------------------------------------------------------------------ equations


def _equations(conn: Connection, currency: Currency, limit: int | None) -> Iterator[str]:
    """Write the equation of each campaign (stock, budget), each card, each balance."""
    yield from _unlimited(conn, limit)
    for kind, title, granted in (
        (accounts.STOCK, "campaign", "granted"),
        (accounts.BUDGET, "budget", "given"),
        (accounts.USES, "card", "used"),
        (accounts.VALUE, "balance", "paid"),
        (accounts.RISK, "risk", "lost"),
    ):
        in_money = kind in IN_MONEY
        show = currency.format if in_money else str
        rows = select(account).where(account.c.kind == kind).order_by(account.c.id)
        number = conn.execute(select(func.count()).where(account.c.kind == kind)).scalar_one()
        for row in _stream(conn, rows if limit is None else rows.limit(limit)):
            yield _equation(row, title, granted=granted, show=show)
        if limit is not None and number > limit:
            yield f"{title}: and {number - limit} more"


def _equation(row: Row[Any], title: str, *, granted: str, show: Callable[[int], str]) -> str:
    parts = [f"available {show(row.available)}"]
    # A stock knows no hold; for the others what orders hold is neither left nor gone.
    parts += [f"held {show(row.held)}"] if row.kind != accounts.STOCK or row.held else []
    parts += [f"{name} {show(getattr(row, name))}" for name in ("reserved", "leased")]
    parts += [f"{granted} {show(row.spent)}", f"stranded {show(row.stranded)}"]
    name = row.id.partition(":")[2]
    return f"{title} {name}: total {show(row.total)} + over {show(row.over)} = {' + '.join(parts)}"


def _unlimited(conn: Connection, limit: int | None) -> Iterator[str]:
    """Write what campaigns without a stock have granted."""
    granted = func.count(coupon.c.id)
    stocks = select(account.c.id).where(account.c.kind == accounts.STOCK)
    statement = (
        select(campaign.c.id, granted.label("granted"))
        .outerjoin(coupon, coupon.c.campaign_id == campaign.c.id)
        .where((f"{accounts.STOCK}:" + campaign.c.id).not_in(stocks), campaign.c.kind == "coupon")
        .group_by(campaign.c.id)
        .order_by(campaign.c.id)
    )
    rows = iter(_stream(conn, statement))
    for number, row in enumerate(rows):
        if limit is not None and number == limit:
            yield f"campaign without limit: and {1 + sum(1 for _ in rows)} more"
            return
        yield f"campaign {row.id}: without limit, granted {row.granted}"


# ------------------------------------------------------------------ violations


def _violations(conn: Connection) -> Iterator[tuple[str, Iterator[Violation]]]:
    yield "database_file", _file(conn)
    yield "dangling_reference", _references(conn)
    for kind, statement in checks():
        yield kind, _rows_of(conn, kind, statement)
    yield from _ledgers(conn)


def _file(conn: Connection) -> Iterator[Violation]:
    """Let the database look at itself."""
    for problem in portable.broken_parts(conn):
        yield Violation("database_file", "integrity", {"problem": problem})


def _references(conn: Connection) -> Iterator[Violation]:
    """Find rows whose parent is gone."""
    for table, row, parent in portable.dangling_rows(conn):
        yield Violation("dangling_reference", f"{table}/{row}", {"parent": parent})


def _rows_of(conn: Connection, kind: str, statement: Select[Any]) -> Iterator[Violation]:
    # A savepoint: PostgreSQL refuses whatever comes behind an error, until one goes back before it.
    before = conn.begin_nested()
    try:
        for row in _stream(conn, statement):
            facts = dict(row._mapping)
            yield Violation(kind, str(facts.pop("subject")), facts)
    except DBAPIError as error:
        # What cannot be read proves nothing (broken JSON in a column, say), and must not hide the checks behind it.
        before.rollback()
        yield Violation(kind, "cannot be checked", {"error": str(error.orig).partition("\n")[0]})
    else:
        before.commit()


def _stream(conn: Connection, statement: Select[Any]) -> Iterator[Row[Any]]:
    # Not options of the statement: those make a new one, whose key in the cache has to be found anew.
    yield from conn.execute(statement, execution_options={"yield_per": 1000})


@dataclass(slots=True)
class _Tally:
    """Add up sales or refunds. `mark` stands for which they are: as many others of the same sum have another."""

    number: int = 0
    minor: int = 0
    mark: int = 0

    def add(self, name: str, minor: int) -> None:
        """Count one, by the order's or the request's id."""
        self.number, self.minor = self.number + 1, self.minor + minor
        self.mark ^= int.from_bytes(hashlib.sha256(f"{name} {minor}".encode()).digest()[:8], "big")


_Tallies = defaultdict[tuple[str, str], _Tally]
"""By till, and "sales" or "refunds"."""


def _ledgers(conn: Connection) -> Iterator[tuple[str, Iterator[Violation]]]:
    """Read every ledger once: chained without a gap up to what is acknowledged, and told as it is booked."""
    told = _Tallies(_Tally)
    yield "ledger_chain", _chains(conn, told)
    yield "ledger_booked", _booked(conn, told)


def _chains(conn: Connection, told: _Tallies) -> Iterator[Violation]:
    entries = _stream(
        conn, select(ledger_entry).order_by(ledger_entry.c.till_id, ledger_entry.c.epoch, ledger_entry.c.seq)
    )
    ends: dict[tuple[str, int], tuple[int, bytes]] = {}
    for (till_id, epoch), rows in groupby(entries, key=lambda row: (row.till_id, row.epoch)):
        seq, before = 0, genesis(till_id, epoch)
        for row in rows:
            _add(told, row)
            if row.seq != seq + 1:
                yield Violation(
                    "ledger_chain", f"{till_id}/{epoch}/{row.seq}", {"missing": f"{seq + 1}..{row.seq - 1}"}
                )
            elif not isinstance(row.body, bytes) or not verifies(_entry(row, before), till_id):
                yield Violation("ledger_chain", f"{till_id}/{epoch}/{row.seq}", {"hash": "does not verify"})
            seq, before = row.seq, row.hash
        ends[till_id, epoch] = (seq, before)
    for row in conn.execute(select(till).order_by(till.c.id)):
        end = ends.get((row.id, row.epoch), (0, None))
        if end != (row.acked_seq, row.acked_hash):
            yield Violation("ledger_chain", f"{row.id}/{row.epoch}", {"acked": row.acked_seq, "stored": end[0]})


def _entry(row: Row[Any], before: bytes) -> Entry:
    return Entry(row.epoch, row.seq, true_entry_id(row.entry_id), row.kind, row.schema, row.body, before, row.hash)


def _add(told: _Tallies, row: Row[Any]) -> None:
    if row.result == QUARANTINED or row.detail.partition(" ")[0] in NOT_BOOKED or is_elsewhere(row.entry_id):
        return
    try:
        fact = carried(read_body(CARRY, row.schema, row.body), row.till_id) if row.kind == CARRY else row
        body = read_body(fact.kind, fact.schema, fact.body) if fact.kind in (SALE, REFUND) else None
    except ValueError:
        return
    if body is None:
        return
    if fact.kind == SALE:
        told[row.till_id, "sales"].add(body["order"], paid_minor(body["tenders"]))
    else:
        told[row.till_id, "refunds"].add(body["refund"], body["body"]["amount_minor"])


def _booked(conn: Connection, told: _Tallies) -> Iterator[Violation]:
    """Compare, till by till, what the ledger tells with what is in the books: nothing lost, nothing invented."""
    books = _Tallies(_Tally)
    sold = select(orders.c.till_id, orders.c.id, orders.c.payable_minor).where(orders.c.state.in_(SOLD))
    for row in _stream(conn, sold):
        books[row.till_id, "sales"].add(row.id, row.payable_minor)
    back = select(ledger_entry.c.till_id, refund.c.id, refund.c.amount_minor).join(
        refund, refund.c.entry_id == ledger_entry.c.entry_id
    )
    for row in _stream(conn, back):
        books[row.till_id, "refunds"].add(row.id, row.amount_minor)
    for till_id, what in sorted({*told, *books}):
        ledger, book = told[till_id, what], books[till_id, what]
        if ledger != book:
            facts = {
                "ledger": ledger.number,
                "ledger_minor": ledger.minor,
                "books": book.number,
                "books_minor": book.minor,
            }
            yield Violation("ledger_booked", f"{till_id} {what}", facts)
