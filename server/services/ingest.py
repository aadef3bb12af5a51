"""Take a till's entries in: verify the chain, keep every byte, judge what happened (PROTOCOL 3.2 to 3.4).

One batch is one transaction. An entry is never refused for what it says; only a number or hash that does not continue
the chain stops the batch, at a prefix. Plain sales, nearly all of a batch, are judged in memory against what a few IN
queries fetched and written together; whatever is unusual is judged one by one, each in a savepoint, so that a bug
parks one entry and never the queue.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, NestedTransaction, Row, bindparam, select, update
from sqlalchemy.exc import DBAPIError

from app.domain.ledger import CARRY, Entry, carried
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.db.bulk import BulkInsert, Present
from server.db.schema import carried_entry, ledger_entry, orders, product, till
from server.db.trouble import trouble_of
from server.services import epochs, evidence, ledgers, revoked
from server.services.context import Context
from server.services.entries import SaleBody, read_body, sums_problem
from server.services.feed import touch
from server.services.feed_records import LIVE_ORDER_STATES
from server.services.judging import judge
from server.services.ledgers import ANNOUNCE, EPOCH, FORK, GAP
from server.services.rights import LostRace, budgeted
from server.services.sales import Rows, known_member_records, member_of, uses_rights
from server.services.verdicts import IN_ORDER, MENDED_BY_OTHERS, Told, Verdict, conflict, detail_of, quarantine
from sync import protocol
from sync.protocol import EntryResult, Push, PushAnswer

_ORDERS, _SKUS = Present(orders.c.id), Present(product.c.sku)
_ENTRY_IDS, _CARRIED_IDS = Present(ledger_entry.c.entry_id), Present(carried_entry.c.entry_id)
_MEMBERS_WITH_ORDERS = Present(orders.c.member_id, orders.c.state.in_(LIVE_ORDER_STATES))
_ENTRIES = BulkInsert(ledger_entry, *ledger_entry.c.keys())
_CARRIED = BulkInsert(carried_entry, *carried_entry.c.keys())
_TILL = select(till).where(till.c.id == bindparam("of"))
_TILL_NOW = update(till).where(till.c.id == bindparam("of"))


def push(conn: Connection, context: Context, message: Push) -> PushAnswer | Refusal:
    """Take a batch in and acknowledge a prefix.

    `error`: EPOCH (the till was enrolled anew elsewhere), FORK (this ledger and the one that we hold, or that was
    announced, are not one: a finding, and nothing more is taken from this till until it is enrolled anew), ANNOUNCE
    (nothing is taken before the till has shown that it goes on from the announced tail, and has met us where we came
    back from a backup since), GAP (the batch does not continue at `acked`, or its chain is broken there), else "".
    `results` has one row for each entry that is in the books. `not_allowed` where a revoked till tells too much.
    """
    row = conn.execute(_TILL, {"of": message.till}).one_or_none()
    if row is None:
        return unknown("till", message.till)
    acked = ledgers.mark_of(row)
    if row.epoch != message.epoch:
        return PushAnswer(acked=acked, error=EPOCH)
    if row.state == FORK:
        return PushAnswer(acked=acked, error=FORK, epoch=row.epoch)
    if message.incarnation not in (0, context.chain.incarnation) and not revoked.is_held(context):
        # A till that did not notice: its rights are taken over at its greeting, before the entries that use them.
        return PushAnswer(acked=acked, error=ANNOUNCE, epoch=row.epoch)
    repeats = [entry for entry in message.entries if entry.seq <= row.acked_seq]
    results = ledgers.recognise(conn, row, repeats)
    tail = ledgers.compare_tail(row, message)
    if results is None or tail == FORK:
        ledgers.open_fork(conn, context, row, message=message)
        return PushAnswer(acked=acked, error=FORK, epoch=row.epoch)
    if tail == ANNOUNCE:
        return PushAnswer(acked=acked, results=results, error=ANNOUNCE, epoch=row.epoch)
    fresh, broken = ledgers.follow(row, [entry for entry in message.entries if entry.seq > row.acked_seq])
    if broken is not None:
        ledgers.open_broken(conn, context, row, entry=broken)
    if revoked.is_held(context) and not revoked.has_room(conn, row.id, fresh):
        return refuse(RefusalCode.NOT_ALLOWED, reason="till_revoked")
    results += _take_in(conn, context, row, fresh=fresh)
    if fresh:
        acked = (fresh[-1].seq, fresh[-1].hash.hex())
        here = {"acked_seq": fresh[-1].seq, "acked_hash": fresh[-1].hash, "last_seen_at": context.now}
        conn.execute(_TILL_NOW, {"of": row.id, **here})
    whole = len(repeats) + len(fresh) == len(message.entries)
    return PushAnswer(acked=acked, results=results, error="" if whole else GAP, epoch=row.epoch)


def judge_again(conn: Connection, context: Context, stored: Row[Any]) -> Verdict:
    """Judge an entry in quarantine as if it had come now, and keep what comes of it; QUARANTINED = it stays there.

    `stored` is its row of `ledger_entry`. The bytes and the place stay as they are: only the verdict is another.
    """
    entry_id = ledgers.true_entry_id(stored.entry_id)
    entry = Entry(stored.epoch, stored.seq, entry_id, stored.kind, stored.schema, stored.body, b"", stored.hash)
    row = conn.execute(_TILL, {"of": stored.till_id}).one()
    item = _read(context, row, entry)
    if item.unreadable:
        return quarantine(conn, item.told, item.unreadable)
    batch = _Batch(_look_up(conn, [item]))
    fresh = item.carried if item.carried is not None and not _carries(conn, row.id, entry) else None
    if ledgers.is_elsewhere(stored.entry_id) or (fresh is not None and fresh.entry_id in batch.known.entry_ids):
        batch.elsewhere.add(entry.seq)
    verdict = _told_before(conn, item) if batch.elsewhere else _judge_alone(conn, context, item)
    if verdict.result == protocol.QUARANTINED:
        return verdict
    batch.verdicts[entry.seq] = verdict
    _tell_members(conn, [item], batch)
    place = (ledger_entry.c.till_id == row.id, ledger_entry.c.epoch == entry.epoch, ledger_entry.c.seq == entry.seq)
    kept_as = ledgers.id_elsewhere(row.id, entry) if batch.elsewhere else stored.entry_id
    told = {"result": verdict.result, "detail": detail_of(verdict), "entry_id": kept_as}
    conn.execute(update(ledger_entry).where(*place).values(told))
    if fresh is not None:
        _CARRIED.run(conn, [] if batch.elsewhere else [_carried_row(row.id, entry, fresh)])
    if item.carried is not None:
        # Of a revoked till nothing counts as heard before a person has it judged.
        epochs.heard(conn, row.id, [item.carried], now=context.now)
    return verdict


def _carries(conn: Connection, till_id: str, entry: Entry) -> bool:
    """Tell whether what an entry carries was known when that came."""
    place = (
        carried_entry.c.till_id == till_id,
        carried_entry.c.in_epoch == entry.epoch,
        carried_entry.c.in_seq == entry.seq,
    )
    return conn.execute(select(carried_entry.c.entry_id).where(*place)).first() is not None


# ------------------------------------------------------------------ the batch


@dataclass(frozen=True, slots=True)
class _Item:
    """Hold one entry, its body as read, or why it cannot be read.

    Of one that carries another, `carried` is that, and kind (`told`) and body are its own.
    """

    entry: Entry
    told: Told
    body: Any
    unreadable: str = ""
    carried: Entry | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids under which it may be in the books."""
        return (self.entry.entry_id, *((self.carried.entry_id,) if self.carried else ()))


@dataclass(slots=True)
class _Known:
    """Hold what the batch needs to know of the books, fetched by a few IN queries."""

    order_ids: set[str]
    skus: set[str]
    budgeted: set[str]
    entry_ids: set[str]
    members_before: set[str]


@dataclass(slots=True)
class _Batch:
    """Hold the batch while it is judged.

    `waiting` sales are written together before anything unusual looks; `elsewhere` are the numbers of entries whose id
    stands in another place of the books.
    """

    known: _Known
    waiting: list[_Item] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    elsewhere: set[int] = field(default_factory=set)


def _take_in(conn: Connection, context: Context, row: Row[Any], *, fresh: Sequence[Entry]) -> list[EntryResult]:
    """Judge and book the entries; returns their results in order."""
    if not fresh:
        return []
    items = [_read(context, row, entry) for entry in fresh]
    batch = _Batch(_look_up(conn, items))
    if revoked.is_held(context):
        _hold(conn, context, items, batch=batch)
    else:
        _judge(conn, context, items, batch=batch)
    _keep(conn, context, row, items=items, batch=batch)
    if not revoked.is_held(context):
        epochs.heard(conn, row.id, [item.carried for item in items if item.carried], now=context.now)
    return [
        EntryResult(seq=item.entry.seq, result=verdict.result, code=verdict.code, finding=verdict.finding)
        for item, verdict in ((item, batch.verdicts[item.entry.seq]) for item in items)
    ]


def _hold(conn: Connection, context: Context, items: Sequence[_Item], *, batch: _Batch) -> None:
    """Let every entry wait for a person, also one whose id is in the books: each finding would be one more to read."""
    verdict = revoked.hold(conn, context, [(item.told, item.entry, item.body) for item in items])
    for item in items:
        batch.verdicts[item.entry.seq] = verdict
        if not batch.known.entry_ids.isdisjoint(item.ids):
            batch.elsewhere.add(item.entry.seq)
        batch.known.entry_ids.update(item.ids)


def _judge(conn: Connection, context: Context, items: Sequence[_Item], *, batch: _Batch) -> None:
    """Judge every entry, plain sales together, and tell whose first order it was."""
    for item in items:
        if not batch.known.entry_ids.isdisjoint(item.ids):
            batch.verdicts[item.entry.seq] = _told_before(conn, item)
            batch.elsewhere.add(item.entry.seq)
            continue
        batch.known.entry_ids.update(item.ids)
        if item.unreadable:
            batch.verdicts[item.entry.seq] = quarantine(conn, item.told, item.unreadable)
        elif _is_plain(item, batch.known):
            batch.known.order_ids.add(item.body["order"])
            batch.waiting.append(item)
        else:
            _write_waiting(conn, context, batch)
            batch.verdicts[item.entry.seq] = _judge_alone(conn, context, item)
    _write_waiting(conn, context, batch)
    _tell_members(conn, items, batch)


def _read(context: Context, row: Row[Any], entry: Entry) -> _Item:
    inner: Entry | None = None
    try:
        inner = carried(read_body(CARRY, entry.schema, entry.body), row.id) if entry.kind == CARRY else None
        fact = inner or entry
        body, problem = read_body(fact.kind, fact.schema, fact.body), ""
    except ValueError as why:
        body, problem = None, str(why)
    kind = inner.kind if inner else entry.kind
    told = Told(
        row.id,
        entry.epoch,
        entry.seq,
        entry_id=entry.entry_id,
        kind=kind,
        now=context.now,
        carried=inner is not None,
        restoring=context.chain.restoring,
    )
    return _Item(entry, told, body, unreadable=problem, carried=inner)


def _look_up(conn: Connection, items: Sequence[_Item]) -> _Known:
    sales: list[SaleBody] = [item.body for item in items if item.told.kind == protocol.SALE and item.body]
    ids = {name for item in items for name in item.ids}
    members = {member for sale in sales if (member := member_of(sale)) is not None}
    campaigns = {stage["campaign"] for sale in sales for stage in sale["quote"]["laid"]}
    return _Known(
        order_ids=_ORDERS.among(conn, {sale["order"] for sale in sales}),
        skus=_SKUS.among(conn, {line["sku"] for sale in sales for line in sale["lines"]}),
        budgeted=budgeted(conn, campaigns),
        entry_ids=_ENTRY_IDS.among(conn, ids) | _CARRIED_IDS.among(conn, ids),
        members_before=_MEMBERS_WITH_ORDERS.among(conn, members),
    )


def _is_plain(item: _Item, known: _Known) -> bool:
    """Tell whether the entry is a sale that nobody else may know of, that draws on nothing and adds up."""
    if item.told.kind != protocol.SALE:
        return False
    sale: SaleBody = item.body
    return (
        not sale["held"]
        and sale["order"] not in known.order_ids
        and all(line["sku"] in known.skus for line in sale["lines"])
        and not uses_rights(sale, known.budgeted)
        and sums_problem(sale) is None
    )


def _write_waiting(conn: Connection, context: Context, batch: _Batch) -> None:
    """Write the waiting sales together. Should that fail, each is judged by itself, and the culprit parks alone."""
    if not batch.waiting:
        return
    savepoint = conn.begin_nested()
    try:
        rows = Rows()
        for item in batch.waiting:
            rows.add_sale(item.body, item.told)
        rows.flush(conn)
    except Exception as error:
        _undo(savepoint, error)
        for item in batch.waiting:
            batch.verdicts[item.entry.seq] = _judge_alone(conn, context, item)
    else:
        savepoint.commit()
        batch.verdicts.update({item.entry.seq: IN_ORDER for item in batch.waiting})
    batch.waiting.clear()


def _judge_alone(conn: Connection, context: Context, item: _Item) -> Verdict:
    """Judge one entry in a savepoint: a bug of ours parks this entry, with its reason, and blocks nothing behind it.

    While the tills tell again what a backup lacks, one that lacks what another may tell waits there for that.
    Raises LostRace for a quicker rival: that is no fault of the entry, and the till sends the batch again.
    """
    savepoint = conn.begin_nested()
    try:
        verdict = judge(conn, context, item.told, body=item.body)
    except LostRace:
        savepoint.rollback()
        raise
    except Exception as bug:
        _undo(savepoint, bug)
        return quarantine(conn, item.told, f"{type(bug).__name__}: {bug}")
    if context.waits and verdict.code in MENDED_BY_OTHERS:
        savepoint.rollback()
        return quarantine(conn, item.told, f"restoring: {verdict.code}")
    savepoint.commit()
    return verdict


def _undo(savepoint: NestedTransaction, error: Exception) -> None:
    """Undo what was written since; raises the error again where it is the database's (a full disk) and no entry's.

    The transaction may be gone by then, and the savepoint with it: SQLite undoes some errors by itself.
    """
    if not savepoint.is_active:
        raise error
    if trouble_of(error) is None:
        savepoint.rollback()
        return
    with suppress(DBAPIError):
        savepoint.rollback()
    raise error


def _told_before(conn: Connection, item: _Item) -> Verdict:
    """Park an entry whose id is in the books at another place: it is the same action, so it is not booked twice.

    One that was carried though it is here, byte for byte, is in order: the till had not heard of it.
    """
    entry, told = item.entry, item.told
    if item.carried is not None and _is_here(conn, told.till_id, item.carried):
        return IN_ORDER
    key = f"{told.till_id}/{told.epoch}/{told.seq}"
    detail = {"entry": entry.entry_id, "hash": entry.hash.hex(), "here": evidence.of_entry(conn, entry.entry_id)}
    return conflict(conn, told, "duplicate_entry", key=key, detail=detail)


def _is_here(conn: Connection, till_id: str, entry: Entry) -> bool:
    """Tell whether exactly this entry of that till is in the books, as it came or carried."""
    for table in (ledger_entry, carried_entry):
        same = (table.c.entry_id == entry.entry_id, table.c.till_id == till_id, table.c.hash == entry.hash)
        if conn.execute(select(table.c.entry_id).where(*same)).first() is not None:
            return True
    return False


def _tell_members(conn: Connection, items: Iterable[_Item], batch: _Batch) -> None:
    """Move the members in the feed whose first order this batch brought; for the others nothing changed."""
    first = {
        member
        for item in items
        if item.told.kind == protocol.SALE and item.body and batch.verdicts[item.entry.seq] is IN_ORDER
        if (member := member_of(item.body)) is not None and member not in batch.known.members_before
    }
    if first:
        touch(conn, known_member_records(conn, first))


def _keep(conn: Connection, context: Context, row: Row[Any], *, items: Sequence[_Item], batch: _Batch) -> None:
    """Keep every entry as it came, with its verdict."""
    rows = []
    for item in items:
        entry, verdict = item.entry, batch.verdicts[item.entry.seq]
        entry_id = ledgers.id_elsewhere(row.id, entry) if entry.seq in batch.elsewhere else entry.entry_id
        rows.append(
            (
                row.id,
                entry.epoch,
                entry.seq,
                entry_id,
                entry.kind,
                entry.schema,
                entry.body,
                entry.hash,
                verdict.result,
                detail_of(verdict),
                context.now,
            )
        )
    _ENTRIES.run(conn, rows)
    fresh = [item for item in items if item.carried is not None and item.entry.seq not in batch.elsewhere]
    _CARRIED.run(conn, [_carried_row(row.id, item.entry, item.carried) for item in fresh if item.carried])


def _carried_row(till_id: str, entry: Entry, inner: Entry) -> tuple[Any, ...]:
    return (inner.entry_id, till_id, inner.epoch, inner.seq, inner.hash, entry.epoch, entry.seq)
