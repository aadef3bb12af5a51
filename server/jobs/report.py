"""Describe a job and what one run of it did."""

from collections.abc import Callable
from dataclasses import dataclass, field

from server.services.services import Services


@dataclass(frozen=True, slots=True)
class JobReport:
    """Count what one run did.

    `done` counts what time had made due; `repaired` what had gone wrong and has one right answer; `findings` what a
    person must look at, by kind.
    """

    name: str
    done: int = 0
    repaired: int = 0
    findings: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """Name a patrol and how often it walks; a run that finds nothing due changes nothing.

    A job scans the database by state and real time, so an early, late or repeated run does no harm (REQUIREMENTS B3).
    It works in small transactions of its own, through `services.write`: so each of them is fenced (`lease.py`).
    `everywhere` is for what a process has to do for itself: such a job walks in every one of them.
    """

    name: str
    every_s: int
    run: Callable[[Services], JobReport]
    everywhere: bool = False
