"""Strike for as long as is wanted: `python -m tests.faults --minutes N [--seed N] [--only WORDS]`; prints a table.

Each fault by itself, in turn, each time at other moments. A database stays away for ten seconds. Exit 1 where a promise
was broken; the folder of that sale is kept and named.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.faults import ELSEWHERE, FAULTS, Scene, open_ground, play
from tests.faults.proof import Outcome

DOWN_S = 10.0


@dataclass(slots=True)
class Row:
    """Sum up what one fault did over all its sales; `asked_again` counts claims that got no answer at first."""

    tried: int = 0
    granted: int = 0
    lost: int = 0
    doubled: int = 0
    other: int = 0
    asked_again: int = 0
    slowest_s: float = 0.0
    healed_s: float = 0.0

    def add(self, strikes: int, outcome: Outcome) -> None:
        """Add one sale."""
        self.tried += strikes
        self.granted += outcome.granted
        self.lost += outcome.lost
        self.doubled += outcome.doubled
        self.other += outcome.untold + outcome.stranded + outcome.broken + bool(outcome.audit)
        self.asked_again += outcome.troubles.total() - outcome.troubles["pending"]
        self.slowest_s = max(self.slowest_s, outcome.slowest_s)
        self.healed_s = max(self.healed_s, outcome.healed_s)


def main(minutes: float, seed: int, only: str) -> int:
    """Strike until the time is over, at least once each."""
    rows = {name: Row() for name in FAULTS if only.lower() in name.lower()}
    until, failures = time.monotonic() + minutes * 60, 0
    folder = Path(tempfile.mkdtemp(prefix="pawtill-faults-"))
    with open_ground(folder, seed, down_s=DOWN_S) as ground:
        while True:
            for name, row in rows.items():
                try:
                    outcome = play(ground, FAULTS[name])
                except Exception as error:
                    failures += 1
                    print(f"{name}: {type(error).__name__}: {error}", flush=True)
                    continue
                row.add(sum(each is not Scene.keep_snapshot for each in FAULTS[name].strikes), outcome)
                if not outcome.clean:
                    failures += 1
                    print(f"{name}: {outcome}", flush=True)
            if time.monotonic() > until:
                break
    _print(rows)
    if failures:
        print(f"{failures} sales broke a promise; their files are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _print(rows: dict[str, Row]) -> None:
    heads = ("fault", "tried", "granted", "lost", "doubled", "other", "asked again", "slowest s", "healed in s")
    print("{:<28}{:>7}{:>9}{:>6}{:>9}{:>7}{:>13}{:>11}{:>13}".format(*heads))
    for name, row in rows.items():
        print(
            f"{name:<28}{row.tried:>7}{row.granted:>9}{row.lost:>6}{row.doubled:>9}{row.other:>7}"
            f"{row.asked_again:>13}{row.slowest_s:>11.1f}{row.healed_s:>13.1f}"
        )
    for name, where in ELSEWHERE.items():
        print(f"{name:<28} see {where}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose name has these words")
    given = parser.parse_args()
    sys.exit(main(given.minutes, given.seed, given.only))
