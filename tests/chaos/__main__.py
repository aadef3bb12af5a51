"""Let real processes die and lines break for as long as is wanted: `python -m tests.chaos [--minutes 10] [--seed N]`.

Eight tills, two servers, PostgreSQL, Redis, a line for each till. Then all is healed, and the books are held against
what everybody wrote down. The last line counts; exit 1 where a promise was broken: the folder with all of it is named.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.disturber import WEIGHTS
from tests.chaos.run import Asked, Outcome, play


def main(asked: Asked, *, keep: bool) -> int:
    """Run, and print a table."""
    began_s = time.monotonic()
    try:
        outcome = play(asked)
    except BaseException:
        print(f"it did not come to its end, seed {asked.seed}: {asked.folder}", flush=True)
        raise
    _print(outcome)
    verdict = outcome.verdict
    for violation in verdict.violations:
        print(f"VIOLATION {violation}")
    print(f"drained in {verdict.drained_s:.0f} s, {time.monotonic() - began_s:.0f} s in all, seed {asked.seed}")
    if verdict.violations or keep:
        print(f"journals, ledgers and logs: {asked.folder}")
    else:
        shutil.rmtree(asked.folder)
    struck = sum(outcome.struck.values())
    print(
        f"{verdict.sales} sales, {verdict.claims} claims, {verdict.refunds} refunds, {outcome.kills} kills, "
        f"{struck} faults, {len(verdict.violations)} violations"
    )
    return 1 if verdict.violations else 0


def _print(outcome: Outcome) -> None:
    for name in WEIGHTS:
        print(f"{name:<28}{outcome.struck[name]:>6}")
    for name, count in sorted(outcome.verdict.seen.items()):
        print(f"{count:8} {name}")
    for kind, count in outcome.verdict.findings.items():
        print(f"finding {kind}: {count}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tills", type=int, default=8)
    parser.add_argument("--keep", action="store_true", help="keep the folder whatever comes of it")
    given = parser.parse_args()
    # Told to end, it still takes everything down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="pawtill-chaos-"))
    wanted = Asked(folder, given.minutes * 60, seed=given.seed, tills=given.tills)
    sys.exit(main(wanted, keep=given.keep))
