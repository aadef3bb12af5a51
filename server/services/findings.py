"""Keep what a person must look at: facts that no rule can put right by itself."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, update

from server.db.portable import upsert
from server.db.schema import finding
from server.services import alerts


def open_finding(
    conn: Connection, *, kind: str, key: str, amount_minor: int, detail: Mapping[str, Any], now: datetime
) -> None:
    """Open a finding and have somebody told of it; one of the same kind and key, open or not, stays as it is."""
    opened = conn.execute(
        upsert(conn, finding)
        .values(kind=kind, key=key, amount_minor=amount_minor, detail=dict(detail), opened_at=now)
        .on_conflict_do_nothing(index_elements=["kind", "key"])
        .returning(finding.c.id)
    ).one_or_none()
    if opened is not None:
        alerts.finding_opened(conn, kind, now=now)


def close_findings(conn: Connection, kind: str, keys: Collection[str]) -> int:
    """Close open findings whose cause is gone (a job looked again); returns how many. They stay to be read."""
    closed = update(finding).where(finding.c.kind == kind, finding.c.key.in_(keys), finding.c.state == "OPEN")
    return conn.execute(closed.values(state="CLOSED")).rowcount if keys else 0


def open_keys(conn: Connection, kind: str) -> set[str]:
    """Return the keys of the open findings of a kind."""
    return set(conn.execute(select(finding.c.key).where(finding.c.kind == kind, finding.c.state == "OPEN")).scalars())


def open_counts(conn: Connection) -> dict[str, int]:
    """Count the open findings of each kind that has any."""
    rows = conn.execute(select(finding.c.kind, func.count()).where(finding.c.state == "OPEN").group_by(finding.c.kind))
    return {row[0]: row[1] for row in rows}


def newest(conn: Connection, *, limit: int) -> list[dict[str, Any]]:
    """Return the newest findings as JSON data."""
    rows = conn.execute(select(finding).order_by(finding.c.id.desc()).limit(limit))
    return [
        {
            "id": row.id,
            "kind": row.kind,
            "key": row.key,
            "amount_minor": row.amount_minor,
            "detail": row.detail,
            "state": row.state,
            "opened_at": row.opened_at.isoformat(),
        }
        for row in rows
    ]
