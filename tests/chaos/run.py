"""Run: let everybody act, strike for so long, heal, and judge."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import OperationalError

from server.simulation.truth import Broken
from server.simulation.watching import BooksWatch
from tests.chaos.disturber import Disturber
from tests.chaos.journal import SUFFIX
from tests.chaos.parts import Chaos, open_chaos
from tests.chaos.verdict import Forgery, Verdict, books_of, judge
from tests.chaos.world import Ground

STRIKE_EVERY_S = 1.3
LOOK_EVERY_S = 3.0
PATIENCE_S = 60.0


@dataclass
class Outcome:
    """Tell how a run went."""

    verdict: Verdict
    struck: Counter[str] = field(default_factory=Counter)
    kills: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """Say what to run: how long, from which seed, with what; `only` = these faults in this order, () = by chance.

    `large`: two server processes on PostgreSQL with Redis, else one on SQLite. `weak_server` and `weak_till` name
    guards that are taken out, for controls. `acts` is all that is done at tills, () = of every kind. It goes on until
    there are `sales`, and a claim, however slow the machine.
    """

    folder: Path
    seconds: float
    seed: int = 1
    tills: int = 8
    pace_s: float = 0.4
    large: bool = True
    sales: int = 0
    only: Sequence[str] = ()
    acts: tuple[str, ...] = ()
    weak_server: tuple[str, ...] = ()
    weak_till: tuple[str, ...] = ()


def play(asked: Asked, forgeries: Sequence[Forgery] = ()) -> Outcome:
    """Run it; `forgeries` are tried on the checker in the end."""
    ground = Ground(asked.folder, asked.seed, asked.tills, asked.pace_s, asked.acts)
    with open_chaos(ground, large=asked.large, weak_server=asked.weak_server, weak_till=asked.weak_till) as chaos:
        disturber = Disturber(chaos, asked.seed)
        watched: list[str] = []
        for till in chaos.tills:
            till.start()
        for caller in chaos.callers:
            caller.start()
        chaos.server.until(lambda: all(each.serves for each in chaos.tills), "not all tills opened")
        _strike(asked, chaos, disturber, watched)
        disturber.mend()
        for caller in chaos.callers:
            caller.stop()
        for till in chaos.tills:
            assert till.runs or till.bugs
            till.kill()
        chaos.server.until(chaos.server.ready, "the server does not answer")
        verdict = judge(chaos, disturber.struck, forgeries)
        verdict.violations += watched + disturber.troubles + [bug for till in chaos.tills for bug in till.bugs]
        return Outcome(verdict, disturber.struck, disturber.kills)


def _strike(asked: Asked, chaos: Chaos, disturber: Disturber, watched: list[str]) -> None:
    """Strike until the time is over, and look at the books meanwhile."""
    chance, watch = random.Random(asked.seed), BooksWatch()
    began_s = time.monotonic()
    due_s, look_s = began_s, began_s
    plan = list(asked.only)
    until_s = began_s + asked.seconds
    while (now_s := time.monotonic()) < until_s or (
        now_s < until_s + PATIENCE_S and (plan or not _enough(asked, chaos))
    ):
        for till in chaos.tills:
            if not till.lock.locked() and not till.runs:
                till.start()
        if now_s >= due_s:
            if asked.only:
                due_s += asked.seconds / (len(asked.only) + 1)
                if plan and now_s > began_s + 0.5:
                    disturber.let(plan.pop(0))
            else:
                due_s += chance.expovariate(1 / STRIKE_EVERY_S)
                disturber.strike()
        if now_s >= look_s:
            look_s = now_s + LOOK_EVERY_S
            _look(chaos, watch, watched)
        time.sleep(0.05)


def _enough(asked: Asked, chaos: Chaos) -> bool:
    """Tell whether so much has happened that something can be seen."""
    told = "".join(path.read_text("utf-8") for path in chaos.ground.journals.glob(f"*{SUFFIX}"))
    return told.count('"what": "receipt"') >= asked.sales and (not asked.sales or '"what": "promise"' in told)


def _look(chaos: Chaos, watch: BooksWatch, watched: list[str]) -> None:
    """Look at the books; a database that is away shows nothing."""
    try:
        with books_of(chaos) as conn:
            watch.look(lambda question: conn.exec_driver_sql(question).all())
    except Broken as broken:
        watched.append(f"while it went on: {broken}")
    except OperationalError:
        pass
