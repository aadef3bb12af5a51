"""Find what the server has not judged yet. PENDING rows are always the end of the ledger: verdicts come by prefix."""

from sqlalchemy import Connection

from app.store.driver import run


def first_pending(conn: Connection, epoch: int) -> int | None:
    """Return the number of the first entry without a verdict, None where there is none."""
    row = run(
        conn, "SELECT seq FROM outbox WHERE epoch = ? AND state = 'PENDING' ORDER BY seq LIMIT 1", (epoch,)
    ).fetchone()
    return row[0] if row else None


def reopen(tx: Connection, epoch: int, *, above: int) -> None:
    """Make every entry after number `above` pending again: the server, restored from a backup, has lost it."""
    run(
        tx,
        "UPDATE outbox SET state = 'PENDING', code = '' WHERE epoch = ? AND seq > ?",
        (epoch, above),
    )


def settle_left(tx: Connection, *, before: int) -> None:
    """Acknowledge what earlier epochs still have pending and was not carried: the server has said that it is there."""
    run(tx, "UPDATE outbox SET state = 'ACKNOWLEDGED' WHERE epoch < ? AND state = 'PENDING'", (before,))
