"""Keep messages that must leave after a commit, in the transaction that they tell of (REQUIREMENTS G3, PROTOCOL 4.2).

Written together with the change, a message is there exactly when the change is: publishing inside of the transaction
would tell of what is then undone, publishing after it would forget what a crash cuts off. A relay sends at least once,
so a consumer must bear a repeat: ours ask the database what is still to do (timely messages), or carry the message's id
to somebody who can tell a repeat (alerts). One whose effect is not idempotent by nature puts the effect and
`idempotency.once` under the message's id into one transaction: that is the inbox.

Every message ends in a state that a person can see: sent, waiting with the reason of the last try, or parked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select, update

from server.db.portable import upsert
from server.db.schema import outbox

TIMELY, ALERT = "timely", "alert"
TOPICS = (TIMELY, ALERT)

WAIT_MAX_S = 900
ATTEMPTS_MAX = 100
"""Tries before a message is parked: about a day, at 1, 2, 4 ... 512, then every 900 s."""
KEPT = timedelta(days=1)
"""How long a sent message keeps its row, so that a repeat of it is known."""
STUCK = timedelta(seconds=60)
"""A message that waits longer than this past its time is a finding (PROTOCOL 9, R3)."""

_WAITING: ColumnElement[bool] = and_(outbox.c.sent_at.is_(None), outbox.c.parked_at.is_(None))


class Undelivered(Exception):
    """Say why a message did not get to its consumer; the text is kept with the message and holds no secret."""


@dataclass(frozen=True, slots=True)
class Message:
    """Tell something to the consumer of a topic.

    `key` is made from what it is about: the same key again is the same message, and is not written twice. `due_at` None
    = at once.
    """

    topic: str
    key: str
    body: Mapping[str, Any] = field(default_factory=dict)
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Hold a message that is due; `attempts` counts the tries that failed."""

    id: int
    topic: str
    key: str
    body: Mapping[str, Any]
    created_at: datetime
    attempts: int


@dataclass(frozen=True, slots=True)
class Lag:
    """Say how far a topic is behind: messages past their time, and for how long the oldest has been (seconds)."""

    topic: str
    waiting: int
    oldest_s: float


def put(conn: Connection, messages: Sequence[Message], now: datetime) -> None:
    """Write the messages; one that is known stays as it is, sent or not."""
    if not messages:
        return
    assert all(message.topic in TOPICS for message in messages), "a message that nobody reads"
    rows = [
        {
            "topic": message.topic,
            "key": message.key,
            "body": dict(message.body),
            "created_at": now,
            "due_at": message.due_at or now,
            "next_at": message.due_at or now,
        }
        for message in messages
    ]
    conn.execute(_insert_new(conn), rows)


def _insert_new(conn: Connection) -> Any:
    # Built once: it costs more than the database takes to see that the message is there already.
    known = _PREPARED.get(conn.dialect.name)
    if known is None:
        known = upsert(conn, outbox).on_conflict_do_nothing(index_elements=["topic", "key"])
        _PREPARED[conn.dialect.name] = known
    return known


_PREPARED: dict[str, Any] = {}


def due(conn: Connection, topic: str, now: datetime, *, limit: int) -> list[Waiting]:
    """Return up to `limit` messages of the topic that are to be sent now, those that wait longest first."""
    rows = conn.execute(
        select(outbox)
        .where(outbox.c.topic == topic, _WAITING, outbox.c.next_at <= now)
        .order_by(outbox.c.next_at, outbox.c.id)
        .limit(limit)
    )
    return [Waiting(row.id, row.topic, row.key, row.body, row.created_at, row.attempts) for row in rows]


def mark_sent(conn: Connection, ids: Sequence[int], now: datetime) -> None:
    """Remember that the messages are out."""
    if ids:
        conn.execute(update(outbox).where(outbox.c.id.in_(ids)).values(sent_at=now, error=""))


def mark_failed(conn: Connection, failed: Waiting, *, reason: str, now: datetime) -> bool:
    """Put the next try off, or park the message after the last one; tells whether it is parked. `reason` is shown."""
    attempts = failed.attempts + 1
    parked = attempts >= ATTEMPTS_MAX
    wait_s = min(2 ** min(failed.attempts, 30), WAIT_MAX_S)
    conn.execute(
        update(outbox)
        .where(outbox.c.id == failed.id, _WAITING)
        .values(
            attempts=attempts,
            error=reason[:500],
            next_at=now + timedelta(seconds=wait_s),
            parked_at=now if parked else None,
        )
    )
    return parked


def lags(conn: Connection, now: datetime) -> list[Lag]:
    """Return how far each topic is behind, those without any message too."""
    lags: list[Lag] = []
    for topic in TOPICS:
        row = conn.execute(
            select(func.count().label("waiting"), func.min(outbox.c.due_at).label("oldest_at")).where(
                *_late(topic, now)
            )
        ).one()
        oldest_s = (now - row.oldest_at).total_seconds() if row.waiting else 0.0
        lags.append(Lag(topic, row.waiting, oldest_s))
    return lags


def _late(topic: str, now: datetime) -> Sequence[ColumnElement[bool]]:
    # Those that failed wait behind now, but not for long: the index ends there, and a year of messages is not read.
    tried = outbox.c.next_at <= now + timedelta(seconds=WAIT_MAX_S)
    return outbox.c.topic == topic, _WAITING, tried, outbox.c.due_at <= now


def oldest(conn: Connection, topic: str, now: datetime) -> dict[str, Any]:
    """Return the late message of the topic that is oldest, as evidence; a body is not shown."""
    row = conn.execute(
        select(outbox).where(*_late(topic, now)).order_by(outbox.c.due_at, outbox.c.id).limit(1)
    ).one_or_none()
    if row is None:
        return {}
    return {"key": row.key, "due_at": row.due_at.isoformat(), "attempts": row.attempts, "error": row.error}


def pull_back(conn: Connection, now: datetime) -> int:
    """Make due what waits longer than any wait that we set: a clock was wrong when its try failed; returns how many."""
    wrong = and_(_WAITING, outbox.c.attempts > 0, outbox.c.next_at > now + timedelta(seconds=WAIT_MAX_S))
    return conn.execute(update(outbox).where(wrong).values(next_at=now)).rowcount


def forget_sent(conn: Connection, now: datetime, *, limit: int) -> int:
    """Delete up to `limit` messages that were sent long ago; returns how many."""
    old = select(outbox.c.id).where(outbox.c.sent_at < now - KEPT).order_by(outbox.c.id).limit(limit)
    return conn.execute(delete(outbox).where(outbox.c.id.in_(old.scalar_subquery()))).rowcount
