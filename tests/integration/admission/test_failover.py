"""A Sentinel that leads from A to B and back to A, whose counters are older: busy until they are built, none twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from server.services.admission.admission import Admission
from server.services.admission.claiming import Asked
from server.stock.connection import Address
from server.stock.door import Door
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer, running
from tests.integration.stock.test_topologies import eventually

KEPT = "dbfilename dump.rdb"


class Watched:
    """Run A, B and a Sentinel that says which of them is the primary."""

    def __init__(self, stack: ExitStack, folder: Path, *, of_b: str = "", of_sentinel: tuple[str, ...] = ()) -> None:
        self.a = stack.enter_context(running(folder / "a", KEPT, "repl-diskless-sync-delay 0"))
        follows = (f"replicaof 127.0.0.1 {self.a.port}",) if of_b else ()
        self.b = stack.enter_context(running(folder / "b", "repl-diskless-sync-delay 0", *follows))
        watch = f"sentinel monitor main 127.0.0.1 {self.a.port} 1"
        self.sentinel = stack.enter_context(
            running(folder / "sentinel", watch, *of_sentinel, arguments=("--sentinel",))
        )
        self.address = Address("sentinel", (("127.0.0.1", self.sentinel.port),), service="main")

    def name(self, server: RedisServer) -> None:
        """Let the Sentinel name this one from now on, as behind a failover."""
        asked = self.sentinel.client()
        asked.execute_command("SENTINEL", "REMOVE", "main")
        asked.execute_command("SENTINEL", "MONITOR", "main", "127.0.0.1", server.port, 1)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Run them; the Sentinel names who it is told to."""
    with ExitStack() as stack:
        yield Watched(stack, tmp_path)


@pytest.fixture
def office(on_file: Headquarters, watched: Watched) -> Iterator[RedisOffice]:
    """Open the door to the one that the Sentinel names: a campaign of four coupons, m1 has one."""
    opened = RedisOffice(on_file, watched.address)
    on_file.campaign(arbiter="redis", stock=4)
    assert opened.claim("r1", member="m1")["outcome"] == "ok"
    yield opened
    opened.close()


def follow(one: RedisServer, other: RedisServer) -> None:
    """Let one hold what the other has now, and then be on its own."""
    one.client().replicaof("127.0.0.1", other.port)
    eventually(lambda: one.client().info("replication")["master_link_status"] == "up")
    one.client().replicaof("NO", "ONE")


@contextmanager
def unrepaired(admission: Admission) -> Iterator[None]:
    """Let nobody look at Redis meanwhile: it takes no longer than a claim on a machine that has time."""
    looks = threading.Event()
    admission._repairs.submit(looks.wait)
    try:
        yield
    finally:
        looks.set()


def fail_over(office: RedisOffice, request: str, member: str) -> None:
    """Claim where another process is the primary now: busy as often as it is asked, until somebody has looked at it."""
    with unrepaired(office.admission):
        assert [office.claim(request, member=member)["outcome"] for _ in range(2)] == ["busy", "busy"]
    office.settle()


def end_sold_out(office: RedisOffice) -> None:
    """Sell what is left: of four coupons m1, m2 and m3 have one each."""
    assert office.claim("r5", member="m3")["outcome"] == "already_claimed"
    assert office.claim("r6", member="m4")["outcome"] == "ok"
    assert office.claim("r7", member="m5")["outcome"] == "out_of_stock"
    office.assert_sound()
    assert office.held() == {f"m{number}": 1 for number in range(1, 5)}


def _comes_back_from_its_file(watched: Watched) -> None:
    """A has what it had when it died, under the generation of then."""
    watched.a.start()


def _comes_back_from_a_file_of_this_generation(watched: Watched) -> None:
    """A was B's replica for a while, so its file has the generation that is in use, and older counters."""
    watched.a.start()
    follow(watched.a, watched.b)
    watched.a.client().save()
    watched.a.restart()


@pytest.mark.parametrize("come_back", [_comes_back_from_its_file, _comes_back_from_a_file_of_this_generation])
def test_a_first_primary_that_comes_back_with_older_counters_grants_nothing_twice(
    office: RedisOffice, watched: Watched, come_back: Callable[[Watched], None]
) -> None:
    watched.a.client().save()
    watched.a.kill()
    watched.name(watched.b)
    fail_over(office, "r2", "m2")
    assert office.claim("r2", member="m2")["outcome"] == "ok"

    come_back(watched)
    assert office.claim("r3", member="m3")["outcome"] == "ok"
    watched.b.kill()
    watched.name(watched.a)

    fail_over(office, "r4", "m4")
    end_sold_out(office)


def test_a_process_that_missed_the_time_of_the_other_primary_is_busy_until_the_counters_are_built(
    office: RedisOffice, watched: Watched
) -> None:
    sleeper = Admission(office.services, Door(watched.address, prefix=office.prefix))
    sleeper.begin()
    # B is the primary, and A, which never stopped, its replica; only one process hears of it.
    follow(watched.b, watched.a)
    watched.name(watched.b)
    watched.a.client().client_kill_filter(_type="normal", skipme=True)
    fail_over(office, "r2", "m2")
    assert office.claim("r2", member="m2")["outcome"] == "ok"
    follow(watched.a, watched.b)
    assert office.claim("r3", member="m3")["outcome"] == "ok"
    watched.b.kill()
    watched.name(watched.a)

    loop = office.headquarters._loop
    with unrepaired(sleeper):
        refused = [loop.run(sleeper.claim(Asked(f"s{n}", "c1", "m3", "app"))) for n in range(2)]
    sleeper._repairs.submit(lambda: None).result(30)
    answer = loop.run(sleeper.claim(Asked("s2", "c1", "m3", "app")))

    assert [each["outcome"] for each in (*refused, answer)] == ["busy", "busy", "already_claimed"]
    fail_over(office, "r4", "m4")
    end_sold_out(office)
    loop.run(sleeper.aclose())
    sleeper.close()


def test_a_primary_that_became_a_replica_is_left_for_the_one_that_the_sentinel_names(
    office: RedisOffice, watched: Watched
) -> None:
    """A Sentinel ends the connections of whom it takes down; one that does not, or comes late, must not hold us."""
    follow(watched.b, watched.a)
    watched.a.client().replicaof("127.0.0.1", watched.b.port)
    watched.name(watched.b)

    fail_over(office, "r2", "m2")

    assert office.claim("r2", member="m2")["outcome"] == "ok"
    office.assert_sound()


@pytest.mark.long
def test_a_real_failover_there_and_back_to_older_data_grants_nothing_twice(
    on_file: Headquarters, tmp_path: Path
) -> None:
    quick = ("sentinel down-after-milliseconds main 300", "sentinel failover-timeout main 1000")
    with ExitStack() as stack:
        watched = Watched(stack, tmp_path, of_b="replica", of_sentinel=quick)
        eventually(lambda: watched.b.client().info("replication")["master_link_status"] == "up")
        asked = watched.sentinel.client()
        eventually(lambda: asked.execute_command("SENTINEL", "REPLICAS", "main") != [])
        office = RedisOffice(on_file, watched.address)
        on_file.campaign(arbiter="redis", stock=4)
        assert office.claim("r1", member="m1")["outcome"] == "ok"
        watched.a.client().save()

        watched.a.kill()
        _comes_to(office, watched.b, "r2", "m2")
        assert office.claim("r3", member="m3")["outcome"] == "ok"
        watched.b.kill()
        watched.a.start()
        _comes_to(office, watched.a, "r4", "m3", outcome="already_claimed")

        end_sold_out(office)
        office.close()


def _comes_to(office: RedisOffice, server: RedisServer, request: str, member: str, *, outcome: str = "ok") -> None:
    """Claim until the Sentinel has led there; until the counters are built every answer is busy."""
    answers = []

    def decided() -> bool:
        answers.append(office.claim(request, member=member)["outcome"])
        office.settle()
        return answers[-1] != "busy"

    eventually(decided, within_s=60)
    assert (set(answers[:-1]), answers[-1]) == ({"busy"}, outcome)
    assert office.door is not None
    assert office.door.look().run_ids == {"": server.client().info("server")["run_id"]}
