"""Plant faults in the real code: say what a fault is, and register it under its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from server.simulation.patching import patched

Plant = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Name a fault: `why` is what the guard is there for, `harmless` why nobody can notice ("" = somebody must).

    Seeds with `backups`, or `redis`, are hunted alone where only they go through the guard.
    """

    name: str
    why: str
    plant: Plant
    harmless: str = ""
    disasters: bool | None = None
    backups: bool = False
    redis: bool = False


MUTANTS: dict[str, Mutant] = {}


def mutant(
    why: str,
    *,
    harmless: str = "",
    disasters: bool | None = None,
    backups: bool = False,
    redis: bool = False,
) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Register what the decorated generator plants, under its name."""

    def register(plant: Callable[[], Iterator[None]]) -> None:
        name = plant.__name__.strip("_")
        MUTANTS[name] = Mutant(name, why, contextmanager(plant), harmless, disasters, backups, redis)

    return register


def put(*changes: tuple[Any, str, object]) -> AbstractContextManager[object]:
    stack = ExitStack()
    for owner, name, value in changes:
        stack.enter_context(patched(owner, name, value))
    return stack
