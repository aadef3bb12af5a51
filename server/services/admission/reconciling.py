"""Compare Redis with the database (PROTOCOL 9, R1 and R2), and put right what has one right answer.

Between two looks at the database that show no grant, everything reserved in Redis and not landed is still available
there: `redis.available + reserved - landed and not closed = database.available`. What differs twice in a row was no
message on its way, and the counters are built anew; where that happens again, a person is told.
"""

from dataclasses import dataclass
from functools import partial

import structlog
from sqlalchemy import Connection, select, update

from server.db.schema import admission
from server.services import findings, idempotency
from server.services.admission.facts import Entry, campaigns_known, entry_of, held_by, to_ms
from server.services.admission.generations import Generations
from server.services.admission.landing import read_event, request_id
from server.services.context import Context
from server.services.services import Services
from server.stock import scripts
from server.stock.door import Door, Event
from server.stock.scripts import Standing
from server.stock.trouble import StockDamaged

KIND = "redis_drift"
STRIKES = 2
QUIET_TRIES = 20
"""Looks for a moment without a grant; in a storm a commit comes every 10 ms, and a look takes two."""
SAMPLE = 200

log = structlog.get_logger("pawtill.admission")


@dataclass(frozen=True, slots=True)
class Drift:
    """Tell how Redis differs: `units` too many available (below 0: too few), `members` (of a sample) counted wrong."""

    units: int
    members: dict[str, int]

    def __bool__(self) -> bool:
        """Tell whether it differs at all."""
        return self.units != 0 or bool(self.members)


@dataclass(frozen=True, slots=True)
class Compared:
    """Count what a comparison put right, and what a person is to look at, by kind."""

    repaired: int
    findings: dict[str, int]


class Reconciling:
    """Compare every campaign on Redis with the database."""

    def __init__(self, services: Services, door: Door, generations: Generations) -> None:
        self._services, self._door, self._generations = services, door, generations

    def compare(self, services: Services) -> Compared:
        """Look at Redis, build anew what is lost or drifts, renew every configuration. Raises a StockTrouble.

        `services` are those of the job, whose writes are fenced.
        """
        rebuilt = self._generations.look()
        self._generations.tell_again()
        found: dict[str, int] = {}
        repaired = len(rebuilt)
        for campaign_id in services.read(campaigns_known):
            if campaign_id in rebuilt:
                continue
            try:
                drift = self._measure(campaign_id)
            except StockDamaged:
                self._generations.rebuild(campaign_id, "corrupt")
                repaired += 1
                continue
            if drift is None or not self._strike(services, campaign_id, drift=drift):
                continue
            self._generations.rebuild(campaign_id, "drift")
            repaired += 1
            if services.write(partial(_told, campaign_id=campaign_id, drift=drift)):
                found[KIND] = found.get(KIND, 0) + 1
        return Compared(repaired, found)

    def _measure(self, campaign_id: str) -> Drift | None:
        """Return how Redis differs, None where there was no quiet moment to tell; raises StockDamaged as well."""
        for _ in range(QUIET_TRIES):
            before = self._services.read(lambda conn, ctx: entry_of(conn, ctx, campaign_id))
            if before is None or not before.admitted or before.admission != "OPEN":
                return None
            now_ms = to_ms(self._services.clock.now())
            standing = self._door.scripts.run(scripts.inspect(self._door.keys(campaign_id), now_ms=now_ms))
            if not isinstance(standing, Standing) or standing.generation != before.generation:
                return None
            events = self._events(campaign_id)
            sample = self._door.sample_members(campaign_id, SAMPLE)
            again = self._door.scripts.run(scripts.inspect(self._door.keys(campaign_id), now_ms=now_ms))
            measuring = partial(_measure, campaign_id=campaign_id, events=events, sample=sample)
            after, landed, members = self._services.read(measuring)
            quiet = after is not None and (before.position, before.stock_version) == (
                after.position,
                after.stock_version,
            )
            if quiet and standing == again and len(events) == standing.request_count:
                units = 0
                if standing.available is not None and before.available is not None:
                    units = standing.available + standing.units - landed - before.available
                return Drift(units, members)
        return None

    def _events(self, campaign_id: str) -> list[tuple[str, Event]]:
        found: list[tuple[str, Event]] = []
        after = "-"
        while page := self._door.events(campaign_id, after=after):
            for entry, event in page:
                if event is None:
                    raise StockDamaged("a reservation that cannot be read")
                read_event(self._door.keys(campaign_id), entry, event)
                found.append((entry, event))
            after = page[-1][0]
        return found

    def _strike(self, services: Services, campaign_id: str, *, drift: Drift) -> bool:
        """Count a comparison that did not add up; True = it is time to build anew."""
        strikes = services.write(lambda conn, _ctx: _strikes(conn, campaign_id, drifts=bool(drift)))
        if drift:
            log.warning("redis differs", campaign=campaign_id, units=drift.units, members=len(drift.members))
        return strikes >= STRIKES


def _measure(
    conn: Connection, ctx: Context, *, campaign_id: str, events: list[tuple[str, Event]], sample: dict[str, int]
) -> tuple[Entry | None, int, dict[str, int]]:
    """Return the campaign, the units that have landed and are not closed, and which sampled members are wrong."""
    stored = idempotency.reservations(conn, [request_id(event.request) for _, event in events])
    landed, reserved = 0, dict[str, int]()
    for entry, event in events:
        qty = event.qty
        if stored.get(request_id(event.request)) == f"{event.generation}/{entry}":
            landed += qty
        else:
            reserved[event.member] = reserved.get(event.member, 0) + qty
    held = held_by(conn, campaign_id, list(sample))
    wrong = {
        member: count for member, count in sample.items() if count != held.get(member, 0) + reserved.get(member, 0)
    }
    return entry_of(conn, ctx, campaign_id), landed, wrong


def _strikes(conn: Connection, campaign_id: str, *, drifts: bool) -> int:
    before = conn.execute(select(admission.c.strikes).where(admission.c.campaign_id == campaign_id)).scalar_one()
    strikes = before + 1 if drifts else 0
    if strikes != before:
        conn.execute(update(admission).where(admission.c.campaign_id == campaign_id).values(strikes=strikes))
    return strikes


def _told(conn: Connection, ctx: Context, *, campaign_id: str, drift: Drift) -> bool:
    """Count a rebuild for drift; from the second one on a person is told."""
    row = conn.execute(
        select(admission.c.drifts, admission.c.generation).where(admission.c.campaign_id == campaign_id)
    ).one()
    conn.execute(update(admission).where(admission.c.campaign_id == campaign_id).values(drifts=row.drifts + 1))
    if row.drifts == 0:
        return False
    findings.open_finding(
        conn,
        kind=KIND,
        key=f"{campaign_id}/{row.generation}",
        amount_minor=0,
        detail={"campaign": campaign_id, "units": drift.units, "members": sorted(drift.members)[:20]},
        now=ctx.now,
    )
    return True
