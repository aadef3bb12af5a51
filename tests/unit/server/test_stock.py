"""Scripts and their functions belong together; addresses of Redis; what a look at its settings finds."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import lua
from server.stock import scripts
from server.stock.connection import Address, BadAddress, read_address
from server.stock.scripts import Call, Configuration, Installation, Keys, Reservation
from server.stock.suitability import problems_of

FOLDER = Path(lua.__file__).parent
KEYS = Keys("c1")
MADE: dict[str, Call[Any]] = {
    "adjust": scripts.adjust(KEYS, version=1, units=-1, members={"m1": 1}),
    "close": scripts.close(KEYS, 1),
    "configure": scripts.configure(KEYS, 1, Configuration(1, True, 1, 0, 0, 0, 0, 1, 1)),
    "confirm": scripts.confirm(KEYS, 1, [("r1", "t")]),
    "inspect": scripts.inspect(KEYS, now_ms=0),
    "install": scripts.install(KEYS, 1, Installation(0, 1, 1, 1, 1)),
    "release": scripts.release(KEYS, 1, [("r1", "t")]),
    "reserve": scripts.reserve(KEYS, 1, Reservation("r1", "m1", "ab", 0, 0)),
}


def test_every_script_has_a_function_and_every_function_a_script() -> None:
    functions = {
        name
        for name, value in inspect.getmembers(scripts, inspect.isfunction)
        if not name.startswith("_") and "Call" in str(inspect.signature(value).return_annotation)
    }
    files = {path.stem for path in FOLDER.glob("*.lua")}

    assert files == functions == set(lua.NAMES) == set(MADE)
    assert {name: call.script for name, call in MADE.items()} == {name: name for name in MADE}


@pytest.mark.parametrize("name", lua.NAMES)
def test_a_script_is_called_with_as_many_keys_and_arguments_as_its_head_tells(name: str) -> None:
    head = lua.read(name).split("\n\n", 1)[0]
    keys, args = head.split("-- KEYS")[1].split("-- ARGV")
    told_keys = {int(number) for number in re.findall(r"(?:^|\s\s+)(\d) [a-z]+", keys)}
    told_args = {
        int(number) for number in re.findall(r"^(?:--)?\s+(\d+)(?:\.\.)? [a-z]", args.split("-- Returns")[0], re.M)
    }

    assert told_keys == set(range(1, len(MADE[name].keys) + 1))
    repeated = {"adjust": 3, "confirm": 2, "release": 2, "reserve": 2}
    assert max(told_args) == repeated.get(name, len(MADE[name].args))


@pytest.mark.parametrize("name", lua.NAMES)
def test_a_script_tells_its_purpose_and_why_it_is_atomic(name: str) -> None:
    head = "".join(line for line in lua.read(name).splitlines(keepends=True) if line.startswith("--"))

    for part in ("-- KEYS", "-- ARGV", "-- Returns", "Atomic, because"):
        assert part in head


@pytest.mark.parametrize("name", lua.NAMES)
def test_a_script_names_no_key_by_itself_and_asks_for_no_time(name: str) -> None:
    code = "\n".join(line for line in lua.read(name).splitlines() if not line.startswith("--"))

    assert "inv:" not in code
    assert "'TIME'" not in code and "random" not in code


def test_the_secret_of_an_address_is_never_shown() -> None:
    address = read_address("redis+sentinel://user:p%40ss@cache:6380/main/2?sentinel_password=a%26b+c")

    assert (address.user, address.secret, address.hosts, address.db) == ("user", "p@ss", (("cache", 6380),), 2)
    assert (address.sentinel_user, address.sentinel_secret) == (None, "a&b+c")
    assert not any(secret in str(address) + repr(address) for secret in ("p@ss", "a&b+c"))


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://cache", Address("single", (("cache", 6379),))),
        ("rediss://cache:1", Address("single", (("cache", 1),), tls=True)),
        ("redis://[::1]:7/0", Address("single", (("::1", 7),))),
        ("redis+sentinel://a,b:7/main/3", Address("sentinel", (("a", 26379), ("b", 7)), service="main", db=3)),
        ("redis+cluster://a:1,b:2", Address("cluster", (("a", 1), ("b", 2)))),
        ("rediss+cluster://:x@a", Address("cluster", (("a", 6379),), tls=True, secret="x")),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert read_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cache:6379",
        "http://cache",
        "redis://",
        "redis://:6379",
        "redis://cache:port",
        "redis://cache/one",
        "redis://cache/0/1",
        "redis://a,b",
        "redis+sentinel://a",
        "redis+cluster://a/1",
        "redis://a?sentinel_password=secret",
        "redis+sentinel://a/main?sentinel_pasword=secret",
        "redis+sentinel://a/main?secret",
    ],
)
def test_an_address_that_makes_no_sense_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(BadAddress) as refused:
        read_address(url.replace("://", "://u:secret@", 1) if "://" in url else url)

    assert "secret" not in str(refused.value)


GOOD: dict[str, Any] = {"redis_version": "7.2.4", "role": "master"}
KEPT = {"maxmemory-policy": "noeviction", "appendonly": "yes", "save": ""}


@pytest.mark.parametrize(
    ("info", "config", "words"),
    [
        (GOOD, KEPT, []),
        ({**GOOD, "redis_version": "6.2.14"}, KEPT, ["too_old"]),
        ({**GOOD, "redis_version": "10.0.0"}, KEPT, []),
        ({**GOOD, "redis_version": "6.9.9", "valkey_version": "8.0.1"}, KEPT, []),
        ({**GOOD, "role": "slave"}, KEPT, ["replica"]),
        (GOOD, {**KEPT, "maxmemory-policy": "allkeys-lru"}, ["evicts"]),
        (GOOD, {**KEPT, "appendonly": "no"}, ["not_kept"]),
        (GOOD, {**KEPT, "appendonly": "no", "save": "3600 1"}, []),
        ({**GOOD, "maxmemory_policy": "noeviction", "aof_enabled": 1}, None, []),
        ({**GOOD, "maxmemory_policy": "volatile-ttl", "aof_enabled": 0}, None, ["evicts", "not_kept"]),
    ],
)
def test_a_look_names_what_is_wrong(info: dict[str, Any], config: dict[str, str] | None, words: list[str]) -> None:
    assert [each.word for each in problems_of(info, config)] == words


def test_losing_its_data_at_a_restart_forbids_no_redis() -> None:
    assert [each.forbids for each in problems_of(GOOD, {**KEPT, "appendonly": "no"})] == [False]
