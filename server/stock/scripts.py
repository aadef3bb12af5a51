"""Type the scripts of `lua/`: one function for each, which makes a Call; what it does is told at the head of its file.

A Call is not sent yet: `server/stock/pipeline.py` sends many together. Its answer is one of a few frozen values; Fault
stands for what makes a campaign's counters unusable until they are rebuilt from the database.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Generic, TypeVar

import lua

T_co = TypeVar("T_co", covariant=True)
Raw = Sequence[Any]
Pairs = Sequence[tuple[str, str]]

LIFE_MS = 90 * 24 * 3600 * 1000
"""How long a campaign's keys outlive their last use; each configuration renews it (PROTOCOL 5.2)."""
AHEAD_MAX_MS = 15_000
"""How far ahead of our clock a deadline may lie: the 5 s of a landing, and clocks of servers that differ by 10 s."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Name the keys of one campaign; `prefix` keeps several chains on one Redis apart."""

    campaign_id: str
    prefix: str = ""

    def key(self, part: str) -> str:
        """Return the name of a part: h, r, u, d or s; all parts have one hash tag, so they live on one node."""
        return f"{self.prefix}{{inv:{self.campaign_id}}}:{part}"

    @property
    def all(self) -> tuple[str, ...]:
        """Return the five names in the order of the scripts."""
        return _names(self.prefix, self.campaign_id)

    def staged(self, generation: int) -> str:
        """Return the name under which a generation's members are loaded before it opens."""
        return self.key(f"u/{generation}")


@lru_cache(10_000)
def _names(prefix: str, campaign_id: str) -> tuple[str, ...]:
    return tuple(Keys(campaign_id, prefix).key(part) for part in "hruds")


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """Hold a script with its keys and arguments, and how to read what it answers.

    Some scripts do many things at once, each with arguments of its `own`: calls that have all else in common are sent
    as one, and each reads its part of what comes back.
    """

    script: str
    keys: tuple[str, ...]
    args: tuple[str | int, ...]
    read: Callable[[Raw], T_co]
    own: tuple[str | int, ...] = ()

    def goes_with(self, other: "Call[Any]") -> bool:
        """Tell whether the two may be sent as one."""
        alike = (self.script, self.args) == (other.script, other.args) and self.keys == other.keys
        return bool(self.own) and bool(other.own) and alike


class Why(StrEnum):
    """Say what is wrong with a campaign's counters; any of them is put right by a rebuild."""

    NO_GENERATION = "NOGEN"
    STALE_GENERATION = "STALE_GEN"
    CORRUPT = "CORRUPT"


class No(StrEnum):
    """Say why a reservation is refused."""

    CLOSED = "CLOSED"
    LIMIT = "LIMIT"
    SOLD_OUT = "SOLD_OUT"
    RATE = "RATE"
    KEY_REUSE = "KEY_REUSE"


@dataclass(frozen=True, slots=True)
class Fault:
    """Tell that nothing was done; `detail` is the generation that is there, or the part that is damaged."""

    why: Why
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """Hold a reservation; `token` names it, `available` is what is left, None = no limit."""

    token: str
    available: int | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """Tell that this request is reserved already and not yet landed."""

    token: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Refuse a reservation; `retry_ms` is set for RATE alone."""

    why: No
    retry_ms: int | None = None


class End(StrEnum):
    """Tell how the closing of a reservation went; the last two are no trouble of the one who asked."""

    OK = "OK"
    UNKNOWN = "UNKNOWN"
    WRONG_STATE = "WRONG_STATE"


class Told(StrEnum):
    """Tell what became of news: taken in, or known already."""

    OK = "OK"
    KNOWN = "KNOWN"


@dataclass(frozen=True, slots=True)
class Standing:
    """Tell how a campaign stands in Redis.

    `available` None = no limit; `units` are reserved by `request_count` requests, of which `overdue_count` are past
    their deadline. `config` and `stock` say how new what it knows of the database is. `reservation` is that of the
    request asked about.
    """

    generation: int
    state: str
    available: int | None
    total: int
    units: int
    request_count: int
    member_count: int
    overdue_count: int
    config: int
    stock: int
    reservation: Repeated | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Ask for `qty` coupons; until `deadline_ms` the asker alone lands it. `event` comes back from the stream."""

    request: str
    member_id: str
    fingerprint: str
    now_ms: int
    deadline_ms: int
    event: str = ""
    qty: int = 1


@dataclass(frozen=True, slots=True)
class Installation:
    """Hold what one look at the database found: `members` were staged, `total` and `available` None = unlimited.

    `version` is the place in the feed at that moment, `stock` the version of the stock's account.
    """

    members: int
    version: int
    stock: int
    total: int | None
    available: int | None


@dataclass(frozen=True, slots=True)
class Configuration:
    """Hold what an edit may change; instants in ms since 1970, 0 = none; `rate` in claims a second, 0 = no limit.

    `config` is the place in the feed at which it was read, `stock` the version of the stock's account; `total` None =
    unlimited.
    """

    config: int
    is_open: bool
    limit: int
    from_ms: int
    until_ms: int
    rate: int
    burst: int
    stock: int
    total: int | None


# ------------------------------------------------------------------ one function for each script


def reserve(keys: Keys, generation: int, asked: Reservation) -> "Call[Reserved | Repeated | Refused | Fault]":
    """Reserve for a member."""
    own = (
        asked.request,
        asked.fingerprint,
        asked.member_id,
        asked.qty,
        asked.now_ms,
        asked.deadline_ms,
        asked.event,
    )
    return Call("reserve", keys.all, (generation,), _read_reserve, own)


def confirm(keys: Keys, generation: int, reservations: Pairs) -> "Call[list[End] | Fault]":
    """Close reservations, each (request, token), that the database granted."""
    return Call("confirm", keys.all, (generation, *chain.from_iterable(reservations)), _read_ends)


def release(keys: Keys, generation: int, reservations: Pairs) -> "Call[list[End] | Fault]":
    """Undo reservations, each (request, token), that the database refused."""
    return Call("release", keys.all, (generation, *chain.from_iterable(reservations)), _read_ends)


def close(keys: Keys, generation: int) -> "Call[Told | Fault]":
    """Retire what is there for a newer generation."""
    return Call("close", (keys.key("h"),), (generation, LIFE_MS), _read_told)


def install(keys: Keys, generation: int, found: Installation) -> "Call[Told | Fault]":
    """Open a generation with what was read from the database."""
    args = (
        generation,
        found.members,
        found.version,
        int(found.total is not None),
        found.stock,
        found.total or 0,
        found.available or 0,
        LIFE_MS,
    )
    return Call("install", (*keys.all, keys.staged(generation)), args, _read_told)


def configure(keys: Keys, generation: int, new: Configuration) -> "Call[Told | Fault]":
    """Bring an edit to where claims are admitted."""
    args = (
        generation,
        new.config,
        "open" if new.is_open else "paused",
        new.limit,
        new.from_ms,
        new.until_ms,
        new.rate,
        new.burst,
        new.stock,
        new.total or 0,
        int(new.total is not None),
    )
    return Call("configure", keys.all, args, _read_told)


def adjust(keys: Keys, *, version: int, units: int, members: Mapping[str, int]) -> "Call[Told | Fault]":
    """Tell what another way in took (`units` below 0) or gave back, and for whom; a few hundred members at a time."""
    pairs = [part for member, count in members.items() for part in (member, count)]
    return Call("adjust", (keys.key("h"), keys.key("u")), (version, units, *pairs), _read_told)


def inspect(keys: Keys, *, now_ms: int, request: str = "") -> "Call[Standing | Fault]":
    """Tell how the campaign stands, and the reservation of one request."""
    return Call("inspect", keys.all, (request, now_ms, AHEAD_MAX_MS), _read_standing)


# ------------------------------------------------------------------ reading what comes back


@cache
def text_of(script: str) -> str:
    """Return the text of a script."""
    return lua.read(script)


@cache
def sha_of(script: str) -> str:
    """Return the name under which Redis keeps a script: the SHA-1 of its text."""
    return hashlib.sha1(text_of(script).encode(), usedforsecurity=False).hexdigest()


_WHY, _NO, _TOLD = (frozenset(each.value for each in kind) for kind in (Why, No, Told))
_ENDS = {each.value.encode(): each for each in End}


def _word(raw: Raw) -> str:
    return _text(raw[0])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _fault(raw: Raw) -> Fault:
    """Read an answer that no operation has for itself; BAD_ARG is ours, and never a caller's."""
    word = _word(raw)
    detail = _text(raw[1]) if len(raw) > 1 else ""
    assert word in _WHY, f"a script was called wrongly: {word} {detail}"
    return Fault(Why(word), detail)


def _read_reserve(raw: Raw) -> Reserved | Repeated | Refused | Fault:
    word = _word(raw)
    if word == "OK":
        return Reserved(_text(raw[1]), int(raw[2]) if int(raw[2]) >= 0 else None)
    if word == "DUP":
        return Repeated(_text(raw[1]), int(raw[2]))
    if word in _NO:
        return Refused(No(word), int(raw[1]) if word == No.RATE else None)
    return _fault(raw)


def _read_ends(raw: Raw) -> list[End] | Fault:
    return [_ENDS[how] for how in raw[2:]] if _word(raw) == "OK" else _fault(raw)


def _read_told(raw: Raw) -> Told | Fault:
    return Told(_word(raw)) if _word(raw) in _TOLD else _fault(raw)


def _read_standing(raw: Raw) -> Standing | Fault:
    if _word(raw) != "OK":
        return _fault(raw)
    stocked, available, total, units, requests, members, overdue, config, stock = (int(_text(n)) for n in raw[3:12])
    reservation = _text(raw[12])
    parts = reservation.split("|", 4)
    return Standing(
        generation=int(_text(raw[1])),
        state=_text(raw[2]),
        available=available if stocked else None,
        total=total,
        units=units,
        request_count=requests,
        member_count=members,
        overdue_count=overdue,
        config=config,
        stock=stock,
        reservation=Repeated(parts[2], int(parts[1])) if reservation else None,
    )
