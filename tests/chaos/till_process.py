"""Be one till and its cashier, in a process of its own, until somebody kills us."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time

from server import logs
from server.simulation.plan import AT_TILL, Event
from server.simulation.truth import Broken
from tests.chaos.counter import Counter, Place, Staff, open_counter
from tests.chaos.journal import Follower
from tests.chaos.memory import WrittenTruth
from tests.chaos.weakened_till import WEAKENED
from tests.chaos.world import Ground

LOG_FILE, DIARY_FILE = "log", "diary.txt"
OF_TILL, OF_LIFE = 10_000_000, 10_000
"""Numbers that are one till's, and one of its lives': what they name is never named again."""


def live(ground: Ground, till_id: str, weak: tuple[str, ...]) -> None:
    """Be a till's process; `weak` names the guards that it is to run without. What it says goes into its log."""
    with (ground.till_folder(till_id) / LOG_FILE).open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logs.configure("warning")
    for guard in weak:
        WEAKENED[guard]()
    _sell(ground, till_id)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "somebody started us"
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _sell(ground: Ground, till_id: str) -> None:
    """Open the till, bring to an end what was begun, and go on selling."""
    truth = WrittenTruth(ground.journals, till_id)
    life = sum(line["what"] == "begins" for line in Follower(truth.journal.path).lines())
    truth.journal.add("begins", who=till_id, life=life)
    with (
        (ground.till_folder(till_id) / DIARY_FILE).open("a", buffering=1) as diary,
        open_counter(ground, till_id) as counter,
    ):
        staff = Staff(Place(ground, truth, lambda line: diary.write(f"{line}\n")))
        counter.running.start()
        _serve(ground, staff, counter, int(till_id[1:]) * OF_TILL + life * OF_LIFE)


def _serve(ground: Ground, staff: Staff, counter: Counter, number: int) -> None:
    chance = random.Random(f"{ground.seed} {counter.id} {number}")
    counter.line.rng = counter.terminal.rng = chance
    staff.safely(counter, "wake", lambda: staff.clear_up(counter))
    while True:
        number += 1
        staff.truth.follow()
        what = chance.choice(ground.acts) if ground.acts else chance.choices(list(AT_TILL), list(AT_TILL.values()))[0]
        try:
            staff.begin(counter, Event(number, 0, what, 0, chance.getrandbits(32)))
        except Broken as broken:
            staff.truth.journal.add("broken", who=counter.id, text=f"{what}: {broken}")
        time.sleep(chance.expovariate(1 / ground.pace_s))
