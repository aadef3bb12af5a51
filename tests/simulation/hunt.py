"""Look for the first seed that notices a planted fault: `python -m tests.simulation.hunt [SEEDS] [NAME...]`
prints a table."""

from __future__ import annotations

import sys
import time

from server import logs
from server.simulation.chain import Ground, open_ground
from server.simulation.plan import draw_plan
from server.simulation.run import run_plan
from tests.simulation.mutants import MUTANTS
from tests.simulation.planting import Mutant

SEEDS_MAX = 200
OPERATIONS = 300


def found_by(ground: Ground, mutant: Mutant, *, seeds: int = SEEDS_MAX) -> tuple[int, str] | None:
    """Return the first seed that is broken by the fault, and what it broke; None = no one notices it.

    A fault behind a backup that no seed notices as it is drawn is hunted where each of them has a backup.
    """
    found = _found_by(ground, mutant, seeds=seeds, backups=None)
    return _found_by(ground, mutant, seeds=seeds, backups=True) if found is None and mutant.backups else found


def _found_by(ground: Ground, mutant: Mutant, *, seeds: int, backups: bool | None) -> tuple[int, str] | None:
    """Look in these seeds.

    A seed that is broken without the fault says nothing of it, and a plant that does not fit the code any more is none.
    """
    for seed in range(seeds):
        plan = draw_plan(seed, OPERATIONS, disasters=mutant.disasters, backups=backups)
        if (mutant.redis and not plan.hot) or (mutant.backups and not plan.put_back):
            continue
        with mutant.plant():
            violation = run_plan(ground, plan).violation
        if any(name in violation for name in ("TypeError", "AttributeError", "IndexError", "NameError")):
            raise TypeError(f"{mutant.name} does not fit the code any more: {violation}")
        if violation and not run_plan(ground, plan).violation:
            return seed, violation
    return None


def main(names: list[str], *, seeds: int = SEEDS_MAX) -> int:
    """Print a line for each fault; 1 = one that is not known to be harmless was not noticed."""
    logs.configure("critical")
    alive = 0
    with open_ground() as ground:
        for name in names or MUTANTS:
            mutant, began_s = MUTANTS[name], time.monotonic()
            found = None if mutant.harmless else found_by(ground, mutant, seeds=seeds)
            alive += found is None and not mutant.harmless
            told = f"seed {found[0]}: {found[1][:150]}" if found else mutant.harmless or "NOT NOTICED"
            print(f"{name:36} {time.monotonic() - began_s:5.0f} s  {told}", flush=True)
    print(f"{len(MUTANTS)} faults, {alive} not noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    most = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    names = [each for each in sys.argv[1:] if not each.isdecimal()]
    sys.exit(main(names, seeds=most[0] if most else SEEDS_MAX))
