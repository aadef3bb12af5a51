"""Read a scenario file whole, and name everything in it that this version does not know.

Nothing runs unless all of it is understood: a key that is passed over in silence is a rule that nobody tested.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from app.domain.money import Currency
from app.domain.refusals import Refusal
from app.domain.rule_json import read_rule
from server.scenario.steps import VERBS, Args, Campaign, Crash, Expect, Step, Verb, When
from server.scenario.tables import CampaignTable, WorldTable
from server.scenario.values import Strict, to_json

StrictT = TypeVar("StrictT", bound=Strict)

_WORDS = {"extra_forbidden": "is not known", "missing": "is missing"}
MAX_BYTES = 4 * 1024 * 1024


class Unreadable(Exception):
    """Report what is wrong with a file, all of it; `title` is "" where not even that could be read."""

    def __init__(self, problems: list[str], title: str = "") -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
        self.title = title


@dataclass(frozen=True, slots=True)
class Scenario:
    """Hold a file that was understood."""

    world: WorldTable
    steps: tuple[Step, ...]

    @property
    def title(self) -> str:
        """Return the file's title."""
        return self.world.title


def read_file(path: Path) -> Scenario:
    """Read a file; raises Unreadable, whatever is in it."""
    try:
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            raise Unreadable([f"more than {MAX_BYTES // 1024 // 1024} MiB"])
        return read_text(data.decode("utf-8-sig"))
    except OSError as error:
        raise Unreadable([f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise Unreadable(["is no UTF-8 text"]) from None


def read_text(text: str) -> Scenario:
    """Read TOML; raises Unreadable."""
    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        # ValueError: an impossible date, a number of thousands of digits.
        raise Unreadable([f"is no TOML: {error}"]) from None
    steps = data.pop("step", [])
    title = data.get("title") if isinstance(data.get("title"), str) else ""
    currency = _currency(data)
    problems: list[str] = []
    world = _read(WorldTable, data, currency=currency, problems=problems)
    if world is not None:
        problems += [problem for campaign in world.campaign for problem in _rule_problems(campaign, currency)]
    found = _steps(steps, currency, problems)
    if world is not None:
        problems += _stranger_problems(world, found)
    if problems or world is None:
        raise Unreadable(problems, str(title))
    return Scenario(world, tuple(found))


def _currency(data: Mapping[str, Any]) -> Currency:
    """Return the chain's currency before anything else is read, since amounts are read in it."""
    chain = data.get("chain")
    code = chain.get("currency", "CNY") if isinstance(chain, dict) else "CNY"
    return Currency.of(code if isinstance(code, str) else "CNY")


def _read(
    model: type[StrictT], data: object, *, currency: Currency, problems: list[str], where: str = ""
) -> StrictT | None:
    try:
        return model.model_validate(data, context={"currency": currency})
    except ValidationError as error:
        problems += [_problem(detail["loc"], detail["type"], detail["msg"], where=where) for detail in error.errors()]
        return None


def _problem(loc: tuple[int | str, ...], kind: str, message: str, *, where: str) -> str:
    path = ".".join(str(part + 1) if isinstance(part, int) else part for part in loc)
    words = _WORDS.get(kind, message.removeprefix("Value error, "))
    joint = "." if where.endswith("expect") else ": "
    place = f"{where}{joint}{path}" if where and path else where or path
    return f"{place}: {words}" if place else words


def _rule_problems(campaign: CampaignTable, currency: Currency) -> list[str]:
    where = f"campaign {campaign.id}"
    try:
        rule = read_rule(campaign.rule, currency)
    except ValueError as error:
        return [f"{where}: a value {error}"]
    return [f"{where}: {rule.facts['field']}: {rule.facts['reason']}"] if isinstance(rule, Refusal) else []


def _steps(data: object, currency: Currency, problems: list[str]) -> list[Step]:
    if not isinstance(data, list):
        problems.append("step: must be [[step]], one table for each")
        return []
    steps = [_step(number, entry, currency=currency, problems=problems) for number, entry in enumerate(data, start=1)]
    return [step for step in steps if step is not None]


def _step(number: int, entry: object, *, currency: Currency, problems: list[str]) -> Step | None:
    if not isinstance(entry, dict):
        problems.append(f"step {number}: must be a table")
        return None
    rest = dict(entry)
    name, expect = rest.pop("do", None), rest.pop("expect", None)
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        problems.append(f"step {number}: {'do is missing' if name is None else f'verb {name!r} is not known'}")
        return None
    where = f"step {number} ({name})"
    before = len(problems)
    when = None
    if "at" in rest:
        when = _read(When, {"at": rest.pop("at")}, currency=currency, problems=problems, where=where)
    args = _read(verb.args, rest, currency=currency, problems=problems, where=where)
    expected = _expect(verb, expect, currency=currency, problems=problems, where=where)
    if args is None or len(problems) > before:
        return None
    step = Step(number, str(name), args, at=when.at if when else None, expect=expected)
    problems += [f"{where}: {problem}" for problem in _edit_problems(step, currency)]
    return step


def _expect(verb: Verb, data: object, *, currency: Currency, problems: list[str], where: str) -> Expect | None:
    if data is None:
        return None
    return _read(verb.expect, data, currency=currency, problems=problems, where=f"{where}: expect")


EDITABLE = ("stock", "offline", "arbiter", "claims_per_second")
"""Keys that an edit may set besides those of the rule."""


def _edit_problems(step: Step, currency: Currency) -> list[str]:
    """Name keys of an edit that no campaign has, unless the step wants to see them refused as `invalid_campaign`."""
    if not isinstance(step.args, Campaign) or (step.expect is not None and step.expect.outcome != "ok"):
        return []
    try:
        changes = to_json(step.args.changes)
    except ValueError as error:
        return [f"set: a value {error}"]
    probe = {"benefit": {"type": "amount_off", "amount": currency.format(1)}, **changes}
    rule = read_rule({key: value for key, value in probe.items() if key not in EDITABLE}, currency)
    if isinstance(rule, Refusal) and rule.facts["reason"] == "is not known":
        return [f"set.{rule.facts['field']}: is not known"]
    return []


def _stranger_problems(world: WorldTable, steps: list[Step]) -> list[str]:
    """Name tills that are not in the file, and steps that would turn time back."""
    tills = {row.id for row in world.till}
    problems = []
    last = world.start
    for step in steps:
        where = f"step {step.number} ({step.verb})"
        if isinstance(step.args, Args) and step.args.till is not None and step.args.till not in tills:
            problems.append(f"{where}: there is no till {step.args.till}")
        if isinstance(step.args, Crash) and step.args.what not in tills | {"server", "redis"}:
            problems.append(f"{where}: what: {step.args.what} is no part; only server, redis or a till can crash")
        if isinstance(step.at, datetime):
            if step.at < last:
                problems.append(f"{where}: at: is before the step before it")
            last = max(last, step.at)
    return problems
