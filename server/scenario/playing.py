"""Play a scenario step by step, and compare what came with what was expected."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from app.domain.money import Currency
from app.services.ports import Busy, Offline
from server.scenario import verbs_coupons, verbs_issue, verbs_machines, verbs_orders, verbs_rights
from server.scenario.comparing import Came, differences, named
from server.scenario.crash import ProcessDied
from server.scenario.founding import Unfounded
from server.scenario.reading import Scenario
from server.scenario.steps import Step
from server.scenario.values import NO_ANSWER
from server.scenario.verbs_coupons import trouble_came
from server.scenario.world import Workshop, World

# Each takes the arguments that `steps.VERBS` pairs with its name.
_DO: Mapping[str, Callable[[World, Any], Came]] = {
    "claim": verbs_coupons.claim,
    "storm": verbs_coupons.storm,
    "issue": verbs_issue.issue,
    "resume": verbs_issue.resume,
    "campaign": verbs_coupons.campaign,
    "revoke": verbs_coupons.revoke,
    "scan": verbs_coupons.scan,
    "quote": verbs_orders.quote,
    "checkout": verbs_orders.checkout,
    "pay": verbs_orders.pay,
    "cancel": verbs_orders.cancel,
    "refund": verbs_orders.refund,
    "link": verbs_machines.link,
    "sync": verbs_machines.sync,
    "lease": verbs_rights.lease,
    "unlease": verbs_rights.unlease,
    "reclaim": verbs_rights.reclaim,
    "strand": verbs_rights.strand,
    "revoke_till": verbs_rights.revoke_till,
    "judge": verbs_rights.judge,
    "renew": verbs_rights.renew,
    "approve": verbs_rights.approve,
    "close_day": verbs_rights.close_day,
    "crash": verbs_machines.crash,
    "skew": verbs_machines.skew,
    "wait": verbs_machines.wait,
    "jobs": verbs_machines.jobs,
    "check": verbs_machines.check,
}
_SETTINGS = frozenset({"crash", "link", "skew", "wait"})
"""Verbs that do nothing at which a part could die: a crash that was armed waits for the step behind them."""


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """Hold one step with what came; `problems` are the differences to what was expected."""

    step: Step
    at: datetime
    came: Came
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """Hold a scenario that was played; no problems = passed.

    `currency` is None where the file was not understood; `zone` is the chain's, for people who read times.
    """

    path: str
    title: str
    problems: tuple[str, ...] = ()
    steps: tuple[PlayedStep, ...] = ()
    currency: Currency | None = None
    zone: tzinfo = UTC


def play(path: str, scenario: Scenario, workshop: Workshop) -> Played:
    """Play all steps; a step that goes wrong stops nothing, since each later one tells more."""
    currency = scenario.world.currency
    played: list[PlayedStep] = []
    try:
        with workshop.world(scenario.world) as world:
            for step in scenario.steps:
                played.append(_play_step(world, step))
    except Unfounded as error:
        return Played(path, scenario.title, problems=(str(error),), currency=currency)
    except Exception as bug:
        return Played(path, scenario.title, problems=(_failed(bug),), currency=currency)
    problems = [
        f"step {done.step.number} ({done.step.verb}): {problem}" for done in played for problem in done.problems
    ]
    zone = ZoneInfo(scenario.world.chain.timezone)
    return Played(path, scenario.title, problems=tuple(problems), steps=tuple(played), currency=currency, zone=zone)


def _play_step(world: World, step: Step) -> PlayedStep:
    world.revive()
    world.server.bugs.clear()
    if isinstance(step.at, timedelta):
        world.clock.advance(step.at)
    elif step.at is not None and not world.clock.move_to(step.at):
        return PlayedStep(step, world.clock.now(), {}, problems=("at: has passed already",))
    world.wanted = frozenset(step.expect.model_fields_set) if step.expect else frozenset()
    came, bugs = _do(world, step)
    if step.verb not in _SETTINGS:
        world.disarm()
    problems = [*bugs, *world.server.bugs]
    if step.expect is not None:
        problems += differences(named(step.expect), came, world.currency)
    return PlayedStep(step, world.clock.now(), came, problems=tuple(problems))


def _do(world: World, step: Step) -> tuple[Came, list[str]]:
    """Do the step; an error that no part should have let out is named and fails the step."""
    lost = world.lost()
    try:
        came = _DO[step.verb](world, step.args)
    except ProcessDied:
        came = {"outcome": NO_ANSWER}
    except (Offline, Busy) as trouble:
        came = trouble_came(trouble)
    except Exception as bug:
        return {}, [_failed(bug)]
    if came["outcome"] == "needs_online" and (world.lost() > lost or world.server.fuse.died):
        came = {**came, "outcome": NO_ANSWER}
    return came, []


def _failed(bug: Exception) -> str:
    """Name a bug of ours and where it is; a scenario never ends in a traceback."""
    last = traceback.extract_tb(bug.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return f"the runner or a till failed: {type(bug).__name__} at {where}: {str(bug).partition(chr(10))[0]}"
