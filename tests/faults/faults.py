"""The faults: each strikes a real shop in the middle of a sale, at moments that chance names."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.receiver import Receiver, receiver
from tests.fakes.redis_server import RedisServer, running
from tests.faults.callers import Crowd
from tests.faults.mortal_postgres import MortalPostgres, mortal_postgres
from tests.faults.proof import PATIENCE_S, Outcome, prove
from tests.faults.shop import CAMPAIGN, Sale, Shop, open_shop

_MOMENT_S = 0.02
"""Chance's share beside the count of answers: a batch lands in less."""
_WEBHOOK_SECRET = "0123456789abcdef"


@dataclass(slots=True)
class Ground:
    """Hold what several sales share: a folder, chance, and a PostgreSQL that is started when it is first wanted.

    `down_s`: how long a database stays away.
    """

    folder: Path
    chance: random.Random
    exits: contextlib.ExitStack
    down_s: float
    made: int = 0
    _postgres: MortalPostgres | None = None

    @property
    def postgres(self) -> MortalPostgres:
        """Return the PostgreSQL."""
        if self._postgres is None:
            self._postgres = self.exits.enter_context(mortal_postgres())
        return self._postgres

    def new_folder(self, name: str) -> Path:
        """Return an empty folder."""
        self.made += 1
        folder = self.folder / f"{name}{self.made}"
        folder.mkdir(parents=True)
        return folder


@contextlib.contextmanager
def open_ground(folder: Path, seed: int, *, down_s: float = 2.0) -> Iterator[Ground]:
    """Open one, and end what it started."""
    with contextlib.ExitStack() as exits:
        yield Ground(folder, random.Random(seed), exits, down_s)


@dataclass(slots=True)
class Scene:
    """Hold what a strike may strike; `redis` None = the shop has the bundled one."""

    ground: Ground
    shop: Shop
    crowd: Crowd
    redis: RedisServer | None
    other_end: Receiver
    _kept: Path | None = None

    # -------------------------------------------------------------- processes that are killed

    def kill_server(self) -> None:
        """Kill the only server: with it die its batch worker and its bundled Redis."""
        self.shop.kill()
        self.shop.start()
        self.shop.resume_task()

    def kill_worker(self) -> None:
        """Kill one of two server processes."""
        self.shop.until(lambda: len(self.shop.worker_pids()) == 2, "the dead one was not replaced")
        os.kill(self.ground.chance.choice(self.shop.worker_pids()), signal.SIGKILL)

    def kill_redis(self) -> None:
        """Kill Redis; the bundled one is started again by its server, another one by us, on what its file has."""
        if self.redis is not None:
            self.redis.restart()
            return
        self.shop.until(lambda: len(self.shop.redis_pids()) == 1, "it is not started again")
        os.kill(self.shop.redis_pids()[0], signal.SIGKILL)

    # -------------------------------------------------------------- a Redis that forgets

    def keep_snapshot(self) -> None:
        """Copy the files of Redis as they are now."""
        self._kept = self._redis.folder.with_name(f"{self._redis.folder.name}-kept")
        shutil.copytree(self._redis.folder, self._kept)

    def restore_snapshot(self) -> None:
        """Let Redis come back with the files that were kept: its generation is right, its counters are old."""
        assert self._kept is not None, "kept earlier in the sale"
        self._redis.kill()
        shutil.rmtree(self._redis.folder)
        self._kept.rename(self._redis.folder)
        self._redis.start()

    def empty_redis(self) -> None:
        """Empty Redis while it goes on running."""
        self._redis.client().flushall()

    def delete_key(self) -> None:
        """Delete one key of the campaign, any of its five."""
        self._redis.client().delete(f"{{inv:{CAMPAIGN}}}:{self.ground.chance.choice('hruds')}")

    @property
    def _redis(self) -> RedisServer:
        assert self.redis is not None, "this strikes a Redis that we run"
        return self.redis

    # -------------------------------------------------------------- a database that is away

    def kill_database(self) -> None:
        """Kill PostgreSQL with whatever it is doing, leave it dead for a while, and start it again."""
        self.ground.postgres.kill()
        time.sleep(self.ground.down_s)
        self.ground.postgres.start()

    def hang_database(self) -> None:
        """Let PostgreSQL stand still for a while, its connections open."""
        self.ground.postgres.hang()
        time.sleep(self.ground.down_s)
        self.ground.postgres.go_on()

    def fill_disk(self) -> None:
        """Let no file of the server grow until somebody was told to wait: to it every write fails as on a full disk."""
        resource.prlimit(self.shop.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        seen = self.crowd.heard.troubles["503"]
        self.shop.until(lambda: self.crowd.heard.troubles["503"] > seen or not self.crowd.asking, "nobody was told")
        resource.prlimit(self.shop.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    # -------------------------------------------------------------- a consumer that hangs

    def wait_for_alert(self) -> None:
        """Wait until an alert is on its way to a receiver that never answers: the stock is nearly out."""
        assert self.other_end.asked.wait(PATIENCE_S), "no alert was sent: the consumer hangs at nothing"


Strike = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """Name the strikes of one sale, in order. `large` = two processes on PostgreSQL, else one on SQLite.

    `bundled` = with the bundled Redis, which ends with its server. `listed` members get theirs by a batch meanwhile.
    `early`: every third caller takes 202 for a first answer.
    """

    strikes: Sequence[Strike]
    large: bool = False
    bundled: bool = False
    listed: int = 60
    early: bool = True
    arbiter: str = "redis"


def play(
    ground: Ground, fault: Fault, *, weak: tuple[str, ...] = (), prepare: Callable[[Shop], None] | None = None
) -> Outcome:
    """Let the crowd come, strike, wait until everybody was answered, and prove.

    `weak` names guards that the servers run without; `prepare` comes before they start.
    """
    sale = Sale(listed=fault.listed, arbiter=fault.arbiter)
    with contextlib.ExitStack() as exits:
        other_end = exits.enter_context(receiver())
        other_end.status = 0
        settings = {"PAWTILL_ALERT_URL": other_end.url, "PAWTILL_ALERT_SECRET": _WEBHOOK_SECRET}
        redis = None
        if not fault.bundled:
            lines = ("appendonly yes", "appendfsync everysec")
            redis = exits.enter_context(running(ground.new_folder("redis"), *lines))
            settings["PAWTILL_REDIS_URL"] = f"redis://127.0.0.1:{redis.port}"
        url = exits.enter_context(ground.postgres.lend()) if fault.large else None
        settings["PAWTILL_WORKERS"] = "2" if fault.large else "1"
        shop = Shop(ground.new_folder("shop"), sale, url=url, settings=settings, weak=weak)
        if prepare is not None:
            prepare(shop)
        exits.enter_context(open_shop(shop))
        crowd = Crowd(lambda: shop.port, shop.app_key, CAMPAIGN)
        scene = Scene(ground, shop, crowd, redis, other_end)
        crowd.begin(sale.asked(), early=fault.early)
        # The sale is sold out by then; whoever still asks comes in vain.
        for number, strike in enumerate(fault.strikes):
            part = (number + ground.chance.uniform(0.1, 0.9)) / len(fault.strikes) * 0.6
            crowd.wait_for(int(part * len(sale.asked())), patience_s=PATIENCE_S)
            time.sleep(ground.chance.uniform(0, _MOMENT_S))
            strike(scene)
        return prove(shop, crowd.finish(patience_s=PATIENCE_S))


FAULTS = {
    "server killed (SQLite)": Fault([Scene.kill_server] * 3, bundled=True),
    "one of two servers killed": Fault([Scene.kill_worker] * 3, large=True),
    "bundled Redis killed": Fault([Scene.kill_redis] * 3, bundled=True),
    "Redis killed": Fault([Scene.kill_redis] * 3, large=True),
    "Redis from an old snapshot": Fault([Scene.keep_snapshot, Scene.restore_snapshot], large=True),
    "Redis emptied": Fault([Scene.empty_redis] * 3, large=True),
    "a key of Redis deleted": Fault([Scene.delete_key] * 5, large=True),
    "PostgreSQL killed": Fault([Scene.kill_database], large=True),
    "PostgreSQL hangs": Fault([Scene.hang_database], large=True),
    "disk full (SQLite)": Fault([Scene.fill_disk] * 2),
    "consumer hangs": Fault([Scene.wait_for_alert], bundled=True),
}
"""The long form: each by itself, again and again (`python -m tests.faults`)."""

ELSEWHERE = {"two schedulers": "tests/integration/server/test_lease_processes.py"}
"""Faults whose tests stand elsewhere."""
