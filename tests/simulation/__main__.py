"""Play many stories: `python -m tests.simulation FIRST_SEED COUNT [STEPS]`; names each seed that broke a promise."""

from __future__ import annotations

import logging
import sys
import traceback
from collections import Counter

from server.scenario.world import open_workshop
from tests.simulation.story import play


def main(first: int, count: int, steps: int = 120) -> int:
    """Return 1 if any story broke a promise; prints what happened how often, for a story of nothing proves nothing."""
    logging.disable(logging.CRITICAL)
    seen, broken = Counter[str](), 0
    with open_workshop() as workshop:
        for seed in range(first, first + count):
            try:
                seen += play(workshop, seed, steps=steps).seen
            except Exception as error:
                broken += 1
                place = traceback.extract_tb(error.__traceback__)[-1]
                print(
                    f"seed {seed}: {type(error).__name__} in {place.name}:{place.lineno} {str(error)[:200]}", flush=True
                )
    for how, times in sorted(seen.items()):
        print(f"{times:8} {how}")
    print(f"{count - broken} stories kept every promise, {broken} did not")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
