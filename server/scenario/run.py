"""Run scenario files and say how they went: the whole of `pawtill scenario`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from server.scenario.playing import Played, play
from server.scenario.reading import Unreadable, read_file
from server.scenario.report import explained, line, tally
from server.scenario.world import Workshop, open_workshop


def run_paths(paths: Sequence[Path], *, explain: bool = False, out: TextIO | None = None) -> int:
    """Run every file, and every `*.toml` below every folder, in the order of their names.

    Prints one line a scenario (`explain`: every step of it before), then the tally. Returns the exit code: 1 if any
    failed. A path that is not there, or a folder without a scenario, is a failure and named.
    """
    out = out or sys.stdout
    played = []
    with open_workshop() as workshop:
        for path in _files(paths):
            done = run_file(path, workshop)
            played.append(done)
            if explain:
                out.write(explained(done))
            out.write(line(done))
            out.flush()
    out.write(tally(played))
    return 1 if any(done.problems for done in played) else 0


def run_file(path: Path, workshop: Workshop) -> Played:
    """Run one file; whatever is in it or happens, the answer is a Played."""
    if path.is_dir():
        return Played(str(path), "", problems=("holds no scenario (*.toml)",))
    try:
        scenario = read_file(path)
    except Unreadable as error:
        return Played(str(path), error.title, problems=error.problems)
    return play(str(path), scenario, workshop)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the files to run; a folder without any stands for itself, to be reported."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.rglob("*.toml")) if path.is_dir() else []
        found += inside or [path]
    return found
