"""Run the benchmarks: `python3 run.py bench [NAME] [--quick]`.

A table for people, then as the last line one JSON object `{bench: {figure: number}}`. A figure compares against a
baseline of the same run wherever one can be had (`over_...`), since milliseconds alone tell the machine, not the code.
Nothing here fails on a time. Each bench is a module with `run(quick: bool) -> dict[str, float]`.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from rich.console import Console
from rich.table import Table

BENCHES = {
    "till_commit": "a paid order's commit against one bare durable commit of the same rows",
    "scan": "a scan at the till, 100,000 products and 1,000,000 coupons",
    "best_combination": "the best of 50 coupons on 50 lines, exact",
    "sync": "pushes of 200 entries over HTTP against bare inserts of the same rows",
    "catch_up": "a till 90 days offline catches up, against bare inserts of the same rows",
    "crowd": "10,000 tills pull one change of a campaign, at the pace that the server gives them",
    "flash_sale": "claims of a hot campaign over HTTP, against the ways of other shops",
    "batch_issue": "a batch issue in chunks against bare inserts of the same rows",
}


def main(arguments: Sequence[str]) -> int:
    """Run one bench or all; 0 unless one cannot run at all."""
    parser = argparse.ArgumentParser(prog="run.py bench", description="Measure what has to be fast.")
    parser.add_argument("name", nargs="?", choices=BENCHES, help="default: all")
    parser.add_argument("--quick", action="store_true", help="smaller runs: all within about a minute")
    asked = parser.parse_args(arguments)
    console = Console(stderr=True)
    figures = {}
    for name in [asked.name] if asked.name else BENCHES:
        with console.status(f"{name}: {BENCHES[name]}"):
            started = time.perf_counter()
            figures[name] = import_module(f"tests.bench.{name}").run(quick=asked.quick)
            took_s = time.perf_counter() - started
        console.print(f"{name}: {took_s:.1f} s", highlight=False)
    Console().print(_table(figures, quick=asked.quick))
    print(json.dumps(figures))
    return 0


def _table(figures: dict[str, dict[str, float]], *, quick: bool) -> Table:
    table = Table(title="Pawtill benchmarks" + (" (quick)" if quick else ""), title_justify="left")
    for heading, side in (("bench", "left"), ("figure", "left"), ("value", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for name, values in figures.items():
        table.add_section()
        for i, (key, value) in enumerate(values.items()):
            table.add_row(name if i == 0 else "", key, f"{value:,.3f}".rstrip("0").rstrip("."))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
