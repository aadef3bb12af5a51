"""Tell a till that was started again from two tills that think they are one (PROTOCOL, R14 and F14).

A copy of a till's disk has its key, its ledger and its numbers, and until both have sold, nothing in the ledgers tells
them apart. What does is who hears what: each greeting is answered with a number that counts up, and the next greeting
of the same run of the program tells it back. A run that ended heard its last answer before its successor said a first
word, however late its messages arrive. So two runs that each heard an answer given after the other's first greeting
are alive at once, where one history counted both: a restore counts anew. No clock is read, and no delay, copy or
restart looks like it.
"""

from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, select, update

from server.db import schema
from server.db.portable import upsert
from sync.protocol import Hello

KEPT = 16
"""Runs that are remembered: a clone says hello every few seconds, so it is among the last."""
_RUNS = select(schema.till_boot).where(schema.till_boot.c.till_id == bindparam("of"))
_HEARD = update(schema.till_boot).where(
    schema.till_boot.c.till_id == bindparam("of"), schema.till_boot.c.boot == bindparam("run")
)
_COUNTED = (
    update(schema.till)
    .where(schema.till.c.id == bindparam("of"))
    .values(contacts=schema.till.c.contacts + 1)
    .returning(schema.till.c.contacts)
)


def other_alive(conn: Connection, message: Hello, contact: int, *, incarnation: int) -> Row[Any] | None:
    """Note who greets, and return another run of the same till that is alive beside it; None = there is none.

    `contact` is the number of this greeting, `incarnation` the server's.
    """
    table = schema.till_boot
    rows = {row.boot: row for row in conn.execute(_RUNS, {"of": message.till})}
    known = rows.pop(message.boot, None)
    # A number from before a restore proves nothing, however late it is told: it counts anew from the backup.
    is_ours = message.incarnation == incarnation and message.heard < contact
    heard = message.heard if is_ours else 0
    values = {"heard": max(heard, known.heard if known else 0)}
    if known is not None:
        conn.execute(_HEARD, {"of": message.till, "run": message.boot, **values})
    else:
        row = {"till_id": message.till, "boot": message.boot, "since": contact, **values}
        conn.execute(upsert(conn, table).on_conflict_do_nothing(), row)
    _forget(conn, message.till, before=sorted(row.since for row in rows.values()))
    since = known.since if known else contact
    return next((row for row in rows.values() if values["heard"] >= row.since and row.heard >= since), None)


def _forget(conn: Connection, till_id: str, *, before: list[int]) -> None:
    if len(before) >= KEPT:
        table = schema.till_boot
        conn.execute(delete(table).where(table.c.till_id == till_id, table.c.since <= before[-KEPT]))


def next_contact(conn: Connection, till_id: str) -> int:
    """Count a greeting and return its number."""
    return int(conn.execute(_COUNTED, {"of": till_id}).scalar_one())
