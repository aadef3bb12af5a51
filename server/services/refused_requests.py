"""Keep that a request was refused which none of our tills sends: a copy, a forgery, one that is too long.

One finding for each kind, till and day (UTC), with what was first seen of it: when, from which address, at which route,
under which key. Neither secrets nor bodies. Whoever sends a million of them makes one row: what was told today is
remembered here, by till, and a till that cannot be told is always the same one. Another process on the same database
writes it once more, and finds it there.

A line or a proxy may double a request, and its copy is what one who recorded it would send: the server cannot tell the
two apart, and the finding says so. A request of another time (`clock`) is no finding: a till whose clock is wrong sends
it too.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

import structlog

from server.db.errors import DatabaseTrouble
from server.services import findings
from server.services.context import NotProvisioned

if TYPE_CHECKING:
    from server.services.services import Services

REPLAYED, FORGED, OVERSIZED = "replayed_request", "forged_request", "oversized_request"
UNKNOWN = "unknown"
"""Stands for every till that cannot be told."""
TRY_AGAIN_AFTER = timedelta(minutes=1)
"""How long nothing is written where the database could not."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Refused:
    """Tell of a refused request: its kind, the till that it named (None = no till of ours), and how to see the rest."""

    kind: str
    till_id: str | None
    evidence: Callable[[], Mapping[str, str]]

    @property
    def place(self) -> tuple[str, str]:
        """Return what there is one finding a day for."""
        return self.kind, self.till_id or UNKNOWN


class ToldToday:
    """Remember what there is no need to write again until when; at most one instant for each kind and till."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], datetime] = {}
        self._lock = threading.Lock()

    def is_news(self, place: tuple[str, str], now: datetime) -> bool:
        """Tell whether it is to be written now, and remember that it is."""
        with self._lock:
            until = self._until.get(place)
            # A clock that was days ahead silences nobody until those days come.
            if until is not None and now < until <= now + timedelta(days=1):
                return False
            self._until[place] = datetime.combine(now.astimezone(UTC).date(), time(), UTC) + timedelta(days=1)
            return True

    def failed(self, place: tuple[str, str], now: datetime) -> None:
        """Let it be written again in a while."""
        with self._lock:
            self._until[place] = now + TRY_AGAIN_AFTER


def note(services: "Services", refused: Refused) -> None:
    """Open a finding, where there is none of this kind and till today. It is answered already: nothing is raised."""
    now, told = services.clock.now(), services.refused_today
    if not told.is_news(refused.place, now):
        return
    key = f"{refused.place[1]}/{now.astimezone(UTC):%Y-%m-%d}"
    detail = {"till": refused.till_id, **refused.evidence()}
    try:
        services.write(
            lambda conn, ctx: findings.open_finding(
                conn, kind=refused.kind, key=key, amount_minor=0, detail=detail, now=ctx.now
            )
        )
    except (DatabaseTrouble, NotProvisioned) as trouble:
        told.failed(refused.place, now)
        log.warning("a refused request could not be noted", kind=refused.kind, trouble=str(trouble))
