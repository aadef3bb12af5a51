"""Run `pawtill simulate`."""

import typer

from server import logs
from server.simulation.simulate import Asked, simulate


def run_simulation(seeds: str, *, operations: int, workers: int, only: str, disasters: bool | None, small: bool) -> int:
    """Run the seeds and print how it went; returns the exit code."""
    first, last = _range(seeds)
    numbers = tuple(int(number) for number in only.split(",") if number)
    # The parts are killed on purpose here; what they say about it is nothing to read.
    logs.configure("critical")
    asked = Asked(first, last, operations, numbers, disasters, small)
    return simulate(asked, workers=workers, tell=lambda line: print(line, flush=True))


def _range(seeds: str) -> tuple[int, int]:
    first, colon, last = seeds.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise typer.BadParameter(f"{seeds} is not A:B with A below B", param_hint="--seeds")
    return int(first), int(last)
