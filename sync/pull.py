"""Fetch what the server published and keep it together with the cursor, page by page."""

import sqlite3
from dataclasses import dataclass

from app.domain.ports import Step
from app.services.ports import Offline
from app.store import feed, meta
from sync.client import Misunderstood
from sync.protocol import PROTOCOL, PULL_PATH, FeedRecord, Pull, PullAnswer
from sync.session import Session


@dataclass(frozen=True, slots=True)
class Pulled:
    """Count the records that came; `skipped` are of kinds that this version does not know."""

    records: int = 0
    skipped: int = 0


def pull(session: Session) -> Pulled:
    """Pull until there is no more. Each page and its cursor are one transaction; the cursor never goes back.

    Raises Offline and Busy.
    """
    records = skipped = 0
    first: int | None = None
    while True:
        with session.db.read() as conn:
            cursor = meta.load(conn).cursor
        first = cursor if first is None else first
        answer = session.client.exchange(PULL_PATH, Pull(proto=PROTOCOL, till=session.till, cursor=cursor), PullAnswer)
        if answer.next < cursor or answer.since not in (None, cursor):
            # A copy of another page: what lies between that one and our cursor would be passed over.
            raise Offline("stale_answer")
        if answer.more and answer.next == cursor:
            raise Misunderstood("no_progress")
        # A record at or below the cursor is a copy of an older page: it would put an older state over a newer one.
        fresh = [record for record in answer.records if cursor < record.seq <= answer.next]
        if answer.next > cursor:
            skipped += _apply(session, fresh, answer.next)
            records += len(fresh)
        session.progress(Step.FETCH, answer.next - first, max(0, answer.head - first))
        if not answer.more:
            return Pulled(records, skipped)


def _apply(session: Session, records: list[FeedRecord], cursor: int) -> int:
    """Store one page, whole or not at all; return how many of its records are of unknown kinds."""
    try:
        with session.db.write() as tx:
            return feed.apply(tx, records, cursor)
    except (KeyError, TypeError, ValueError, sqlite3.IntegrityError):
        # The server's bug. Passing the record over would leave this till with an old price and no sign of it.
        raise Misunderstood("bad_record") from None
