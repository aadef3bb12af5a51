"""Tell the tills what changed: one feed row for each record, moved to the end when the record changes.

Every write that changes a record touches its row in the same transaction, and the one writer numbers rows in commit
order, so a reader that saw number n has seen everything below n. Records are built when they are read: a till pulls
the state, never the past. Shapes: `server/services/feed_records.py`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import ARRAY, Connection, Text, bindparam, delete, func, insert, select

from server.db.bulk import BulkInsert
from server.db.schema import feed, till
from server.services.feed_records import LEASE, READERS, RISK, STAFF
from sync.protocol import FeedRecord, PullAnswer

_NEW = BulkInsert(feed, "kind", "key")
_KEYS = func.unnest(bindparam("keys", type_=ARRAY(Text))).column_valued("key")
_APPENDED = (
    insert(feed).from_select(["kind", "key"], select(bindparam("kind", type_=Text), _KEYS)).returning(feed.c.seq)
)
"""One message to PostgreSQL and one back, where COPY and the question for the head are four."""
_MOVED = delete(feed).where(feed.c.kind == bindparam("of"), feed.c.key == bindparam("name"))
_HEAD = select(feed.c.seq).order_by(feed.c.seq.desc()).limit(1)
_PAGE = (
    select(feed.c.seq, feed.c.kind, feed.c.key)
    .where(feed.c.seq > bindparam("cursor"))
    .order_by(feed.c.seq)
    .limit(bindparam("most"))
)


def touch(conn: Connection, records: Iterable[tuple[str, str]]) -> None:
    """Move the records, each (kind, key), to the end of the feed; one that is new is appended."""
    keys = list(dict.fromkeys(records))
    assert all(kind in READERS for kind, _ in keys), "a record of a kind that nobody can read"
    if keys:
        conn.execute(_MOVED, [{"of": kind, "name": key} for kind, key in keys])
        _NEW.run(conn, keys)


def append(conn: Connection, kind: str, keys: Sequence[str]) -> int:
    """Append records that were made in this transaction, and return the number of the last.

    One that the feed knows already is an IntegrityError.
    """
    assert kind in READERS, "a record of a kind that nobody can read"
    if conn.dialect.name == "postgresql":
        numbers: list[int] = list(conn.execute(_APPENDED, {"kind": kind, "keys": list(keys)}).scalars())
        return max(numbers)
    _NEW.run(conn, [(kind, key) for key in keys])
    return head(conn)


def page(conn: Connection, cursor: int, limit: int, *, till_id: str | None = None) -> PullAnswer:
    """Return up to `limit` records after `cursor` as they stand now; a record that is gone is None.

    What is one till's alone is left out but for `till_id`: its leases (a leased stock has codes that are nobody else's
    business) and its risk budget. Staff of another store are gone for it: where somebody moves, the verifier goes too.
    """
    rows = conn.execute(_PAGE, {"cursor": cursor, "most": limit + 1}).all()
    shown = rows[:limit]
    wanted: dict[str, list[str]] = defaultdict(list)
    for row in shown:
        wanted[row.kind].append(row.key)
    found = {kind: READERS[kind](conn, keys) for kind, keys in wanted.items()}
    store_id = _store_of(conn, till_id) if STAFF in wanted else None
    records = []
    for row in shown:
        record = found[row.kind].get(row.key)
        if row.kind in (LEASE, RISK) and (record is None or record["till"] != till_id):
            continue
        if row.kind == STAFF and record is not None and record["store"] not in (None, store_id):
            record = None
        records.append(FeedRecord(seq=row.seq, kind=row.kind, key=row.key, record=record))
    after, more = shown[-1].seq if shown else cursor, len(rows) > limit
    end = head(conn) if more else after
    return PullAnswer(records=records, next=after, more=more, since=cursor, head=end)


def _store_of(conn: Connection, till_id: str | None) -> str | None:
    return conn.execute(select(till.c.store_id).where(till.c.id == till_id)).scalar_one_or_none()


def head(conn: Connection) -> int:
    """Return the number of the newest feed row, 0 when there is none."""
    return conn.execute(_HEAD).scalar_one_or_none() or 0
