"""Do what a scenario's steps say about batch issue: issue, resume."""

from app.domain.refusals import Refusal
from server.jobs.issuing import work_off
from server.scenario.comparing import Came
from server.scenario.steps import Issue, Resume
from server.scenario.verbs_coupons import refusal_came
from server.scenario.world import World


def issue(world: World, args: Issue) -> Came:
    """Create a task, and work it off: to its end, or until the worker dies behind so many chunks."""
    world.issues[args.task] = args
    body = {"task": args.task, "campaign": args.campaign, "members": args.members, "chunk": args.chunk}
    with world.server.fuse.lit():
        answer = world.server.call("POST", "/v1/issues", key=world.keys.headquarters, body=body)
        if isinstance(answer, Refusal):
            return refusal_came(answer)
        work_off(world.server.services, die_after=args.stop_after, rest=_rest)
    return _totals(world, args.task)


def resume(world: World, args: Resume) -> Came:
    """Go on with a task; one that is done has nothing left to do."""
    with world.server.fuse.lit():
        task = world.server.call("GET", f"/v1/issues/{args.task}", key=world.keys.headquarters, body=None)
        if not isinstance(task, Refusal) and task["state"] != "DONE":
            task = world.server.call("POST", f"/v1/issues/{args.task}/resume", key=world.keys.headquarters, body={})
        if isinstance(task, Refusal):
            return refusal_came(task)
        work_off(world.server.services, rest=_rest)
    return _totals(world, args.task)


def _totals(world: World, task_id: str) -> Came:
    """Tell the task's totals, and name the coupons that it has granted."""
    asked = world.issues.get(task_id)
    if asked is not None and asked.name is not None:
        for member in dict.fromkeys(asked.members):
            _name(world, asked.name, member, source=f"issue:{task_id}")
    answer = world.server.call("GET", f"/v1/issues/{task_id}", key=world.keys.headquarters, body=None)
    if isinstance(answer, Refusal):
        return refusal_came(answer)
    return {"outcome": "ok", "granted": answer["granted"], "failed": answer["failed"], "state": answer["state"]}


def _name(world: World, name: str, member: str, *, source: str) -> None:
    found = world.server.call("GET", f"/v1/members/{member}/coupons", key=world.keys.app, body=None)
    if isinstance(found, Refusal):
        return
    for coupon in found["coupons"]:
        if coupon["source"] == source:
            world.names.add(f"{name}:{member}", coupon["coupon"], coupon["code"])


def _rest(_seconds: float) -> None:
    """Rest for nobody: the clock stands still."""
