"""One campaign in Redis, as the tests of the scripts set it up and ask for it."""

from __future__ import annotations

from typing import Any

from server.stock import scripts
from server.stock.pipeline import BlockingStock
from server.stock.scripts import Configuration, Installation, Keys, Reservation

KEYS = Keys("c1")
NOW = 1_780_000_000_000


def reservation(request: str = "r1", member: str = "m1", **more: Any) -> Reservation:
    """Ask for one coupon now."""
    values: dict[str, Any] = {"fingerprint": "ab", "now_ms": NOW, "deadline_ms": NOW + 5000, **more}
    return Reservation(request, member, **values)


def configuration(**more: Any) -> Configuration:
    """Let everybody have one coupon, for ever, as fast as they come."""
    values: dict[str, Any] = {
        "config": 1,
        "is_open": True,
        "limit": 1,
        "from_ms": 0,
        "until_ms": 0,
        "rate": 0,
        "burst": 0,
        "stock": 1,
        "total": 50,
    }
    return Configuration(**{**values, **more})


def open_sale(
    stock: BlockingStock,
    *,
    keys: Keys = KEYS,
    generation: int = 1,
    total: int | None = 50,
    available: int | None = None,
    held: dict[str, int] | None = None,
    version: int = 1,
    **settings: Any,
) -> None:
    """Install a campaign with these holders, and open it."""
    held = held or {}
    assert stock.run(scripts.close(keys, generation)) == scripts.Told.OK
    if held:
        stock.client.hset(keys.staged(generation), mapping=held)
    left = total if available is None else available
    found = Installation(len(held), version, version, total, left)
    assert stock.run(scripts.install(keys, generation, found)) == scripts.Told.OK
    configured = stock.run(scripts.configure(keys, generation, configuration(total=total, stock=version, **settings)))
    assert configured == scripts.Told.OK


def standing(stock: BlockingStock, *, keys: Keys = KEYS, request: str = "", now_ms: int = NOW) -> Any:
    """Tell how the campaign stands."""
    return stock.run(scripts.inspect(keys, now_ms=now_ms, request=request))


def everything(stock: BlockingStock, keys: Keys = KEYS) -> dict[str, Any]:
    """Read every key whole, to see that nothing changed."""
    client = stock.client
    return {
        "h": client.hgetall(keys.key("h")),
        "r": client.hgetall(keys.key("r")),
        "u": client.hgetall(keys.key("u")),
        "d": client.zrange(keys.key("d"), 0, -1, withscores=True),
        "s": client.xrange(keys.key("s")),
    }


def take(stock: BlockingStock, *args: Any, generation: int = 1, **more: Any) -> Any:
    """Reserve, and return the answer whatever it is."""
    return stock.run(scripts.reserve(KEYS, generation, reservation(*args, **more)))


def take_token(stock: BlockingStock, *args: Any, **more: Any) -> str:
    """Reserve what is there to be had, and return the token."""
    answer = take(stock, *args, **more)
    assert isinstance(answer, scripts.Reserved), answer
    return answer.token
