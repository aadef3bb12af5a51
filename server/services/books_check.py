"""Ask the books the questions of the audit, one by one, and answer with findings.

The audit proves everything at one moment, for a person who asks; this looks by itself, so that what does not add up is
told within the hour. A finding names the violation's kind and subject and carries the numbers that show it; it is
closed when the same question finds nothing about the subject any more.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Select, and_, exists, or_, select

from server.db.schema import coupon, request
from server.services.audit_checks import checks
from server.services.stuck import FOUND_MAX, Found

CLAIM_WITHOUT_COUPON = "claim_without_coupon"
WAYS_IN = ("claim", "gift", "registration", "issue")
"""What the ids of requests begin with that were answered with a coupon."""


def questions() -> Iterator[tuple[str, Select[Any]]]:
    """Yield the kind of each violation with the query that finds it, each kind once."""
    yield from {CLAIM_WITHOUT_COUPON: _claims_without_coupon(), **dict(checks())}.items()


def ask(conn: Connection, question: Select[Any]) -> list[Found]:
    """Return what breaks the invariant, up to FOUND_MAX."""
    rows = conn.execute(question.limit(FOUND_MAX))
    return [Found(str(row.subject), _plain(row._mapping)) for row in rows]


def _claims_without_coupon() -> Select[Any]:
    """Whoever was answered that there is a coupon has one."""
    told = request.c.answer["coupon"].as_string()
    # Ranges of the primary key: the answers of orders are long, and none of them is read.
    ways = or_(*(and_(request.c.id >= f"{way}:", request.c.id < f"{way};") for way in WAYS_IN))
    return select(request.c.id.label("subject"), told.label("coupon"), request.c.created_at.label("answered_at")).where(
        ways, told.is_not(None), ~exists().where(coupon.c.id == told)
    )


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Write the evidence as JSON can keep it."""
    kept = (int, float, str, bool, type(None))
    return {
        str(name): value if isinstance(value, kept) else str(value) for name, value in row.items() if name != "subject"
    }
