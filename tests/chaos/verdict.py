"""Bring everything to rest, and hold the books against the journals: the checker is the simulator's."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

from app.services.ports import Busy, Offline
from cli.audit_command import snapshot
from server.db.schema import account, orders
from server.services.admission.facts import campaigns_known, entry_of
from server.services.context import SYSTEM, Context, load_chain
from server.services.system import SystemIds
from server.simulation.books import Books
from server.simulation.checking import checks, compare
from server.simulation.stage import Part
from server.simulation.truth import Broken, Truth
from server.stock.door import Door
from server.stock.scripts import Standing, inspect
from tests.chaos.counter import Counter as Till
from tests.chaos.counter import Place, Staff, open_counter
from tests.chaos.memory import WrittenTruth
from tests.chaos.parts import Chaos

PATIENCE_S = 150.0
"""A hold that nobody gives back ends after 30 s."""
TURN_S = 0.5


@dataclass
class Verdict:
    """Hold what was found. `violations` ought to be empty; `drained_s` is how long it took until nothing waited.

    `noticed` tells of each forgery whether the checker saw it.
    """

    sales: int = 0
    refunds: int = 0
    claims: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    noticed: list[bool] = field(default_factory=list)
    drained_s: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)


class AtRest:
    """Be the chain when nothing goes on any more."""

    def __init__(self, truth: Truth, seen: Counter[str], tills: Sequence[Till]) -> None:
        self.truth, self.seen, self.tills = truth, seen, tills


CAUSES = {
    # What a process granted by another way than Redis, and did not live to tell it, is found and built anew.
    "replayed_request": ("requests doubled",),
    "redis_drift": ("server process killed", "server killed", "Redis killed", "PostgreSQL killed", "PostgreSQL hangs"),
}
"""Findings that a fault explains, by its kind; all others have theirs in what people did (`checking.py`)."""

ALARMS = (
    *("KeyRefused", "TillShut", "SyncStopped", "ProtocolRefused", "Misunderstood", "TooLarge", "status_500"),
    *("wrong_certificate", "unsigned_answer", "foreign_answer", "captive_portal"),
)
"""What would call a person to a till, or tell of a bug; no fault of a run is reason for it."""

Forgery = Callable[[Truth], object]
"""Change what is believed, as if somebody had seen something else."""


def judge(chaos: Chaos, struck: Collection[str], forgeries: Sequence[Forgery] = ()) -> Verdict:
    """Finish what was begun, give everything back, compare, and audit; no process of a till runs any more.

    `struck` are the faults that there were.
    """
    found, ground = Verdict(), chaos.ground
    for caller in chaos.callers:
        found.violations += caller.finish() + caller.bugs
        found.seen += caller.seen
    truth = WrittenTruth(ground.journals, "drain", lately_bytes=None)
    truth.follow()
    place = Place(ground, truth, diary=lambda line: None)
    staff = Staff(place)
    with contextlib.ExitStack() as exits:
        tills = [exits.enter_context(open_counter(ground, each.id, silence=0.0)) for each in chaos.tills]
        began_s = time.monotonic()
        _bring_to_rest(chaos, found, staff, tills)
        found.drained_s = time.monotonic() - began_s
        with books_of(chaos) as conn:
            books = Books(conn, Context(datetime.now(UTC), SystemIds(), load_chain(conn), SYSTEM, code_key=b""))
        explained = [kind for kind, causes in CAUSES.items() if not set(causes).isdisjoint(struck)]
        for check in checks(AtRest(truth, place.seen, tills), books, explained):
            _collect(found, "", check)
        found.noticed = [_notices(forgery, truth, tills, books) for forgery in forgeries]
    found.violations += truth.broken
    found.sales, found.refunds = len(truth.receipts), len(truth.refunds)
    found.claims = len(truth.promised)
    found.findings = Counter(each.kind for each in books.findings)
    found.seen += place.seen
    for each in chaos.tills:
        found.seen += each.seen()
    alarms = {how: count for how, count in found.seen.items() if any(alarm in how for alarm in ALARMS)}
    found.violations += [f"false alarm: {how}, {count} times" for how, count in alarms.items()]
    chaos.server.stop()
    # Its questions were asked above already; as a command it takes a second, which the suite does not have.
    if chaos.postgres is not None and (told := chaos.server.audit()):
        found.violations.append(f"audit: {told}")
    return found


def _notices(forgery: Forgery, truth: Truth, tills: Sequence[Till], books: Books) -> bool:
    """Tell whether the checker notices that the truth is another."""
    forged = Truth(**{each.name: copy(getattr(truth, each.name)) for each in fields(Truth)})
    forgery(forged)
    try:
        compare(AtRest(forged, Counter(), tills), books)
    except Broken:
        return True
    return False


def _collect(found: Verdict, what: str, check: Callable[[], object]) -> None:
    """Note what is violated, and go on: one broken promise does not hide the next."""
    try:
        check()
    except Broken as broken:
        found.violations.append(f"{what}: {broken}" if what else str(broken))
    except Exception as bug:
        found.violations.append(f"{what or check}: {type(bug).__name__}: {bug}")


def _bring_to_rest(chaos: Chaos, found: Verdict, staff: Staff, tills: Sequence[Till]) -> None:
    """Let every till finish, tell, and give back; what one has not told yet may keep another from an answer."""
    deadline_s = time.monotonic() + PATIENCE_S
    for step in (staff.close, staff.finish, staff.give_back, staff.close):
        for part in tills:
            _collect(found, part.id, lambda: _insist(part, step, deadline_s))  # noqa: B023
    while left := _left(chaos):
        if time.monotonic() > deadline_s:
            found.violations.append(f"I16: after {PATIENCE_S} s there is still {left}")
            break
        time.sleep(TURN_S)
    for part in tills:
        _collect(found, part.id, lambda: _insist(part, staff.close, deadline_s))  # noqa: B023
    while drift := _drift(chaos):
        if time.monotonic() > deadline_s:
            found.violations.append(f"I15: after {PATIENCE_S} s {drift}")
            break
        time.sleep(TURN_S)


def _insist(part: Part, step: Callable[[Part], None], deadline_s: float) -> None:
    """Do it until it comes to its end: a server that was killed a moment ago has no time yet."""
    while True:
        try:
            step(part)
            return
        except (Offline, Busy):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(TURN_S)


def _left(chaos: Chaos) -> str:
    """Tell what is on its way still: amounts that are held or lent, orders that wait."""
    columns = [account.c.held, account.c.reserved, account.c.leased]
    with books_of(chaos) as conn:
        sums = conn.execute(select(*(func.coalesce(func.sum(each), 0) for each in columns))).one()
        waiting = conn.execute(select(orders.c.id).where(orders.c.state.in_(("HELD", "UNKNOWN")))).scalars().all()
    if not any(sums) and not waiting:
        return ""
    return f"held, reserved, leased {tuple(map(int, sums))}; orders {', '.join(waiting)}"


def _drift(chaos: Chaos) -> str:
    """Tell where Redis shows another stock than the database (I15)."""
    if chaos.redis is None:
        return ""
    door = Door(chaos.redis.address)
    try:
        with books_of(chaos) as conn:
            context = Context(datetime.now(UTC), SystemIds(), load_chain(conn), SYSTEM, code_key=b"")
            entries = [entry_of(conn, context, campaign_id) for campaign_id in campaigns_known(conn, context)]
        for entry in entries:
            if entry is None or not entry.admitted:
                continue
            shown = door.unguarded.run(inspect(door.keys(entry.campaign_id), now_ms=0))
            if not isinstance(shown, Standing) or (shown.available, shown.units) != (entry.available, 0):
                return f"Redis has {shown} of {entry.campaign_id}, and the database {entry.available}"
    finally:
        door.close()
    return ""


def books_of(chaos: Chaos) -> AbstractContextManager[Connection]:
    """Open one snapshot of the server's database, beside the server."""
    return snapshot(chaos.server.url or chaos.server.folder / "server.db")
