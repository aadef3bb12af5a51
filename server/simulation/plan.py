"""Draw what is to happen in one seed, before anything does: who does what when, and what goes wrong.

Each event carries a seed of its own for whatever it decides. So an event that is taken out leaves the others what they
were, and a failing run can be made smaller.
"""

import random
from dataclasses import dataclass

from server.simulation.network import Weather

SHORTEST_CUT_MS, LONGEST_CUT_MS = 5_000, 66 * 60_000
DAY_MS = 86_400_000

AT_TILL = {
    "sell": 34,
    "pay": 7,
    "cancel": 3,
    "resolve": 4,
    "refund": 9,
    "refund_again": 2,
    "refund_elsewhere": 4,
    "checkout_again": 3,
    "late_money": 1,
    "give": 9,
    "lease": 14,
    "unlease": 2,
    "take_home": 6,
    "return_home": 2,
    "resume": 2,
    "renew": 6,
    "close_day": 1,
    "sync": 16,
}
AT_SERVER = {"claim": 9, "top_up": 3, "office": 5, "jobs": 6}
ISSUE = "issue"
"""A batch issue is begun."""
ISSUING, ISSUES_OFTEN = 0.25, 0.02
"""How many of the seeds without disasters have batch issues, and how many these have for each other operation."""
FAULTS = {"cut_line": 30, "cut_all": 3, "till_power": 18, "till_commit": 22, "server_commit": 24, "server_power": 6}
FAULTS |= {"clock": 12, "disk_full": 10, "jam": 20, "strand": 5}
SET_BACK = "set_back"
"""The server's database is put back to a backup."""
PUT_BACK, ALONE = 1 / 3, 0.5
"""How many of the seeds with disasters have that once or twice, and how many of these nothing else that is one.

Beside a till's disk that was set back much is excused that a backup alone must not bring about.
"""
HOT = 0.1
"""How many of the seeds have campaigns on Redis; more of their operations are claims."""
REDIS = {"redis_emptied": 4, "redis_older": 3, "redis_killed": 3, "redis_between": 8, "redis_switch": 6, "claim": 60}
SIGNED, SUSPENSIONS = 0.08, 4
"""How many of the seeds without disasters have enrolled tills, and how often one is suspended in them."""
REDIS_OFTEN = 0.12
"""How many of these a seed has for each of its other operations."""
DISASTERS = {"reclaim": 40, "roll_back": 20, "new_disk": 12, "new_key": 12, "damage": 12}


@dataclass(frozen=True, slots=True)
class Event:
    """Say what is to happen at `time_ms`; `who` is a till's number, `seed` decides everything in it.

    `number` is its name for good: ids are made of it, so they stay what they are when other events are taken out.
    """

    number: int
    time_ms: int
    what: str
    who: int
    seed: int

    @property
    def is_operation(self) -> bool:
        """Tell whether it is a business action; else it is something that goes wrong."""
        return self.what in AT_TILL or self.what in AT_SERVER or self.what == ISSUE


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold what a seed is: its chain's seed, its weather, its events in order."""

    seed: int
    chain_seed: int
    weather: Weather
    silence: float
    push_max: int | None
    events: tuple[Event, ...]
    has_disasters: bool
    hot: bool = False
    """Whether some campaigns are on Redis."""
    signed: bool = False
    """Whether the tills are enrolled, sign what they ask, and believe nothing that is not signed for them."""
    put_back: bool = False
    """Whether the server is put back to a backup."""


def draw_plan(seed: int, operations: int, *, disasters: bool | None = None, backups: bool | None = None) -> Plan:
    """Draw so many operations with their faults; three seeds of ten have disasters, where it is not said.

    `backups` = the server is put back to a backup; one in three of the seeds with disasters, where it is not
    said, and in half of these nothing else is a disaster.
    """
    rng = random.Random(seed)
    chain_seed = rng.getrandbits(32)
    bad = rng.random() < 0.3 if disasters is None else disasters
    calm = rng.random() < 0.1
    weather = Weather() if calm else _weather(rng)
    silence = rng.choice([0.0, 0.1, 0.3])
    push_max = rng.choice([None, None, None, 1, 3])
    gap_ms = rng.choice([4_000, 20_000, 90_000])
    often = 0.0 if calm else rng.choice([0.02, 0.05, 0.1])
    events: list[Event] = []
    time_ms = 1_000
    kinds = {**AT_TILL, **AT_SERVER}
    back = random.Random(f"put back {seed}")
    is_put_back = bad and back.random() < PUT_BACK if backups is None else backups
    alone = is_put_back and backups is None and back.random() < ALONE
    faults = {**FAULTS, **(DISASTERS if bad and not alone else {})}
    for _ in range(operations):
        time_ms += round(rng.expovariate(1 / gap_ms))
        events.append(_event(rng, len(events), time_ms, kinds=kinds))
        while rng.random() < often:
            events.append(_event(rng, len(events), time_ms + rng.randint(0, gap_ms), kinds=faults))
    if is_put_back:
        events += _set_backs(random.Random(f"set back {seed}"), len(events), time_ms)
    hot = random.Random(f"redis {seed}")
    is_hot = hot.random() < HOT
    if is_hot:
        count = round(REDIS_OFTEN * operations)
        events += [_event(hot, len(events) + n, hot.randint(1_000, time_ms), kinds=REDIS) for n in range(count)]
    signed = random.Random(f"signed {seed}")
    is_signed = not bad and signed.random() < SIGNED
    if is_signed:
        kinds = {"suspend": 1}
        events += [
            _event(signed, len(events) + n, signed.randint(1_000, time_ms), kinds=kinds) for n in range(SUSPENSIONS)
        ]
    issuing = random.Random(f"issue {seed}")
    if not bad and not is_put_back and issuing.random() < ISSUING:
        count = max(1, round(ISSUES_OFTEN * operations))
        events += [
            _event(issuing, len(events) + n, issuing.randint(1_000, time_ms), kinds={ISSUE: 1}) for n in range(count)
        ]
    events.sort(key=lambda event: event.time_ms)
    return Plan(seed, chain_seed, weather, silence, push_max, tuple(events), bad, is_hot, is_signed, is_put_back)


def _set_backs(rng: random.Random, number: int, last_ms: int) -> list[Event]:
    """Draw by a generator of their own, so that the other seeds stay what they are without them."""
    count = rng.choice([1, 1, 2])
    kinds = {SET_BACK: 1}
    return [_event(rng, number + n, rng.randint(last_ms // 10, last_ms), kinds=kinds) for n in range(count)]


def _weather(rng: random.Random) -> Weather:
    return Weather(
        drop=rng.choice([0.0, 0.02, 0.1, 0.3]),
        double=rng.choice([0.0, 0.05, 0.15]),
        portal=rng.choice([0.0, 0.02]),
        stale=rng.choice([0.0, 0.02, 0.05]),
        slow=rng.choice([0.0, 0.1, 0.5]),
    )


def _event(rng: random.Random, number: int, time_ms: int, *, kinds: dict[str, int]) -> Event:
    what = rng.choices(list(kinds), list(kinds.values()))[0]
    return Event(number, time_ms, what, rng.randrange(1000), rng.getrandbits(32))
