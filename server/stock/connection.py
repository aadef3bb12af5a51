"""Connect to Redis: one server, a Sentinel's master, or a Cluster; from asyncio and from threads.

redis-py 8 repeats commands ten times by default, and connects anew without a word. Neither is for us: a caller hears
"not now" at once, and no script runs on a Redis process that nobody has looked at. A Redis that came back from an older
snapshot still knows its generation, so the generation alone would let it sell the same units again; its `run_id` is
new, and `Acquaintance` refuses every connection to it until the campaigns on it were compared (PROTOCOL 5.2).
"""

import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from server.stock.trouble import Restarted

TIMEOUT_S = 2.0
"""Above what any script takes, below what a person waits; a busy answer is better than none."""
CONNECTIONS_MAX = 128
"""More than a process has threads that ask at once: who finds none left is refused, as if Redis were away."""


class BadAddress(ValueError):
    """Say what is wrong with the setting that names Redis; the message holds no password."""


@dataclass(frozen=True, slots=True)
class Address:
    """Hold where Redis is: `kind` is unix, single, sentinel or cluster. No secret is ever shown.

    `hosts` are (name, port) pairs; `service` is the Sentinel's name of the master; `path` the unix socket's. `user` and
    `secret` are for the server that holds data, `sentinel_user` and `sentinel_secret` for those who name it.
    """

    kind: str
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    tls: bool = False
    user: str | None = None
    secret: str | None = field(default=None, repr=False)
    sentinel_user: str | None = None
    sentinel_secret: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Name it for people, without what is secret."""
        places = ",".join(f"{host}:{port}" for host, port in self.hosts) or self.path
        return f"{self.kind} {places}" + (f" {self.service}" if self.service else "")


_KINDS = {
    "redis": ("single", False, 6379),
    "rediss": ("single", True, 6379),
    "redis+sentinel": ("sentinel", False, 26379),
    "rediss+sentinel": ("sentinel", True, 26379),
    "redis+cluster": ("cluster", False, 6379),
    "rediss+cluster": ("cluster", True, 6379),
}


def read_address(url: str) -> Address:
    """Read `redis://[user:secret@]host[:port][/db]`, several hosts with commas for redis+cluster:// and for
    `redis+sentinel://hosts/service[/db][?sentinel_username=...&sentinel_password=...]`; rediss... for TLS. What a part
    holds of another one's marks is percent-encoded. Raises BadAddress.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in _KINDS or not rest:
        raise BadAddress(f"redis_url must begin with one of {', '.join(f'{each}://' for each in _KINDS)}")
    kind, tls, port = _KINDS[scheme]
    netloc, _, path = rest.partition("/")
    login, _, places = netloc.rpartition("@")
    user, _, secret = login.partition(":")
    places, _, query = f"{places}/{path}".partition("?")
    names, *inner = places.split("/")
    hosts = tuple(_host(name, port) for name in names.split(","))
    parts = [unquote(part) for part in inner if part]
    service = parts.pop(0) if kind == "sentinel" and parts else ""
    if kind == "sentinel" and not service:
        raise BadAddress("redis_url: name the master that the Sentinels watch, as redis+sentinel://HOST/MASTER")
    db = parts.pop(0) if parts else "0"
    if parts or not db.isdecimal():
        raise BadAddress("redis_url: the database is a number, as redis://HOST/0")
    if kind == "cluster" and db != "0":
        raise BadAddress("redis_url: a Cluster has no database but 0")
    if kind == "single" and len(hosts) > 1:
        raise BadAddress("redis_url: several hosts belong to redis+sentinel:// or redis+cluster://")
    return Address(
        kind,
        hosts,
        service=service,
        db=int(db),
        tls=tls,
        user=unquote(user) or None,
        secret=unquote(secret) or None,
        **_sentinel_login(query, kind),
    )


_LOGIN = {"sentinel_username": "sentinel_user", "sentinel_password": "sentinel_secret"}


def _sentinel_login(query: str, kind: str) -> dict[str, str]:
    """Read what stands behind the question mark; what nobody would heed is refused, not passed over."""
    given = [part.partition("=") for part in query.split("&") if part]
    if given and (kind != "sentinel" or any(name not in _LOGIN for name, _, _ in given)):
        raise BadAddress(f"redis_url: behind ? stand {' and '.join(_LOGIN)}, of redis+sentinel:// alone")
    return {_LOGIN[name]: unquote(value) for name, _, value in given}


def _host(text: str, port: int) -> tuple[str, int]:
    try:
        split = urlsplit(f"//{text}")
        host, number = split.hostname, split.port
    except ValueError:
        host, number = None, None
    if not host:
        raise BadAddress("redis_url: name a host, and its port as a number")
    return host, number or port


class Acquaintance:
    """Remember which Redis processes (by run_id) were looked at; every new connection is asked for its own.

    Safe from any thread. `wants_look` tells that a connection was refused since the last `accept`.
    """

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.wants_look = True

    def accept(self, run_ids: frozenset[str]) -> None:
        """Let connections to exactly these processes pass from now on."""
        with self._lock:
            self._known = run_ids
            self.wants_look = False

    def knows(self, run_id: str) -> bool:
        """Tell whether this process was among those that were looked at last."""
        return run_id in self._known

    def check(self, run_id: str) -> None:
        """Pass, or raise Restarted for one that nobody has looked at."""
        if not self.knows(run_id):
            self.wants_look = True
            raise Restarted(f"run_id {run_id[:8]} was not looked at")

    async def greet(self, connection: Any) -> None:
        """Be the `redis_connect_func` of an asyncio connection."""
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        self.check(run_id_in(await connection.read_response()))

    def greet_at_once(self, connection: Any) -> None:
        """Be the `redis_connect_func` of a blocking connection."""
        connection.on_connect()
        connection.send_command("INFO", "server")
        self.check(run_id_in(connection.read_response()))


def run_id_in(info: Any) -> str:
    """Find the run_id in the answer to INFO server; "" where there is none."""
    text = info.decode() if isinstance(info, bytes) else str(info)
    return next((line[7:].strip() for line in text.splitlines() if line.startswith("run_id:")), "")


def _shared(address: Address) -> dict[str, Any]:
    return {
        "username": address.user,
        "password": address.secret,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
    }


def _tls(address: Address) -> Mapping[str, Any]:
    return {"ssl": True, "ssl_min_version": ssl.TLSVersion.TLSv1_2} if address.tls else {}


def _of_sentinels(address: Address) -> dict[str, Any]:
    """Return how the Sentinels themselves are spoken to: who can speak for one names the server that is believed."""
    login = {"username": address.sentinel_user, "password": address.sentinel_secret}
    return {**login, "socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S, **_tls(address)}


def connect(address: Address, acquaintance: Acquaintance | None) -> Any:
    """Make a blocking client; it connects when it is used. `acquaintance` None = for the one who does the looking."""
    greet: dict[str, Any] = {"redis_connect_func": acquaintance.greet_at_once} if acquaintance else {}
    more = {**_shared(address), "retry": Retry(NoBackoff(), 0), "max_connections": CONNECTIONS_MAX, **greet}
    if address.kind == "unix":
        return redis.Redis(unix_socket_path=address.path, db=address.db, **more)
    if address.kind == "sentinel":
        asked = {**_of_sentinels(address), "retry": Retry(NoBackoff(), 0)}
        sentinel = redis.Sentinel(list(address.hosts), sentinel_kwargs=asked, **_tls(address))  # type: ignore[no-untyped-call]
        return sentinel.master_for(address.service, db=address.db, **more)  # type: ignore[no-untyped-call]
    if address.kind == "cluster":
        nodes = [redis.cluster.ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        return redis.RedisCluster(startup_nodes=nodes, require_full_coverage=True, **more, **_tls(address))
    host, port = address.hosts[0]
    return redis.Redis(host=host, port=port, db=address.db, **more, **_tls(address))


def connect_async(address: Address, acquaintance: Acquaintance) -> Any:
    """Make an asyncio client; it belongs to the loop that it is first used on."""
    greet: dict[str, Any] = {"redis_connect_func": acquaintance.greet}
    more = {**_shared(address), "retry": AsyncRetry(NoBackoff(), 0), "max_connections": CONNECTIONS_MAX}
    if address.kind == "unix":
        return redis.asyncio.Redis(unix_socket_path=address.path, db=address.db, **more, **greet)
    if address.kind == "sentinel":
        asked = {**_of_sentinels(address), "retry": AsyncRetry(NoBackoff(), 0)}
        sentinel = redis.asyncio.Sentinel(list(address.hosts), sentinel_kwargs=asked, **_tls(address))  # type: ignore[no-untyped-call]
        return sentinel.master_for(address.service, db=address.db, **more, **greet)
    if address.kind == "cluster":
        nodes = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in address.hosts]
        client = redis.asyncio.RedisCluster(startup_nodes=nodes, **more, **_tls(address))
        # This client takes no such argument; its nodes do, those that it knows already and those that it will find.
        client.nodes_manager.connection_kwargs.update(greet)
        for node in client.nodes_manager.startup_nodes.values():
            node.connection_kwargs.update(greet)
        return client
    host, port = address.hosts[0]
    return redis.asyncio.Redis(host=host, port=port, db=address.db, **more, **greet, **_tls(address))


def _sentinels(client: Any) -> list[Any]:
    """Return the clients of the Sentinels that a client asks, which it does not close with itself."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return list(manager.sentinels) if manager is not None else []


def close(client: Any) -> None:
    """Close a blocking client, with what it asks for its way."""
    for each in (client, *_sentinels(client)):
        each.close()


def ask_anew(client: Any) -> None:
    """Let go of a Sentinel's master, where it is one, so that the next command goes to who is named now.

    A Sentinel ends the connections of a primary that it makes a replica, but one that came back late named us the old
    primary, and a replica answers a look as long as it lives.
    """
    if _sentinels(client):
        client.connection_pool.disconnect(inuse_connections=False)


async def aclose(client: Any) -> None:
    """Close an asyncio client, likewise; what its connections say about it interests nobody."""
    for each in (client, *_sentinels(client)):
        with suppress(redis.RedisError, OSError, RuntimeError):
            await each.aclose()
