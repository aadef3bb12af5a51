"""A message is there exactly when its change is, is sent at least once, and ends in a state that a person can see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, select

from server.db.schema import outbox as table
from server.jobs.lease import SCHEDULER, Held, LeaseLost
from server.jobs.reconcile import forget_messages
from server.jobs.relay import relay
from server.services import outbox
from server.services.context import Context
from server.services.outbox import ALERT, ATTEMPTS_MAX, KEPT, TIMELY, WAIT_MAX_S, Message, Undelivered, Waiting
from tests.fakes.counter import finding
from tests.fakes.headquarters import Headquarters


class Consumer:
    """Take messages; `answers` says, one by one, what becomes of them: None = taken."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.took: list[str] = []

    def __call__(self, message: Waiting) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.took.append(message.key)


def put(headquarters: Headquarters, *keys: str, topic: str = ALERT, after: timedelta | None = None) -> None:
    due_at = None if after is None else headquarters.clock.now() + after
    messages = [Message(topic, key, {"n": 1}, due_at) for key in keys]
    headquarters.services.write(lambda conn, ctx: outbox.put(conn, messages, ctx.now))


def send(headquarters: Headquarters, consumer: Callable[[Waiting], None], topic: str = ALERT) -> int:
    return relay(topic, consumer).run(headquarters.services).done


def rows(headquarters: Headquarters) -> dict[str, tuple[int, str, bool, bool]]:
    found = headquarters.database.read(lambda conn: conn.execute(select(table).order_by(table.c.id)).all())
    return {row.key: (row.attempts, row.error, row.sent_at is not None, row.parked_at is not None) for row in found}


# ------------------------------------------------------------------ together with the change


def test_a_change_that_is_undone_takes_its_message_with_it(headquarters: Headquarters) -> None:
    def change(conn: Connection, ctx: Context) -> None:
        outbox.put(conn, [Message(ALERT, "a")], ctx.now)
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        headquarters.services.write(change)

    assert rows(headquarters) == {}


def test_the_same_message_is_written_once_also_after_it_was_sent(headquarters: Headquarters) -> None:
    consumer = Consumer()
    put(headquarters, "a", "a")
    put(headquarters, "a")

    send(headquarters, consumer)
    put(headquarters, "a")
    send(headquarters, consumer)

    assert consumer.took == ["a"]


def test_a_message_of_a_topic_that_nobody_reads_is_our_bug(headquarters: Headquarters) -> None:
    with pytest.raises(AssertionError, match="nobody reads"):
        put(headquarters, "a", topic="gossip")


# ------------------------------------------------------------------ at least once


def test_messages_are_sent_in_their_order_and_only_those_of_the_topic_that_are_due(headquarters: Headquarters) -> None:
    consumer = Consumer()
    put(headquarters, "a", "b")
    put(headquarters, "other", topic=TIMELY)
    put(headquarters, "later", after=timedelta(seconds=60))

    done = send(headquarters, consumer)
    headquarters.clock.pass_time(seconds=59)
    early = send(headquarters, consumer)
    headquarters.clock.pass_time(seconds=1)
    late = send(headquarters, consumer)

    assert (done, early, late) == (2, 0, 1)
    assert consumer.took == ["a", "b", "later"]


def test_a_server_that_dies_between_sending_and_marking_sends_again(headquarters: Headquarters) -> None:
    consumer = Consumer()
    put(headquarters, "a")
    put_out = Held(SCHEDULER, 7)  # a fence that is over: the mark does not get into the database

    with pytest.raises(LeaseLost):
        relay(ALERT, consumer).run(replace(headquarters.services, guard=put_out.check))
    send(headquarters, consumer)

    assert consumer.took == ["a", "a"]


def test_many_messages_are_sent_in_one_run(headquarters: Headquarters) -> None:
    consumer = Consumer()
    put(headquarters, *(f"m{number:04}" for number in range(350)))

    assert send(headquarters, consumer) == 350
    assert consumer.took == sorted(consumer.took)


# ------------------------------------------------------------------ a consumer that fails


def test_a_failure_is_tried_again_after_1_2_4_seconds_and_its_reason_is_kept(headquarters: Headquarters) -> None:
    consumer = Consumer(*[Undelivered("the webhook answered 500")] * 3)
    put(headquarters, "a")

    waits: list[int] = []
    waited_s = 0
    while not consumer.took:
        before = len(consumer.answers)
        send(headquarters, consumer)
        if len(consumer.answers) < before or consumer.took:
            waits.append(waited_s)
            waited_s = 0
        headquarters.clock.pass_time(seconds=1)
        waited_s += 1

    assert waits == [0, 1, 2, 4]
    assert rows(headquarters)["a"] == (3, "", True, False)


def test_the_reason_of_the_last_try_is_shown_but_not_what_an_unknown_error_says(headquarters: Headquarters) -> None:
    put(headquarters, "a", "b")

    send(headquarters, Consumer(Undelivered("answered 500")))
    send(headquarters, Consumer(ValueError("https://user:secret@example.org")))

    assert rows(headquarters) == {"a": (1, "answered 500", False, False), "b": (1, "ValueError", False, False)}


def test_one_bad_message_blocks_none_behind_it(headquarters: Headquarters) -> None:
    class Picky(Consumer):
        def __call__(self, message: Waiting) -> None:
            if message.key == "bad":
                raise ValueError
            super().__call__(message)

    consumer = Picky()
    put(headquarters, "bad", "good", "better")

    send(headquarters, consumer)
    send(headquarters, consumer)

    assert consumer.took == ["good", "better"]


def test_a_message_is_parked_after_a_day_of_tries_and_not_tried_again(headquarters: Headquarters) -> None:
    consumer = Consumer(*[Undelivered("gone")] * ATTEMPTS_MAX)
    put(headquarters, "a")
    began = headquarters.clock.now()

    for _ in range(ATTEMPTS_MAX):
        send(headquarters, consumer)
        headquarters.clock.pass_time(seconds=WAIT_MAX_S)
    send(headquarters, consumer)

    assert rows(headquarters)["a"] == (ATTEMPTS_MAX, "gone", False, True)
    assert finding(headquarters, "outbox_parked")["detail"]["error"] == "gone"
    # What comes now is that it was given up, not the message itself.
    assert [key.split(":")[:2] for key in consumer.took] == [["finding", "outbox_parked"]]
    assert headquarters.clock.now() - began < timedelta(days=2)


def test_a_clock_that_was_a_year_ahead_at_a_failure_keeps_nothing_back_for_long(headquarters: Headquarters) -> None:
    consumer = Consumer(Undelivered("gone"))
    put(headquarters, "a")
    headquarters.clock.pass_time(days=365)
    send(headquarters, consumer)

    headquarters.clock.pass_time(days=-365)
    kept = send(headquarters, consumer)
    repaired = forget_messages(headquarters.services).repaired
    send(headquarters, consumer)

    assert (kept, repaired) == (0, 1)
    assert consumer.took == ["a"]


def test_a_consumer_that_hangs_holds_up_no_other_topic_and_no_change(headquarters: Headquarters) -> None:
    came, wake = threading.Event(), threading.Event()

    def hang(_message: Waiting) -> None:
        came.set()
        assert wake.wait(30)

    put(headquarters, "slow")
    put(headquarters, "quick", topic=TIMELY)
    thread = threading.Thread(target=send, args=[headquarters, hang])
    thread.start()
    assert came.wait(30)
    quick = Consumer()

    send(headquarters, quick, TIMELY)
    put(headquarters, "written meanwhile")

    assert quick.took == ["quick"]
    wake.set()
    thread.join(30)


# ------------------------------------------------------------------ seen


def test_the_lag_is_that_of_the_oldest_message_past_its_time(headquarters: Headquarters) -> None:
    put(headquarters, "a")
    headquarters.clock.pass_time(seconds=30)
    put(headquarters, "b")
    put(headquarters, "later", after=timedelta(hours=1))
    send(headquarters, Consumer(Undelivered("gone")))
    headquarters.clock.pass_time(seconds=0.5)

    lags = {lag.topic: lag for lag in headquarters.services.read(lambda conn, ctx: outbox.lags(conn, ctx.now))}

    assert (lags[ALERT].waiting, lags[ALERT].oldest_s) == (2, 30.5)
    assert (lags[TIMELY].waiting, lags[TIMELY].oldest_s) == (0, 0.0)


def test_sent_messages_are_forgotten_after_a_day_and_waiting_ones_never(headquarters: Headquarters) -> None:
    put(headquarters, "a")
    send(headquarters, Consumer())
    put(headquarters, "waits")

    headquarters.clock.at += KEPT
    kept = headquarters.services.write(lambda conn, ctx: outbox.forget_sent(conn, ctx.now, limit=10))
    headquarters.clock.pass_time(seconds=1)
    gone = headquarters.services.write(lambda conn, ctx: outbox.forget_sent(conn, ctx.now, limit=10))

    assert (kept, gone) == (0, 1)
    assert list(rows(headquarters)) == ["waits"]
