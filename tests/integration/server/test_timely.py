"""Timely messages make things quick, patrols make them right: early, late, repeated and lost messages do no harm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from server.db.schema import outbox as table
from server.db.schema import request
from server.jobs import PATROLS, run_due
from server.jobs.report import Job, JobReport
from server.jobs.timely import timely_jobs
from server.services.services import Services
from server.services.timely import CAMPAIGN_WINDOWS, COUPON_EXPIRY, HOLD_TIMEOUTS, Carrier, Heap, Timely
from server.stock.connection import Address
from server.stock.timely import SortedSet
from server.stock.trouble import StockUnreachable
from tests.examples import share
from tests.fakes.counter import Counter, coupon, events, open_counter
from tests.fakes.headquarters import START, Headquarters

KINDS = (CAMPAIGN_WINDOWS, HOLD_TIMEOUTS, COUPON_EXPIRY)


class Chain:
    """Hold a server with a carrier; `beat` does what the scheduler does each second, but no patrol."""

    def __init__(self, headquarters: Headquarters, counter: Counter, carrier: Carrier | None = None) -> None:
        self.hq, self.counter, self.carrier = headquarters, counter, carrier or Heap()
        self.jobs = timely_jobs(self.carrier, PATROLS)

    def beat(self) -> None:
        for job in self.jobs:
            job.run(self.hq.services)

    def begin(self, kind: str) -> tuple[datetime, Callable[[], str], str, str]:
        """Let something become due; returns when, how to see its state, the state before and the one after."""
        if kind == CAMPAIGN_WINDOWS:
            at = self.hq.clock.now() + timedelta(minutes=30)
            self.hq.campaign("timed", state="SCHEDULED", **{"from": at.isoformat()})
            return at, lambda: str(self.hq.call("GET", "/v1/campaigns/timed")["state"]), "SCHEDULED", "ACTIVE"
        if kind == HOLD_TIMEOUTS:
            held = self.counter.hold(self.counter.basket("held", "A"), status=200)
            until = datetime.fromisoformat(held["held_until_at"])
            return until, lambda: self.counter.state("held"), "HELD", "CANCELLED"
        until = self.hq.clock.now() + timedelta(minutes=30)
        self.hq.campaign("ends", until=until.isoformat())
        mine = coupon(self.hq, "ends")
        # What a person is shown is EXPIRED at once; the state is what is written, so the history is asked.
        return until, lambda: str(events(self.hq, "coupon", mine)[-1][2]), "ISSUED", "EXPIRED"

    def count(self, after: str) -> int:
        """Count how often anything of the three came to this state."""
        subjects = [("campaign", "timed"), ("order", "held")]
        subjects += [("coupon", each) for each in self._coupons()]
        return sum(to == after for subject, name in subjects for _, _, to in events(self.hq, subject, name))

    def _coupons(self) -> list[str]:
        answers = self.hq.database.read(lambda conn: conn.execute(select(request.c.answer)).scalars().all())
        return [answer["coupon"] for answer in answers if "coupon" in answer]


@pytest.fixture
def chain(headquarters: Headquarters, counter: Counter) -> Chain:
    return Chain(headquarters, counter)


def messages(headquarters: Headquarters) -> list[str]:
    rows = headquarters.database.read(lambda conn: conn.execute(select(table.c.key).order_by(table.c.id)).scalars())
    return list(rows)


# ------------------------------------------------------------------ in time


@pytest.mark.parametrize("kind", KINDS)
def test_it_happens_in_time_without_any_patrol(chain: Chain, kind: str) -> None:
    due_at, state, before, after = chain.begin(kind)
    chain.beat()
    bucket = timedelta(minutes=1) if kind == COUPON_EXPIRY else timedelta(seconds=1)

    chain.hq.clock.at = due_at - timedelta(seconds=1)
    chain.beat()
    early = state()
    chain.hq.clock.at = due_at + bucket
    chain.beat()

    assert (early, state()) == (before, after)


# ------------------------------------------------------------------ early, late, repeated, lost


@pytest.mark.parametrize("kind", KINDS)
def test_an_early_message_does_nothing_and_comes_again_in_time(chain: Chain, kind: str) -> None:
    due_at, state, before, after = chain.begin(kind)
    chain.beat()
    (key,) = [each for each in messages(chain.hq) if each.startswith(kind)]
    chain.carrier.put(key, round(chain.hq.clock.now().timestamp() * 1000))

    chain.beat()
    early = state()
    chain.hq.clock.at = due_at + timedelta(minutes=1)
    chain.beat()

    assert (early, state()) == (before, after)


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_message_finds_it_done_by_the_patrol(chain: Chain, kind: str) -> None:
    due_at, state, _, after = chain.begin(kind)
    chain.beat()
    chain.hq.clock.at = due_at + timedelta(hours=5)
    run_due(chain.hq.services)
    between = state()

    chain.beat()

    assert (between, state(), chain.count(after)) == (after, after, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_message_changes_nothing(chain: Chain, kind: str) -> None:
    due_at, state, _, after = chain.begin(kind)
    chain.beat()
    chain.hq.clock.at = due_at + timedelta(minutes=1)
    chain.beat()
    (key,) = [each for each in messages(chain.hq) if each.startswith(kind)]

    for _ in range(3):
        chain.carrier.put(key, 0)
        chain.carrier.put(key, Timely.read(key).due_ms)
        chain.beat()

    assert (state(), chain.count(after)) == (after, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_message_is_made_up_for_by_the_patrol(chain: Chain, kind: str) -> None:
    due_at, state, before, after = chain.begin(kind)
    chain.beat()
    chain.carrier.done(messages(chain.hq))  # as a Redis that was emptied

    chain.hq.clock.at = due_at + timedelta(minutes=1)
    chain.beat()
    lost = state()
    run_due(chain.hq.services)

    assert (lost, state(), chain.count(after)) == (before, after, 1)


class Unruly:
    """Carry messages as a bad line would: by plan it loses them, repeats them, or gives them out before their time."""

    def __init__(self, plan: list[str]) -> None:
        self.plan, self.heap = list(plan), Heap()

    def put(self, message: str, due_ms: int) -> None:
        fate = self.plan.pop() if self.plan else "carry"
        if fate != "lose":
            self.heap.put(message, 0 if fate == "early" else due_ms)

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        return self.heap.due(now_ms, limit=limit)

    def done(self, messages: list[str]) -> None:
        if (self.plan.pop() if self.plan else "carry") != "repeat":
            self.heap.done(messages)


@given(
    plan=st.lists(st.sampled_from(["carry", "lose", "early", "repeat"]), max_size=30),
    steps=st.lists(st.tuples(st.integers(0, 1500), st.sampled_from(["beat", "patrol", "beat"])), max_size=12),
)
@settings(max_examples=share(1 / 3))
def test_whatever_happens_to_messages_everything_happens_once_and_never_before_its_time(
    plan: list[str], steps: list[tuple[int, str]]
) -> None:
    with TemporaryDirectory() as folder:
        headquarters = Headquarters(Path(folder))
        try:
            headquarters.furnish()
            chain = Chain(headquarters, open_counter(headquarters), Unruly(plan))
            things = [chain.begin(kind) for kind in KINDS]

            for seconds, what in steps:
                headquarters.clock.pass_time(seconds=seconds)
                chain.beat() if what == "beat" else run_due(headquarters.services)
                for due_at, state, before, _ in things:
                    assert headquarters.clock.now() >= due_at or state() == before
            headquarters.clock.at = max(headquarters.clock.at, START + timedelta(hours=2))
            chain.beat()
            run_due(headquarters.services)

            assert [(state(), chain.count(after)) for _, state, _, after in things] == [
                (after, 1) for _, _, _, after in things
            ]
        finally:
            headquarters.close()


# ------------------------------------------------------------------ what a message costs


def test_claims_of_one_minute_share_one_message(chain: Chain) -> None:
    chain.hq.campaign(valid_days=1, per_member=100)
    key = chain.hq.new_key("app")
    chain.hq.clock.at -= timedelta(seconds=59)
    for number in range(20):
        body = {"request": f"r{number}", "campaign": "c1", "member": "m1"}
        chain.hq.call("POST", "/v1/claims", body, key=key, status=201)
        chain.hq.clock.pass_time(seconds=3)

    told = [Timely.read(each) for each in messages(chain.hq)]

    assert [each.kind for each in told] == [COUPON_EXPIRY]
    assert told[0].due_ms == round((START + timedelta(days=1)).timestamp() * 1000)


def test_a_message_stays_in_the_database_until_an_hour_before_its_time(chain: Chain) -> None:
    from_at = chain.hq.clock.now() + timedelta(days=365)
    chain.hq.campaign("timed", state="SCHEDULED", **{"from": from_at.isoformat()})
    due_ms = round(from_at.timestamp() * 1000)

    chain.beat()
    far = chain.carrier.due(due_ms, limit=10)
    chain.hq.clock.at = from_at - timedelta(hours=1)
    chain.beat()
    near = chain.carrier.due(due_ms, limit=10)

    assert (far, near) == ([], [f"{CAMPAIGN_WINDOWS}:{due_ms}"])


def test_an_edited_window_is_announced_anew(chain: Chain) -> None:
    first = chain.hq.clock.now() + timedelta(minutes=10)
    chain.hq.campaign("timed", state="SCHEDULED", **{"from": first.isoformat()})
    second = first + timedelta(minutes=10)

    chain.hq.call("PATCH", "/v1/campaigns/timed", {"from": second.isoformat()}, status=200)
    chain.hq.clock.at = first
    chain.beat()
    at_first = chain.hq.call("GET", "/v1/campaigns/timed")["state"]
    chain.hq.clock.at = second
    chain.beat()

    assert (at_first, chain.hq.call("GET", "/v1/campaigns/timed")["state"]) == ("SCHEDULED", "ACTIVE")


def test_a_thousand_messages_walk_the_patrol_once(headquarters: Headquarters) -> None:
    walks: list[Services] = []

    def walk(services: Services) -> JobReport:
        walks.append(services)
        return JobReport("test")

    carrier = Heap()
    for number in range(1000):
        carrier.put(f"{HOLD_TIMEOUTS}:{number}", number)
    _, wake = timely_jobs(carrier, [Job(HOLD_TIMEOUTS, 5, walk)])

    wake.run(headquarters.services)

    assert len(walks) == 1
    assert carrier.due(10**15, limit=10) == []


def test_a_patrol_that_fails_keeps_no_other_from_being_woken(headquarters: Headquarters) -> None:
    walked: list[str] = []

    def fail(_services: Services) -> JobReport:
        raise ValueError("our bug")

    def walk(_services: Services) -> JobReport:
        walked.append("walked")
        return JobReport("test")

    carrier = Heap()
    carrier.put(f"{CAMPAIGN_WINDOWS}:1", 1)
    carrier.put(f"{HOLD_TIMEOUTS}:2", 2)
    carrier.put("gibberish", 3)
    patrols = [Job(CAMPAIGN_WINDOWS, 5, fail), Job(HOLD_TIMEOUTS, 5, walk)]
    _, wake = timely_jobs(carrier, patrols)

    wake.run(headquarters.services)

    assert walked == ["walked"]
    assert carrier.due(10**15, limit=10) == []


def test_while_redis_is_away_messages_wait_in_the_database_and_the_patrols_walk(
    headquarters: Headquarters, counter: Counter, tmp_path: Path
) -> None:
    away = SortedSet(Address("unix", path=str(tmp_path / "nobody.sock")))
    chain = Chain(headquarters, counter, away)
    due_at, state, _, after = chain.begin(HOLD_TIMEOUTS)
    feed, wake = chain.jobs
    headquarters.clock.at = due_at + timedelta(minutes=1)

    fed = feed.run(headquarters.services).done
    with pytest.raises(StockUnreachable):
        wake.run(headquarters.services)
    run_due(headquarters.services)

    waiting = headquarters.database.read(lambda conn: conn.execute(select(table.c.sent_at, table.c.error)).all())
    assert (fed, state()) == (0, after)
    assert [tuple(row) for row in waiting] == [(None, "redis_down")]
    away.close()
