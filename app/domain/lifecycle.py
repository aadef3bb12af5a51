"""Run life cycles whose transitions are data: verify a table once, then look steps up in it.

The code owns the words (which events it fires, which guards it decides, which states it names: `states.Vocabulary`);
the table owns the process (what leads where). So a chain may change its process without touching code, and cannot name
what the code does not know. Source: RULES, "life cycle" tables; REQUIREMENTS B1, B2. `resources/lifecycles` loads.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.states import Vocabulary


class InvalidLifecycle(ValueError):
    """Report everything that is wrong with a table, so that one bad row does not hide the next."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class State:
    """Describe a state: `terminal` has no way out, `holds` keeps money or stock from others until it is left."""

    name: str
    terminal: bool
    holds: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one row of a table: it applies where `guard` answers `answer`, and always where `guard` is None."""

    frm: str
    event: str
    to: str
    guard: str | None
    answer: bool


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one legal step; where `frm` equals `to` nothing changes and nothing needs to be written."""

    frm: str
    event: str
    to: str


class Lifecycle:
    """Answer which step an event makes from a state; verified and immutable."""

    def __init__(self, *, initial: str, states: Mapping[str, State], rows: tuple[Row, ...]) -> None:
        """Take what `from_table` has verified; call that instead."""
        self.initial = initial
        self.states = MappingProxyType(dict(states))
        self.rows = rows
        self._choices: dict[tuple[str, str], list[Row]] = _choices(rows)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], vocabulary: Vocabulary) -> "Lifecycle":
        """Read a table, and raise InvalidLifecycle with all that is wrong unless it can be trusted.

        Shape: `initial`; `states.NAME` with `terminal` and `holds` (both false by default); `rows` of `from`, `event`,
        `to` and perhaps `when = "g"` (the guard g answers yes) or `unless = "g"` (no). Then: words are in the
        vocabulary; each (state, event, answer) has one target; every state can be reached from the initial one; exactly
        the states declared terminal have no way out; from every state that holds something a way leads to one that does
        not, by steps that no guard's answer can close.
        """
        if problems := _shape_problems(table):
            raise InvalidLifecycle(problems)
        states = {
            name: State(name, entry.get("terminal", False), entry.get("holds", False))
            for name, entry in table["states"].items()
        }
        rows = tuple(map(_row, table["rows"]))
        problems = _word_problems(table["initial"], states, rows, vocabulary=vocabulary) or [
            *_choice_problems(rows),
            *_way_problems(table["initial"], states, rows),
        ]
        if problems:
            raise InvalidLifecycle(problems)
        return cls(initial=table["initial"], states=states, rows=rows)

    def step(self, state: str, event: str, guards: Mapping[str, bool] = MappingProxyType({})) -> Step | Refusal:
        """Find the step, or refuse as `illegal_transition` with facts `state` and `event`.

        `guards` must answer each guard that the table asks for here; RULES' other guards (same order, reason given) are
        the caller's to check before.
        """
        for row in self._choices.get((state, event), ()):
            assert row.guard is None or row.guard in guards, f"nobody decided {row.guard} for {event} from {state}"
            if row.guard is None or guards[row.guard] is row.answer:
                return Step(row.frm, row.event, row.to)
        return refuse(RefusalCode.ILLEGAL_TRANSITION, state=str(state), event=str(event))

    def sources(self, event: str) -> tuple[str, ...]:
        """List the states from which the event is legal (under some answer), for `WHERE state IN (...)`."""
        return tuple(name for name in self.states if (name, event) in self._choices)


def _row(entry: Mapping[str, str]) -> Row:
    guard = entry.get("when", entry.get("unless"))
    return Row(entry["from"], entry["event"], entry["to"], guard=guard, answer="unless" not in entry)


def _choices(rows: Collection[Row]) -> dict[tuple[str, str], list[Row]]:
    choices: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        choices.setdefault((row.frm, row.event), []).append(row)
    return choices


_Keys = Mapping[str, type]
_NONE: _Keys = MappingProxyType({})


def _entry_problems(where: str, entry: object, *, required: _Keys = _NONE, optional: _Keys = _NONE) -> list[str]:
    """Compare one table of the file with its keys; unknown keys are problems too: a mistyped `holds` guards nothing."""
    if not isinstance(entry, Mapping):
        return [f"{where}: not a table"]
    known = {**required, **optional}
    wrong = [key for key, value in entry.items() if key in known and not isinstance(value, known[key])]
    return [
        *(f"{where}: {key} is missing" for key in required if key not in entry),
        *(f"{where}: unknown key {key}" for key in entry if key not in known),
        *(f"{where}: {key} is not a {known[key].__name__}" for key in wrong),
    ]


def _shape_problems(table: Mapping[str, Any]) -> list[str]:
    if problems := _entry_problems("table", table, required={"initial": str, "states": dict, "rows": list}):
        return problems
    for name, entry in table["states"].items():
        problems += _entry_problems(name, entry, optional={"terminal": bool, "holds": bool})
    for number, entry in enumerate(table["rows"], start=1):
        required, optional = {"from": str, "event": str, "to": str}, {"when": str, "unless": str}
        problems += _entry_problems(f"row {number}", entry, required=required, optional=optional)
        if isinstance(entry, Mapping) and "when" in entry and "unless" in entry:
            problems.append(f"row {number}: both when and unless")
    return problems


def _word_problems(
    initial: str, states: Collection[str], rows: Collection[Row], *, vocabulary: Vocabulary
) -> list[str]:
    named = {initial, *vocabulary.states, *(row.frm for row in rows), *(row.to for row in rows)}
    events, guards = {row.event for row in rows}, {row.guard for row in rows if row.guard is not None}
    return [
        *(f"state {name} is not declared" for name in sorted(named.difference(states))),
        *(f"nothing fires event {event}" for event in sorted(events - vocabulary.events)),
        *(f"nothing decides guard {guard}" for guard in sorted(guards - vocabulary.guards)),
    ]


def _choice_problems(rows: Collection[Row]) -> list[str]:
    problems = []
    for (state, event), choice in _choices(rows).items():
        if len({row.guard for row in choice}) > 1:
            problems.append(f"{event} from {state} depends on more than one guard")
        elif len({row.answer for row in choice}) < len(choice):
            problems.append(f"{event} from {state} has two targets for one answer")
    return problems


def _way_problems(initial: str, states: Mapping[str, State], rows: Collection[Row]) -> list[str]:
    moves = [row for row in rows if row.frm != row.to]
    certain = [
        row
        for choice in _choices(rows).values()
        for row in choice
        if row.guard is None or {other.answer for other in choice} == {True, False}
    ]
    leaving = {row.frm for row in moves}
    problems = [f"{name} cannot be reached" for name in states if name not in _reached(initial, moves)]
    for name, state in states.items():
        if state.terminal and name in leaving:
            problems.append(f"{name} is terminal and has a way out")
        if not state.terminal and name not in leaving:
            problems.append(f"{name} has no way out and is not declared terminal")
        if state.holds and all(states[other].holds for other in _reached(name, certain)):
            problems.append(f"{name} holds money or stock and has no sure way to let go of it")
    return problems


def _reached(start: str, rows: Collection[Row]) -> set[str]:
    """Collect the states that can be reached from `start`, itself included."""
    reached, fresh = {start}, {start}
    while fresh:
        fresh = {row.to for row in rows if row.frm in fresh} - reached
        reached |= fresh
    return reached
