"""Hold one simulated chain: time, server, tills, what physically happened, and a trace of it."""

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from fastapi import FastAPI

import sync.push
from app.domain.refusals import Refusal
from app.services.ports import Offline
from server.db.errors import DatabaseTrouble
from server.jobs import run_due
from server.jobs.issuing import work_off
from server.jobs.quarantine import judge_again
from server.jobs.report import JobReport
from server.scenario import by_name, server_part, till_part
from server.scenario.clock import VirtualClock
from server.scenario.founding import found
from server.scenario.ids import ScenarioIds
from server.scenario.redis_part import RedisPart
from server.scenario.server_part import Unasked, request_for
from server.scenario.tables import START
from server.scenario.world import memory_folder
from server.services import ingest
from server.services.admission import claiming
from server.services.services import Services
from server.simulation import shop
from server.simulation.counters import Counters
from server.simulation.machines import (
    SERVER_FILE,
    TILL_FILE,
    ServerMachine,
    SimulatedStore,
    TillMachine,
    lay_out,
    threadless,
)
from server.simulation.network import Forger, Line
from server.simulation.patching import patched
from server.simulation.plan import Plan
from server.simulation.poison import Bug
from server.simulation.terminal import Terminal
from server.simulation.timeline import Timeline
from server.simulation.truth import Truth
from sync import protocol

TRACE_MAX = 200_000


class Trace:
    """Write down what happened, line by line, with a hash over all of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._hash = hashlib.sha256()

    def add(self, line: str) -> None:
        """Add a line."""
        self._hash.update(line.encode() + b"\n")
        if len(self.lines) < TRACE_MAX:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """Return the hash of every line so far."""
        return self._hash.hexdigest()


class Chain:
    """Run one chain in `folder`. `seen` counts how things ended, by the names that people have for them."""

    def __init__(self, plan: Plan, ground: "Ground", folder: Path) -> None:
        rng = random.Random(plan.chain_seed)
        self.plan, self.table = plan, shop.draw(rng, f"seed {plan.seed}")
        if plan.hot:
            self.table = shop.on_redis(self.table, random.Random(plan.chain_seed))
        self.timeline, self.truth, self.trace = Timeline(self.table.start), Truth(), Trace()
        self.ids = ScenarioIds(self.table.title)
        self.seen: Counter[str] = Counter()
        self.weather, self.forger, self.bug = replace(plan.weather), Forger(), Bug()
        self.folder = folder
        self.on_hold: Callable[[], None] = lambda: None
        """Is called when the server has told a till that an order is held."""
        self.server = ServerMachine(
            lay_out(ground.templates, folder / "server", name=SERVER_FILE, rng=rng),
            timeline=self.timeline,
            app=ground.app,
            store=ground.store,
            ids=self.ids,
            keys=ground.templates,
            counters=Counters(ground.redis) if plan.hot else None,
        )
        self.tills: list[TillMachine] = []
        self.keys = found(self.server.services, self.table)
        self._put_in()
        for row in self.table.till:
            self.tills.append(self._till(row.id, row.store or self.table.default_store, ground=ground, rng=rng))

    def _till(self, till_id: str, store_id: str, *, ground: "Ground", rng: random.Random) -> TillMachine:
        machine = TillMachine(
            lay_out(ground.templates, self.folder / till_id, name=TILL_FILE, rng=rng),
            till_id=till_id,
            store_id=store_id,
            key=self.keys.tills[till_id],
            code_key=self.server.services.code_key,
            app_key=self.keys.app,
            timeline=self.timeline,
            line=Line(self.timeline, self.server, self.weather),
            terminal=Terminal(self.timeline.wait, self.plan.silence),
            ids=self.ids,
            blank=ground.templates / TILL_FILE,
        )
        machine.line.told = self._heard
        machine.line.copied = partial(self.truth.replayed.add, till_id)
        machine.line.lied = partial(self.truth.lied_to.add, till_id)
        calm = random.Random(0)
        machine.line.rng = machine.terminal.rng = calm
        faults, machine.line.weather = machine.line.weather, type(self.weather)()
        if self.plan.signed:
            made = self.ask_office("POST", f"/v1/tills/{till_id}/enrolment-codes", {"store": store_id})
            assert not isinstance(made, Refusal), f"{till_id} stands in a store"
            machine.enrol(made["code"])
            machine.line.forger = self.forger
        machine.engine.run_once()
        machine.line.weather = faults
        return machine

    def _put_in(self) -> None:
        for member in self.table.member:
            self.truth.pay_in(f"value:{member.id}", member.stored_value)
        for card in self.table.punch_card:
            self.truth.pay_in(f"uses:{card.id}", card.uses)

    # -------------------------------------------------------------- what is told

    def note(self, who: str, what: str, how: object, *, detail: str = "") -> None:
        """Write down how something ended; `detail` is for the trace alone."""
        self.seen[f"{what}: {how}"] += 1
        self.trace.add(f"{self.timeline.now_ms} {who} {what} {how} {detail}".rstrip())

    def _heard(self, request: httpx.Request, answer: httpx.Response) -> None:
        """Count what the server said, and note which entries of a ledger it said to know."""
        if request.url.path == protocol.PUSH_PATH and answer.is_success:
            told, asked = answer.json(), json.loads(request.content)
            self.seen.update(f"push: {row['result']} {row['code']}".rstrip() for row in told["results"])
            self.seen[f"push: {told['error']}"] += bool(told["error"])
            pushed = {entry["seq"]: entry["hash"] for entry in asked["entries"]}
            said = ((row["seq"], pushed[row["seq"]]) for row in told["results"])
            self.truth.known.update((asked["till"], asked["epoch"], *place) for place in said)
        elif request.url.path == protocol.HELLO_PATH and answer.is_success:
            told, asked = answer.json(), json.loads(request.content)
            if told["tail"][0]:
                self.truth.known.add((asked["till"], told["epoch"], *told["tail"]))
        elif request.url.path == protocol.ADOPT_PATH and answer.is_success:
            told = answer.json()
            self.seen["adopt: taken over"] += told["leases"] + told["homes"]
        elif request.url.path.endswith("/hold") and answer.is_success:
            self.on_hold()
        elif answer.status_code in (401, 403) and self.plan.signed:
            self.seen[f"refused: {answer.json().get('error')}"] += 1
        elif answer.status_code == 503 and b'"restoring"' in answer.content:
            self.seen["refused: restoring"] += 1

    def till(self, number: int) -> TillMachine:
        """Return one of the tills."""
        return self.tills[number % len(self.tills)]

    def take_in(self, part: TillMachine) -> str | None:
        """Give a till a new name, as by a new code; those before are worthless. None = the server does not answer."""

        def take(services: Services) -> str | Refusal:
            return services.write(lambda conn, ctx: by_name.take_in(conn, ctx, part.id, store_id=part.store_id))

        name = None
        with suppress(DatabaseTrouble):
            name = self.server.run(take)
        assert not isinstance(name, Refusal), f"{part.id} stands in a store"
        self.note("office", "new_key", "no answer" if name is None else "ok")
        return name

    @property
    def now_ms(self) -> int:
        """Return the true time since the start."""
        return self.timeline.now_ms

    @property
    def closes_day(self) -> bool:
        """Tell whether a till gives its rights back all at once in the end, or one by one."""
        return self.plan.seed % 2 == 1

    def run_jobs(self) -> None:
        """Let the server walk its patrols; those that a full disk keeps from it come again."""
        with suppress(DatabaseTrouble):
            for report in self.server.run(_walk) or ():
                self.seen[f"job: {report.name} repaired"] += report.repaired

    def ask_app(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask the server straight, as the chain's app; raises Offline for no answer."""
        return self._ask(method, path, key=self.keys.app, body=body)

    def ask_office(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask the server straight, as headquarters; raises Offline for no answer."""
        return self._ask(method, path, key=self.keys.headquarters, body=body)

    def _ask(self, method: str, path: str, *, key: str, body: Any) -> dict[str, Any] | Refusal:
        try:
            answer = self.server.handle_request(request_for(method, path, key=key, body=body))
        except httpx.TransportError as error:
            raise Offline(str(error)) from None
        data: dict[str, Any] = answer.json() if answer.headers.get("content-type") == "application/json" else {}
        if answer.is_success:
            return data
        if "outcome" not in data:
            raise Unasked(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return Refusal.from_json({"code": data["outcome"], "facts": data.get("facts", {})})

    def close(self) -> None:
        """End every part; what the lines did is counted then."""
        for till in self.tills:
            self.seen.update({f"line: {how}": count for how, count in till.line.seen.items()})
        self.timeline.close()
        for till in self.tills:
            till.stop()
        self.server.stop()
        if self.server.counters is not None:
            self.seen.update(self.server.counters.seen)
            self.server.counters.stop()


def _walk(services: Services) -> list[JobReport]:
    """Walk the patrols, try again what is parked, and work off what is to be issued."""
    reports = [*run_due(services), judge_again(services)]
    work_off(services, rest=lambda _seconds: None)
    return reports


class Seconds:
    """Be the module `time` for what is remembered for a while: it goes by the timeline."""

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self, timeline: Timeline) -> None:
        self.monotonic = timeline.seconds


class Ground:
    """Keep what all chains of a process share: migrated, empty databases, the HTTP application, an open store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.templates = folder, folder / "templates"
        self.templates.mkdir()
        ids = ScenarioIds("template")
        self.app: FastAPI = server_part.make_template(self.templates, VirtualClock(START), ids)
        till_part.make_template(self.templates)
        self.store = SimulatedStore()
        self.redis = RedisPart(folder)
        self._count = 0

    @contextmanager
    def chain(self, plan: Plan) -> Iterator[Chain]:
        """Found the chain of a plan in a folder of its own."""
        self._count += 1
        with TemporaryDirectory(dir=self.folder, prefix=f"{self._count}-") as folder, _pushes(plan.push_max):
            chain = Chain(plan, self, Path(folder))
            try:
                with patched(claiming, "time", Seconds(chain.timeline)), patched(ingest, "judge", chain.bug.judge):
                    yield chain
            finally:
                chain.close()


@contextmanager
def open_ground() -> Iterator[Ground]:
    """Make the ground in memory, where the system has such a place; it goes with everything on it."""
    with memory_folder("pawtill-simulation-") as folder, threadless():
        ground = Ground(folder)
        try:
            yield ground
        finally:
            ground.redis.stop()


@contextmanager
def _pushes(most: int | None) -> Iterator[None]:
    """Let a push carry few entries, so that it ends between a sale and what follows of it; None = as ever."""
    with patched(sync.push, "PUSH_MAX_ENTRIES", most or protocol.PUSH_MAX_ENTRIES):
        yield
