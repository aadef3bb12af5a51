"""A real cluster of three nodes, a real Sentinel with a replica, and what a failover or a restart must not do."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from server.stock import scripts
from server.stock.connection import Acquaintance, Address, aclose, close, connect, connect_async, read_address
from server.stock.pipeline import AsyncStock, BlockingStock
from server.stock.scripts import End, Keys, Reserved
from server.stock.suitability import look
from server.stock.trouble import StockReadOnly, StockRestarted, StockTrouble
from tests.fakes.redis_server import RedisServer, acquainted, running
from tests.integration.stock.sale import KEYS, open_sale, reservation, standing

SLOTS = 16384


def eventually(holds: Callable[[], bool], *, within_s: float = 20.0) -> None:
    """Wait for what other processes agree on among themselves."""
    deadline = time.monotonic() + within_s

    def held() -> bool:
        try:
            return holds()
        except redis.RedisError:
            return False

    while not held():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, list[RedisServer]]]:
    """Run three nodes with a third of the slots each."""
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(running(folder / str(n), "cluster-enabled yes", "cluster-node-timeout 2000"))
            for n in range(3)
        ]
        for number, node in enumerate(nodes):
            first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            node.client().execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.client().execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            node.client().execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        eventually(lambda: all(_whole(node) for node in nodes))
        yield Address("cluster", tuple(("127.0.0.1", node.port) for node in nodes)), nodes


def _whole(node: RedisServer) -> bool:
    info = node.client().execute_command("CLUSTER", "INFO")
    text = info if isinstance(info, dict) else dict(each.split(":", 1) for each in info.decode().split() if ":" in each)
    return text["cluster_state"] == "ok" and int(text["cluster_known_nodes"]) == 3


def test_a_node_of_a_cluster_that_is_named_as_a_single_server_is_not_used(
    cluster: tuple[Address, list[RedisServer]],
) -> None:
    address, nodes = cluster

    assert [each.word for each in look(nodes[0].client()).problems if each.forbids] == ["in_cluster"]
    assert look(connect(address, None)).forbidden is None


CAMPAIGNS = [f"c{number}" for number in range(12)]


def test_a_cluster_carries_every_script_of_every_campaign(cluster: tuple[Address, list[RedisServer]]) -> None:
    address, nodes = cluster
    stock, _ = acquainted(address)

    for campaign in CAMPAIGNS:
        keys = Keys(campaign)
        open_sale(stock, keys=keys, total=2, held={"m0": 1}, available=2)
        granted = stock.run(scripts.reserve(keys, 1, reservation()))
        refused = stock.run(scripts.reserve(keys, 1, reservation("r2", "m2")))
        assert isinstance(granted, Reserved) and isinstance(refused, Reserved)
        assert stock.run(scripts.confirm(keys, 1, [("r1", granted.token)])) == [End.OK]
        assert stock.run(scripts.release(keys, 1, [("r2", refused.token)])) == [End.OK]
        stock.run(scripts.adjust(keys, version=2, units=-1, members={"m3": 1}))
        assert standing(stock, keys=keys).available == 0

    assert all(node.client().dbsize() > 0 for node in nodes)


def test_a_pipeline_over_all_nodes_gives_each_caller_its_own_answer(
    cluster: tuple[Address, list[RedisServer]],
) -> None:
    address, _ = cluster
    stock, acquaintance = acquainted(address)
    for campaign in CAMPAIGNS:
        stock.client.delete(*Keys(campaign).all)
        open_sale(stock, keys=Keys(campaign), total=5)
    for node in stock.client.get_primaries():
        stock.client.get_redis_connection(node).script_flush()

    async def ask() -> list[Any]:
        together = AsyncStock(connect_async(address, acquaintance))
        try:
            return await asyncio.gather(
                *(
                    together.run(scripts.reserve(Keys(campaign), 1, reservation(f"{campaign}-{n}", f"m{n}")))
                    for n in range(8)
                    for campaign in CAMPAIGNS
                )
            )
        finally:
            await aclose(together.client)

    answers = asyncio.run(ask())

    assert sum(isinstance(each, Reserved) for each in answers) == 5 * len(CAMPAIGNS)
    assert {standing(stock, keys=Keys(campaign)).units for campaign in CAMPAIGNS} == {5}


def test_a_node_that_was_restarted_is_refused_until_somebody_looks(
    cluster: tuple[Address, list[RedisServer]],
) -> None:
    address, nodes = cluster
    stock, acquaintance = acquainted(address)
    keys = next(Keys(c) for c in CAMPAIGNS if stock.client.get_node_from_key(Keys(c).key("h")).port == nodes[0].port)
    before = look(connect(address, None)).run_ids
    nodes[0].restart()
    eventually(lambda: all(_whole(node) for node in nodes))

    with pytest.raises(StockTrouble):
        standing(stock, keys=keys)
    with pytest.raises(StockRestarted):
        standing(stock, keys=keys)
    after = look(connect(address, None)).run_ids
    changed = {name for name in after if after[name] != before[name]}
    acquaintance.accept(frozenset(after.values()))

    assert changed == {f"127.0.0.1:{nodes[0].port}"}
    assert isinstance(standing(stock, keys=keys), scripts.Fault)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
    """Run a primary and its replica."""
    with ExitStack() as stack:
        primary = stack.enter_context(running(tmp_path / "primary", "repl-diskless-sync-delay 0"))
        replica = stack.enter_context(running(tmp_path / "replica", f"replicaof 127.0.0.1 {primary.port}"))
        eventually(lambda: replica.client().info("replication")["master_link_status"] == "up")
        yield primary, replica


def test_a_replica_is_named_at_the_start_and_takes_nothing(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, replica = pair
    open_sale(acquainted(primary.address)[0])
    primary.client().execute_command("WAIT", 1, 2000)

    stock, _ = acquainted(replica.address)

    assert [each.word for each in look(replica.client()).problems if each.forbids] == ["replica"]
    with pytest.raises(StockReadOnly):
        stock.run(scripts.reserve(KEYS, 1, reservation()))


def test_a_sentinel_leads_to_the_new_primary_which_nobody_has_looked_at(
    pair: tuple[RedisServer, RedisServer], tmp_path: Path
) -> None:
    primary, replica = pair
    watch = (
        f"sentinel monitor main 127.0.0.1 {primary.port} 1",
        "sentinel down-after-milliseconds main 300",
        "sentinel failover-timeout main 2000",
    )
    with running(tmp_path / "sentinel", *watch, arguments=("--sentinel",)) as sentinel:
        address = Address("sentinel", (("127.0.0.1", sentinel.port),), service="main")
        eventually(lambda: sentinel.client().execute_command("SENTINEL", "REPLICAS", "main") != [])
        stock, acquaintance = acquainted(address)
        open_sale(stock)
        primary.client().execute_command("WAIT", 1, 2000)

        primary.kill()
        eventually(lambda: replica.client().info("replication")["role"] == "master")

        def refused() -> bool:
            try:
                stock.run(scripts.reserve(KEYS, 1, reservation()))
            except StockRestarted:
                return True
            except (StockTrouble, redis.RedisError):
                return False
            raise AssertionError("it ran on a process that nobody has looked at")

        eventually(refused)
        assert acquaintance.wants_look
        acquaintance.accept(frozenset(look(connect(address, None)).run_ids.values()))
        assert isinstance(stock.run(scripts.reserve(KEYS, 1, reservation())), Reserved)


def ping(address: Address) -> None:
    """Ask by both clients."""

    async def ask() -> None:
        acquaintance = Acquaintance()
        acquaintance.accept(frozenset(look(connect(address, None)).run_ids.values()))
        client = connect_async(address, acquaintance)
        try:
            assert await client.ping()
        finally:
            await aclose(client)

    client = connect(address, None)
    try:
        assert client.ping()
    finally:
        close(client)
    asyncio.run(ask())


def test_sentinels_let_in_by_a_name_and_password_of_their_own(tmp_path: Path) -> None:
    with running(tmp_path / "redis", "requirepass safe", login=(None, "safe")) as primary:
        watch = (f"sentinel monitor main 127.0.0.1 {primary.port} 1", "sentinel auth-pass main safe")
        users = ("user default off", "user watcher on >to/wer +@all ~* &*")
        names = {"arguments": ("--sentinel",), "login": ("watcher", "to/wer")}
        with running(tmp_path / "sentinel", *watch, *users, **names) as sentinel:
            url = f"redis+sentinel://:safe@127.0.0.1:{sentinel.port}/main"

            ping(read_address(f"{url}?sentinel_username=watcher&sentinel_password=to%2Fwer"))

            for wrong in ("", "?sentinel_username=watcher&sentinel_password=safe", "?sentinel_password=to%2Fwer"):
                with pytest.raises(redis.RedisError):
                    ping(read_address(url + wrong))


@pytest.fixture
def hanging_up() -> Iterator[tuple[int, list[socket.socket]]]:
    """Hang up on everybody; yields the port and the calls so far."""
    calls: list[socket.socket] = []

    def answer() -> None:
        with suppress(OSError):
            while True:
                calls.append(listening.accept()[0])
                calls[-1].close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1], calls
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_sentinel_that_hangs_up_is_called_once_and_nobody_waits_for_it(
    hanging_up: tuple[int, list[socket.socket]],
) -> None:
    port, calls = hanging_up
    address = Address("sentinel", (("127.0.0.1", port),), service="main")

    async def ask() -> None:
        client = connect_async(address, Acquaintance())
        try:
            await client.ping()
        finally:
            await aclose(client)

    with pytest.raises(redis.ConnectionError):
        connect(address, None).ping()
    with pytest.raises(redis.ConnectionError):
        asyncio.run(ask())

    assert len(calls) == 2


def test_a_connection_is_made_only_to_who_was_looked_at(redis_server: RedisServer) -> None:
    stranger = BlockingStock(connect(redis_server.address, Acquaintance()))

    with pytest.raises(StockRestarted):
        standing(stranger)
