"""Start and end the processes of a run: PostgreSQL, Redis, the servers, the tills, and the lines between them."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import random
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from cli.enrol_command import enrol_till
from cli.exits import Exit
from server.code_key import load_code_key
from server.scenario.founding import Keys, found
from server.services import enrolment
from server.services.services import Services
from server.tls import server_context
from sync.enrolment import show_code
from tests.chaos.callers import Caller, Desk
from tests.chaos.counter import WrongClock
from tests.chaos.memory import WrittenTruth
from tests.chaos.proxy import Balancer, Wire, open_loop
from tests.chaos.till_process import DIARY_FILE, LOG_FILE, live
from tests.chaos.world import Ground
from tests.fakes.redis_server import RedisServer, running
from tests.faults.mortal_postgres import MortalPostgres, mortal_postgres
from tests.faults.mortal_server import MortalServer

CALLERS = 2


_PROCESSES = multiprocessing.get_context("forkserver")
"""Each till is a process of its own, a copy of one that has loaded the code and done nothing yet: it begins at once."""
_PROCESSES.set_forkserver_preload(["tests.chaos.till_process"])


class TillProcess:
    """Hold the process of one till, which is killed and started again; its line and its clock stay."""

    def __init__(self, ground: Ground, till_id: str, wire: Wire, weak: tuple[str, ...]) -> None:
        self.ground, self.id, self.wire, self._weak = ground, till_id, wire, weak
        self.clock = WrongClock(ground.till_folder(till_id) / "clock")
        self.lock = threading.Lock()
        self.bugs: list[str] = []
        self._process: ForkServerProcess | None = None

    def start(self) -> None:
        """Start it on what its folder holds."""
        process = _PROCESSES.Process(target=live, args=(self.ground, self.id, self._weak), name=self.id, daemon=True)
        process.start()
        self._process = process

    @property
    def runs(self) -> bool:
        """Tell whether it runs; one that ended by itself is a bug."""
        if self._process is None:
            return False
        if self._process.is_alive():
            return True
        log = (self.ground.till_folder(self.id) / LOG_FILE).read_text("utf-8", "replace")
        self.bugs.append(f"{self.id} ended by itself ({self._process.exitcode}): {log[-1500:]}")
        self._process = None
        return False

    @property
    def serves(self) -> bool:
        """Tell whether its cashier has begun."""
        return (self.ground.till_folder(self.id) / DIARY_FILE).exists()

    def seen(self) -> Counter[str]:
        """Return how things ended at it, by its diary."""
        lines = (self.ground.till_folder(self.id) / DIARY_FILE).read_text("utf-8", "replace").splitlines()
        return Counter(": ".join(line.split("\t")[2:4]) for line in lines)

    def kill(self) -> None:
        """Kill it with whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


@dataclass
class Chaos:
    """Hold every part of a run."""

    ground: Ground
    server: MortalServer
    keys: Keys
    postgres: MortalPostgres | None
    redis: RedisServer | None
    balancer: Balancer
    tills: list[TillProcess]
    callers: list[Caller] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Founded:
    """Hold a chain that was founded and whose server runs; `codes` are the tills' one-time codes."""

    server: MortalServer
    keys: Keys
    codes: dict[str, str]
    certificate: ssl.SSLContext


@contextlib.contextmanager
def open_chaos(
    ground: Ground, *, large: bool, weak_server: tuple[str, ...] = (), weak_till: tuple[str, ...] = ()
) -> Iterator[Chaos]:
    """Found the chain, start all but the tills' cashiers and the callers, and end what is left in the end.

    `large` = two server processes on PostgreSQL with a Redis, else one on SQLite without. Every till has enrolled.
    """
    with contextlib.ExitStack() as exits:
        postgres = exits.enter_context(mortal_postgres()) if large else None
        redis = None
        settings = {"PAWTILL_WORKERS": "1", "PAWTILL_REDIS_URL": "none"}
        if large:
            lines = ("appendonly yes", "appendfsync everysec")
            redis = exits.enter_context(running(_made(ground.folder / "redis"), *lines))
            settings = {"PAWTILL_WORKERS": "2", "PAWTILL_REDIS_URL": f"redis://127.0.0.1:{redis.port}"}
        url = exits.enter_context(postgres.lend()) if postgres is not None else None
        module = "tests.faults.weakened" if weak_server else "cli.main"
        folder = _made(ground.folder / "server")
        founded = _found(ground, MortalServer(folder, url=url, settings=settings, module=module, weak=weak_server))
        exits.callback(founded.server.stop)
        founded.server.start()
        balancer, tills = _open_tills(ground, founded, weak_till, exits=exits)
        chaos = Chaos(ground, founded.server, founded.keys, postgres, redis, balancer, tills)
        for number in range(1, CALLERS + 1):
            truth = WrittenTruth(ground.journals, f"caller{number}")
            desk = Desk(ground, truth, founded.server, (founded.keys.app, founded.keys.headquarters))
            chaos.callers.append(Caller(desk, f"caller{number}", number))
        exits.callback(lambda: [each.stop() for each in chaos.callers])
        yield chaos


def _found(ground: Ground, server: MortalServer) -> Founded:
    """Found the chain in an empty database."""
    load_code_key(server.folder, database_exists=False)
    _made(ground.journals)
    with server.services() as services:
        keys = found(services, ground.table())
        _found_truth(ground)
        codes = {each.id: _code(services, each.id, each.store or "s1") for each in ground.table().till}
        certificate = server_context(services.chain_key, server.folder, names=["localhost"], now=datetime.now(UTC))
    return Founded(server, keys, codes, certificate)


def _open_tills(
    ground: Ground, founded: Founded, weak: tuple[str, ...], *, exits: contextlib.ExitStack
) -> tuple[Balancer, list[TillProcess]]:
    """Lay the lines, and enrol every till over its own."""
    server, chance = founded.server, random.Random(ground.seed)
    trust = server.trust()
    assert trust is not None, "it speaks TLS"
    loop = exits.enter_context(open_loop())
    balancer = Balancer(loop, lambda: server.port, certificate=founded.certificate, trust=trust, rng=chance)
    exits.callback(balancer.close)
    tills = []
    for name, code in founded.codes.items():
        wire = Wire(loop, lambda: server.port, lambda: balancer.port, random.Random(f"{ground.seed} {name}"))
        exits.callback(wire.close)
        tills.append(TillProcess(ground, name, wire, weak))
        exits.callback(tills[-1].kill)
        _enrol(ground, name, wire, code)
    return balancer, tills


def _code(services: Services, till_id: str, store_id: str) -> str:
    """Return a one-time code for a till."""
    made = services.write(
        lambda conn, ctx: enrolment.make_code(conn, ctx, till_id, store_id=store_id, chain_key=services.chain_key)
    )
    assert isinstance(made, enrolment.NewCode), made
    return show_code(made.code)


def _enrol(ground: Ground, till_id: str, wire: Wire, code: str) -> None:
    """Enrol a till over its line, as a person does; its secrets go into a file, whatever keyring this machine has."""
    said = io.StringIO()
    nowhere = patch.dict(os.environ, PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring")
    with nowhere, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code_of_exit = enrol_till(
            ground.till_folder(till_id), till_id=till_id, server=f"https://127.0.0.1:{wire.port}", code=code
        )
    assert code_of_exit == Exit.OK, said.getvalue()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _found_truth(ground: Ground) -> None:
    """Note what headquarters put on accounts before the first customer came."""
    truth = WrittenTruth(ground.journals, "founding")
    for member in ground.table().member:
        truth.pay_in(f"value:{member.id}", member.stored_value)
    for card in ground.table().punch_card:
        truth.pay_in(f"uses:{card.id}", card.uses)
    truth.journal.close()
