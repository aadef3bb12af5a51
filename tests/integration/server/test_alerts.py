"""Alerts: told once, signed, in both languages; and a receiver that fails or hangs hurts nobody."""

from __future__ import annotations

import hashlib
import hmac
import re
import string
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from resources import alerts as words
from server.db.errors import DatabaseBusy
from server.hot_campaigns import WINDOW_S, HotCampaigns
from server.jobs import watches
from server.jobs.relay import relay
from server.services import alerts, findings
from server.services.outbox import ALERT, Undelivered, Waiting
from server.webhook import HANGING_MAX, Webhook, sign, silent
from tests.fakes.clock import SetClock
from tests.fakes.headquarters import START, Headquarters
from tests.fakes.receiver import Receiver, receiver

SECRET = "a secret of the chain's own"
STOCK = {"level": "stock_low", "campaign": "c1", "available": 1, "total": 10, "percent": 10}


@pytest.fixture
def other_end() -> Iterator[Receiver]:
    with receiver() as opened:
        yield opened


@pytest.fixture
def webhook(other_end: Receiver) -> Iterator[Webhook]:
    opened = Webhook(other_end.url, SECRET, clock=SetClock(START), deadline_s=0.3)
    yield opened
    other_end.let_go.set()
    opened.close()


def message(kind: str = "stock_low", facts: dict[str, Any] | None = None) -> Waiting:
    body = {"kind": kind, "at": START.isoformat(), "facts": STOCK if facts is None else facts}
    return Waiting(1, ALERT, f"{kind}:c1", body, START, 0)


def sent(headquarters: Headquarters, consumer: Any) -> int:
    return relay(ALERT, consumer).run(headquarters.services).done


def kinds(headquarters: Headquarters) -> list[str]:
    """Send what waits to nobody, and return the keys."""
    keys: list[str] = []
    sent(headquarters, lambda waiting: keys.append(waiting.key))
    return keys


# ------------------------------------------------------------------ the words


def test_every_alert_has_a_sentence_in_both_languages_with_the_same_facts() -> None:
    def placeholders(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    texts = words.texts()
    assert set(texts) == {alerts.CAMPAIGN_HOT, alerts.STOCK_LOW, alerts.STOCK_OUT, alerts.FINDING}
    for kind, by_language in texts.items():
        assert set(by_language) == set(words.LANGUAGES), kind
        assert len({frozenset(placeholders(text)) for text in by_language.values()}) == 1, kind
        assert re.search("[\u4e00-\u9fff]", by_language["zh"]) and not re.search("[\u4e00-\u9fff]", by_language["en"])


# ------------------------------------------------------------------ the webhook


def test_an_alert_is_posted_in_both_languages_and_signed(other_end: Receiver, webhook: Webhook) -> None:
    webhook(message())

    ((headers, body),) = other_end.came
    told = other_end.alerts[0]
    assert told["id"] == f"stock_low:c1/{round(START.timestamp())}"
    assert (told["kind"], told["facts"]["available"]) == ("stock_low", 1)
    assert "剩余 1" in told["text"]["zh"] and "1 of 10 left" in told["text"]["en"]
    at_s, digest = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["pawtill-signature"]).groups()  # type: ignore[union-attr]
    assert int(at_s) == round(START.timestamp())
    assert hmac.compare_digest(
        digest, hmac.new(SECRET.encode(), at_s.encode() + b"." + body, hashlib.sha256).hexdigest()
    )


@pytest.mark.parametrize(("body", "at_s", "secret"), [(b"other", 1, b"s"), (b"body", 2, b"s"), (b"body", 1, b"t")])
def test_another_body_time_or_secret_has_another_signature(body: bytes, at_s: int, secret: bytes) -> None:
    assert sign(secret, body, at_s).split("v1=")[1] != sign(b"s", b"body", 1).split("v1=")[1]


@pytest.mark.parametrize("status", [201, 204])
def test_any_2xx_is_taken_for_an_answer(other_end: Receiver, webhook: Webhook, status: int) -> None:
    other_end.status = status

    webhook(message())


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
def test_another_answer_is_no_delivery_and_no_redirect_is_followed(
    other_end: Receiver, webhook: Webhook, status: int
) -> None:
    other_end.status = status

    with pytest.raises(Undelivered, match=f"answered {status}"):
        webhook(message())

    assert len(other_end.came) == 1


def test_a_receiver_that_is_not_there_is_said_without_its_address() -> None:
    gone = Webhook("http://user:pass@127.0.0.1:9/secret-path", SECRET, clock=SetClock(START))

    with pytest.raises(Undelivered) as failed:
        gone(message())
    gone.close()

    assert "secret-path" not in str(failed.value) and "pass" not in str(failed.value)


def test_a_receiver_that_hangs_is_given_up_and_never_gets_many_calls_at_once(
    other_end: Receiver, webhook: Webhook
) -> None:
    other_end.status = 0

    reasons = []
    for _ in range(HANGING_MAX + 2):
        with pytest.raises(Undelivered) as failed:
            webhook(message())
        reasons.append(str(failed.value))

    assert [reason.endswith("within 0.3 s") for reason in reasons] == [True] * HANGING_MAX + [False] * 2
    assert len(other_end.came) == HANGING_MAX


def test_no_secret_gets_into_the_log(headquarters: Headquarters, other_end: Receiver, webhook: Webhook) -> None:
    other_end.status = 500
    headquarters.services.write(lambda conn, ctx: alerts.stock_low(conn, [STOCK], now=ctx.now))

    with capture_logs() as logs:
        sent(headquarters, webhook)

    assert SECRET not in str(logs) and other_end.url not in str(logs)


# ------------------------------------------------------------------ through the outbox


def test_an_alert_that_failed_is_sent_again_and_arrives_once_told(
    headquarters: Headquarters, other_end: Receiver, webhook: Webhook
) -> None:
    other_end.status = 500
    headquarters.services.write(lambda conn, ctx: alerts.stock_low(conn, [STOCK], now=ctx.now))

    failed = sent(headquarters, webhook)
    other_end.status = 200
    at_once = sent(headquarters, webhook)
    headquarters.clock.pass_time(seconds=1)
    later = sent(headquarters, webhook)
    again = sent(headquarters, webhook)

    assert (failed, at_once, later, again) == (0, 0, 1, 0)
    assert len({alert["id"] for alert in other_end.alerts}) == 1


def test_while_a_receiver_hangs_claims_are_answered(
    headquarters: Headquarters, other_end: Receiver, webhook: Webhook
) -> None:
    other_end.status = 0
    headquarters.campaign(stock=5)
    headquarters.services.write(lambda conn, ctx: alerts.stock_low(conn, [STOCK], now=ctx.now))
    slow = replace_deadline(webhook, 30.0)
    thread = threading.Thread(target=sent, args=[headquarters, slow])
    thread.start()
    assert other_end.asked.wait(30)

    body = {"request": "r1", "campaign": "c1", "member": "m1"}
    answer = headquarters.call("POST", "/v1/claims", body, key=headquarters.new_key("app"), status=201)

    assert answer["outcome"] == "ok"
    assert thread.is_alive()
    other_end.let_go.set()
    thread.join(30)


def replace_deadline(webhook: Webhook, deadline_s: float) -> Webhook:
    webhook._deadline_s = deadline_s
    return webhook


def test_without_a_webhook_alerts_pass_away(headquarters: Headquarters) -> None:
    headquarters.services.write(lambda conn, ctx: alerts.stock_low(conn, [STOCK], now=ctx.now))

    assert (sent(headquarters, silent), sent(headquarters, silent)) == (1, 0)


# ------------------------------------------------------------------ what is told


def claim(headquarters: Headquarters, count: int, *, start: int = 0) -> None:
    key = headquarters.new_key("app")
    for number in range(start, start + count):
        body = {"request": f"r{number}", "campaign": "c1", "member": "m1"}
        headquarters.call("POST", "/v1/claims", body, key=key, status=201)


def test_a_stock_that_runs_low_is_told_at_the_limit_once_and_again_when_it_is_out(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=10, per_member=100)
    watch = watches.watch_stock(20)
    told = []

    for count, start in ((7, 0), (1, 7), (1, 8), (1, 9)):
        claim(headquarters, count, start=start)
        watch.run(headquarters.services)
        told.append(kinds(headquarters))
    watch.run(headquarters.services)

    assert told == [[], ["stock_low:c1:10"], [], ["stock_out:c1:10"]]
    assert kinds(headquarters) == []


def test_a_stock_that_was_raised_and_runs_low_anew_is_told_anew(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=10, per_member=100)
    watch = watches.watch_stock(20)
    claim(headquarters, 8)
    watch.run(headquarters.services)
    headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 20}, status=200)
    claim(headquarters, 8, start=8)

    watch.run(headquarters.services)

    assert kinds(headquarters) == ["stock_low:c1:10", "stock_low:c1:20"]


@pytest.mark.parametrize("state", ["DRAFT", "PAUSED", "ENDED"])
def test_a_campaign_that_grants_nothing_is_not_watched(headquarters: Headquarters, state: str) -> None:
    headquarters.campaign(stock=0, state=state)

    assert watches.watch_stock(20).run(headquarters.services).done == 0


def test_a_campaign_that_runs_hot_is_told_once_an_hour(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    hot = HotCampaigns(5, monotonic=lambda: seconds[0])
    monkeypatch.setattr(watches.metrics, "hot", hot)
    watch = watches.watch_heat(5.0)

    told = []
    for asked, passed in ((49, 0), (50, 0), (50, 0), (50, 3600)):
        for _ in range(asked):
            hot.label("c1")
        seconds[0] += WINDOW_S
        headquarters.clock.pass_time(seconds=passed)
        watch.run(headquarters.services)
        told.append(kinds(headquarters))

    assert told == [[], ["campaign_hot:c1:2026-06-01T02"], [], ["campaign_hot:c1:2026-06-01T03"]]
    assert watch.everywhere


def test_a_new_finding_is_told_with_its_kind_alone_once_an_hour(headquarters: Headquarters) -> None:
    def find(key: str) -> None:
        headquarters.services.write(
            lambda conn, ctx: findings.open_finding(
                conn, kind="member_limit", key=key, amount_minor=0, detail={"member": "m1"}, now=ctx.now
            )
        )

    find("c1/m1")
    find("c1/m2")
    first = kinds(headquarters)
    headquarters.clock.at += timedelta(hours=1)
    find("c1/m1")
    same = kinds(headquarters)
    find("c1/m3")

    assert (first, same) == (["finding:member_limit:2026-06-01T02"], [])
    assert kinds(headquarters) == ["finding:member_limit:2026-06-01T03"]


def test_a_finding_whose_transaction_is_undone_is_not_told(headquarters: Headquarters) -> None:
    def find(conn: Any, ctx: Any) -> None:
        findings.open_finding(conn, kind="member_limit", key="c1/m1", amount_minor=0, detail={}, now=ctx.now)
        raise DatabaseBusy("undone")

    with pytest.raises(DatabaseBusy):
        replace(headquarters.services).write(find)

    assert kinds(headquarters) == []
