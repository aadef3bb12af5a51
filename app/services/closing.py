"""Close the day while the till stays open: tell the server everything, give every right back, and say what came of it.

    TELLING      the server's news first, then everything that happened here: there is a line, or nothing is given back
    ASKING       what was asked for gets its answer, else it would be lent behind our back after the closing
    GIVING_BACK  one transaction: an entry for each lease and coupon, and the date on which this till asks no more
    SENDING      the server hears of it; where the line dies here, the entries wait and go with the next session

Each step may be done again, so whoever is in doubt presses once more.
"""

from collections.abc import Callable

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services import leasing, renewing
from app.services.parts import Parts
from app.services.ports import Busy, Offline
from app.services.rights_view import DayEnd, DayStep

_NO_ANSWER = frozenset({RefusalCode.NEEDS_ONLINE, RefusalCode.BUSY, RefusalCode.RATE_LIMITED})


def end_day(parts: Parts, told: Callable[[DayStep], None]) -> DayEnd | Refusal:
    """Close the day; see `Till.end_day`. No renewal may run meanwhile."""
    told(DayStep.TELLING)
    cannot = _tell(parts)
    if cannot is not None:
        return cannot
    told(DayStep.ASKING)
    for answer in leasing.resume(parts):
        if isinstance(answer, Refusal) and answer.code in _NO_ANSWER:
            return answer
    told(DayStep.GIVING_BACK)
    with parts.ordering:
        given = renewing.give_all_back(parts)
    told(DayStep.SENDING)
    parts.push_soon()
    with parts.database.read() as conn:
        waiting, _ = parts.database.ledger.counts(conn)
    return DayEnd(given.closed, given.returned, given.kept, waiting_count=waiting)


def _tell(parts: Parts) -> Refusal | None:
    """Ask for news, then push what is pending; returns why that cannot be done now."""
    try:
        parts.head_office.refresh()
    except Offline:
        return refuse(RefusalCode.NEEDS_ONLINE)
    except Busy as busy:
        return refuse(busy.code, retry_after_s=busy.retry_after_s)
    return parts.push_first()
