"""Take a till's entries in: verify the chain, keep every byte, judge what happened (PROTOCOL 3.2 to 3.4).

One batch is one transaction. An entry is never refused for what it says; only a number or hash that does not continue
the chain stops the batch, at a prefix. Plain sales, nearly all of a batch, are judged in memory against what a few IN
queries fetched and written together; whatever is unusual is judged one by one, each in a savepoint, so that a bug
parks one entry and never the queue.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, NestedTransaction, Row, bindparam, select, update
from sqlalchemy.exc import DBAPIError

from app.domain.ledger import CARRY, Entry, carried, genesis, verifies
from app.domain.refusals import Refusal, unknown
from app.domain.states import OrderEvent
from server.db.bulk import BulkInsert, Present
from server.db.schema import carried_entry, ledger_entry, orders, product, till
from server.db.trouble import trouble_of
from server.services import epochs, findings
from server.services import orders as order_service
from server.services.context import Context
from server.services.entries import SaleBody, read_body, sums_problem
from server.services.feed import touch
from server.services.feed_records import LIVE_ORDER_STATES
from server.services.given_out import judge_claim
from server.services.homes import judge_return
from server.services.leases import judge_close
from server.services.refunds import judge_refund
from server.services.rights import LostRace, budgeted
from server.services.sales import Rows, judge_late_payment, judge_sale, known_member_records, member_of, uses_rights
from server.services.staff import judge_approval
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict, quarantine
from sync import protocol
from sync.protocol import EntryResult, Mark, Push, PushAnswer, PushedEntry

GAP, FORK, EPOCH, ANNOUNCE = "GAP", "FORK", "EPOCH", "ANNOUNCE"
_ORDERS, _SKUS = Present(orders.c.id), Present(product.c.sku)
_ENTRY_IDS, _CARRIED_IDS = Present(ledger_entry.c.entry_id), Present(carried_entry.c.entry_id)
_MEMBERS_WITH_ORDERS = Present(orders.c.member_id, orders.c.state.in_(LIVE_ORDER_STATES))
_ENTRIES = BulkInsert(ledger_entry, *ledger_entry.c.keys())
_CARRIED = BulkInsert(carried_entry, *carried_entry.c.keys())
_TILL = select(till).where(till.c.id == bindparam("of"))
_TILL_NOW = update(till).where(till.c.id == bindparam("of"))
EVIDENCE_MAX = 20
"""Entries of each side that a fork shows, from where they part."""
_OTHER_PLACE = "\n"
"""Divides an entry's id from its place where the same id stands in another place of the books already."""


def push(conn: Connection, context: Context, message: Push) -> PushAnswer | Refusal:
    """Take a batch in and acknowledge a prefix.

    `error`: EPOCH (the till was enrolled anew elsewhere), FORK (this ledger and the one that we hold, or that was
    announced, are not one: a finding, and nothing more is taken from this till until it is enrolled anew), ANNOUNCE
    (nothing is taken before the till has shown that it goes on from the announced tail), GAP (the batch does not
    continue at `acked`, or its chain is broken there), else "". `results` has one row for each entry that is in the
    books.
    """
    row = conn.execute(_TILL, {"of": message.till}).one_or_none()
    if row is None:
        return unknown("till", message.till)
    acked = mark_of(row)
    if row.epoch != message.epoch:
        return PushAnswer(acked=acked, error=EPOCH)
    if row.state == FORK:
        return PushAnswer(acked=acked, error=FORK, epoch=row.epoch)
    repeats = [entry for entry in message.entries if entry.seq <= row.acked_seq]
    results = _known(conn, row, repeats)
    tail = _compare_tail(row, message)
    if results is None or tail == FORK:
        _fork(conn, context, row, message=message)
        return PushAnswer(acked=acked, error=FORK, epoch=row.epoch)
    if tail == ANNOUNCE:
        return PushAnswer(acked=acked, results=results, error=ANNOUNCE, epoch=row.epoch)
    fresh, broken = _continue(row, [entry for entry in message.entries if entry.seq > row.acked_seq])
    if broken is not None:
        _open_broken(conn, context, row, entry=broken)
    results += _take_in(conn, context, row, fresh=fresh)
    if fresh:
        acked = (fresh[-1].seq, fresh[-1].hash.hex())
        here = {"acked_seq": fresh[-1].seq, "acked_hash": fresh[-1].hash, "last_seen_at": context.now}
        conn.execute(_TILL_NOW, {"of": row.id, **here})
    whole = len(repeats) + len(fresh) == len(message.entries)
    return PushAnswer(acked=acked, results=results, error="" if whole else GAP, epoch=row.epoch)


def mark_of(row: Row[Any]) -> Mark:
    """Return the place up to which the till's ledger is in the books."""
    return (row.acked_seq, row.acked_hash.hex() if row.acked_hash else "")


def tail_of(row: Row[Any]) -> Mark:
    """Return the end of its ledger that the till announced last."""
    return (row.tail_seq, row.tail_hash.hex() if row.tail_hash else "")


# ------------------------------------------------------------------ the chain


def _known(conn: Connection, row: Row[Any], repeats: Sequence[PushedEntry]) -> list[EntryResult] | None:
    """Answer entries that are in the books: DUP, or the first verdict where it was none; None = another entry."""
    if not repeats:
        return []
    stored = conn.execute(
        select(ledger_entry.c.seq, ledger_entry.c.hash, ledger_entry.c.result, ledger_entry.c.detail).where(
            ledger_entry.c.till_id == row.id,
            ledger_entry.c.epoch == row.epoch,
            ledger_entry.c.seq.in_([entry.seq for entry in repeats]),
        )
    )
    by_seq = {each.seq: each for each in stored}
    results = []
    for entry in repeats:
        first = by_seq.get(entry.seq)
        if first is None or first.hash.hex() != entry.hash:
            return None
        code, _, finding = first.detail.partition(" ")
        result = protocol.DUPLICATE if first.result == protocol.OK else first.result
        results.append(EntryResult(seq=entry.seq, result=result, code=code, finding=finding))
    return results


def _compare_tail(row: Row[Any], message: Push) -> str:
    """Compare the announced tail, number and hash, with what the batch says of the same place, before any of it counts.

    A disk that was rolled back and has sold past its old end would else push the evidence under the books: what it
    sends continues the chain at `acked` and is sound by itself. FORK: it says another hash of that place; ANNOUNCE: it
    says nothing of it; "" = it goes on from there.
    """
    tail = tail_of(row)
    if tail[0] <= row.acked_seq or all(entry.seq <= row.acked_seq for entry in message.entries):
        return ""
    told = {entry.seq: entry.hash for entry in message.entries} | dict([message.last])
    if tail[0] not in told:
        return ANNOUNCE
    return "" if told[tail[0]] == tail[1] else FORK


def _fork(conn: Connection, context: Context, row: Row[Any], *, message: Push) -> None:
    """Stop taking from a till whose ledger is not the one that we hold; the entries of both are kept as evidence."""
    ours = _stored(conn, row, [entry.seq for entry in message.entries])
    apart = [entry for entry in message.entries if entry.seq not in ours or ours[entry.seq].hash != entry.hash]
    shown = apart[:EVIDENCE_MAX]
    strand(
        conn,
        context,
        row,
        kind="ledger_fork",
        told={
            "last": list(message.last),
            "entries": [entry.model_dump() for entry in shown],
            "ours": [ours[entry.seq].model_dump() for entry in shown if entry.seq in ours],
        },
    )


def _stored(conn: Connection, row: Row[Any], numbers: Sequence[int]) -> dict[int, PushedEntry]:
    """Return what the books hold under these numbers, as it came."""
    entry = ledger_entry.c
    rows = conn.execute(
        select(ledger_entry).where(entry.till_id == row.id, entry.epoch == row.epoch, entry.seq.in_(numbers))
    )
    stored = [
        Entry(each.epoch, each.seq, true_entry_id(each.entry_id), each.kind, each.schema, each.body, b"", each.hash)
        for each in rows
    ]
    return {entry.seq: PushedEntry.of(entry) for entry in stored}


def strand(conn: Connection, context: Context, row: Row[Any], *, kind: str, told: Mapping[str, Any]) -> None:
    """Take nothing more from a till whose ledger is not the one that is here, and open a finding with the evidence."""
    conn.execute(update(till).where(till.c.id == row.id).values(state=FORK, last_seen_at=context.now))
    here = {"till": row.id, "epoch": row.epoch, "acked": list(mark_of(row)), "tail": list(tail_of(row))}
    findings.open_finding(
        conn, kind=kind, key=f"{row.id}/{row.epoch}", amount_minor=0, detail={**here, **told}, now=context.now
    )


def _continue(row: Row[Any], pushed: Sequence[PushedEntry]) -> tuple[list[Entry], PushedEntry | None]:
    """Return the entries that continue the chain at `acked`, and the first whose hash does not (None = none such)."""
    seq, before = row.acked_seq, row.acked_hash or genesis(row.id, row.epoch)
    fresh: list[Entry] = []
    for each in pushed:
        if each.seq != seq + 1:
            return fresh, None
        try:
            entry = each.entry(row.epoch, before)
        except ValueError:
            return fresh, each
        if not verifies(entry, row.id):
            return fresh, each
        fresh.append(entry)
        seq, before = entry.seq, entry.hash
    return fresh, None


def _open_broken(conn: Connection, context: Context, row: Row[Any], *, entry: PushedEntry) -> None:
    findings.open_finding(
        conn,
        kind="broken_chain",
        key=f"{row.id}/{row.epoch}/{entry.seq}",
        amount_minor=0,
        detail={"till": row.id, "epoch": row.epoch, "seq": entry.seq, "entry": entry.model_dump()},
        now=context.now,
    )


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
    _keep(conn, context, row, items=items, batch=batch)
    epochs.heard(conn, row.id, [item.carried for item in items if item.carried], now=context.now)
    return [
        EntryResult(seq=item.entry.seq, result=verdict.result, code=verdict.code, finding=verdict.finding)
        for item, verdict in ((item, batch.verdicts[item.entry.seq]) for item in items)
    ]


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

    Raises LostRace for a quicker rival: that is no fault of the entry, and the till sends the batch again.
    """
    savepoint = conn.begin_nested()
    try:
        verdict = _judge(conn, context, item)
    except LostRace:
        savepoint.rollback()
        raise
    except Exception as bug:
        _undo(savepoint, bug)
        return quarantine(conn, item.told, f"{type(bug).__name__}: {bug}")
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


def _judge(conn: Connection, context: Context, item: _Item) -> Verdict:
    told, body = item.told, item.body
    match item.told.kind:
        case protocol.SALE:
            return judge_sale(conn, told, body)
        case protocol.REFUND:
            return judge_refund(conn, context.chain, told, body=body)
        case protocol.CANCEL:
            answer = order_service.cancel(conn, told.attempt(body), reason=body["reason"])
            return _verdict(conn, told, body, answer=answer, event=OrderEvent.CANCEL)
        case protocol.PAYMENT_UNKNOWN:
            answer = order_service.payment_unknown(conn, told.attempt(body))
            return _verdict(conn, told, body, answer=answer, event=OrderEvent.NO_ANSWER)
        case protocol.LATE_PAYMENT:
            return judge_late_payment(conn, told, body)
        case protocol.CLAIM:
            return judge_claim(conn, context, told, body=body)
        case protocol.LEASE_CLOSE:
            return judge_close(conn, context, told, body=body)
        case protocol.COUPON_RETURN:
            return judge_return(conn, context, told, body=body)
        case protocol.APPROVAL:
            return judge_approval(conn, told, body=body)
        case protocol.PIN_FAILED:
            return IN_ORDER
    raise AssertionError(f"read_body reads no {told.kind}")


def _verdict(conn: Connection, told: Told, body: Any, *, answer: dict[str, Any], event: str) -> Verdict:
    """Turn a step that the order does not have into a finding: the till and the server disagree about it."""
    if answer["outcome"] == "ok":
        return IN_ORDER
    detail = {"order": body["order"], "attempt": body["attempt"], "event": str(event), "facts": answer["facts"]}
    return conflict(conn, told, answer["outcome"], key=f"{body['order']}/{told.entry_id}", detail=detail)


def _told_before(conn: Connection, item: _Item) -> Verdict:
    """Park an entry whose id is in the books at another place: it is the same action, so it is not booked twice.

    One that was carried though it is here, byte for byte, is in order: the till had not heard of it.
    """
    entry, told = item.entry, item.told
    if item.carried is not None and _is_here(conn, told.till_id, item.carried):
        return IN_ORDER
    key = f"{told.till_id}/{told.epoch}/{told.seq}"
    return conflict(conn, told, "duplicate_entry", key=key, detail={"entry": entry.entry_id})


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
        place = f"{_OTHER_PLACE}{row.id}/{entry.epoch}/{entry.seq}" if entry.seq in batch.elsewhere else ""
        detail = f"{verdict.code} {verdict.finding}".strip()
        rows.append(
            (
                row.id,
                entry.epoch,
                entry.seq,
                entry.entry_id + place,
                entry.kind,
                entry.schema,
                entry.body,
                entry.hash,
                verdict.result,
                detail,
                context.now,
            )
        )
    _ENTRIES.run(conn, rows)
    fresh = [item for item in items if item.carried is not None and item.entry.seq not in batch.elsewhere]
    _CARRIED.run(conn, [_carried_row(row.id, item.entry, item.carried) for item in fresh if item.carried])


def _carried_row(till_id: str, entry: Entry, inner: Entry) -> tuple[Any, ...]:
    return (inner.entry_id, till_id, inner.epoch, inner.seq, inner.hash, entry.epoch, entry.seq)


def is_elsewhere(stored: str) -> bool:
    """Tell whether the same action stands in the books in another place, and only there."""
    return _OTHER_PLACE in stored


def true_entry_id(stored: str) -> str:
    """Return the id that an entry was given by its till, and by which it was hashed."""
    return stored.partition(_OTHER_PLACE)[0]
