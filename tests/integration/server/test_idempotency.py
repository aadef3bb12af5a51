"""The same request gets the same answer, refusals included; `busy` decided nothing and is not kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Connection

from server.services import findings
from server.services.answers import Answer
from server.services.context import Context
from server.services.idempotency import once
from tests.fakes.headquarters import Headquarters


class _Asked:
    """Answer from a list, and count how often somebody had to decide."""

    def __init__(self, headquarters: Headquarters, *answers: Answer) -> None:
        self._headquarters, self._answers = headquarters, list(answers)
        self.decided = 0

    def _decide(self) -> Answer:
        self.decided += 1
        return self._answers.pop(0)

    def ask(self, request_id: str, content: Mapping[str, Any]) -> Answer:
        return self._headquarters.services.write(
            lambda conn, ctx: once(conn, request_id, content, decide=self._decide, now=ctx.now)
        )


@pytest.mark.parametrize(
    "first", [{"outcome": "ok", "coupon": "k1"}, {"outcome": "out_of_stock", "facts": {"campaign": "c1"}}]
)
def test_the_first_answer_is_the_answer(headquarters: Headquarters, first: Answer) -> None:
    asked = _Asked(headquarters, first, {"outcome": "ok", "coupon": "another"})

    answers = [asked.ask("claim:r1", {"a": 1, "b": [2]}), asked.ask("claim:r1", {"b": [2], "a": 1})]

    assert answers == [first, first]
    assert asked.decided == 1


def test_other_content_under_the_same_id_is_refused_and_decides_nothing(headquarters: Headquarters) -> None:
    asked = _Asked(headquarters, {"outcome": "ok"})
    asked.ask("claim:r1", {"a": 1})

    answer = asked.ask("claim:r1", {"a": "1"})

    assert answer == {"outcome": "duplicate_mismatch", "facts": {"request": "r1"}}
    assert asked.decided == 1


def test_the_same_id_of_another_kind_of_request_is_another_request(headquarters: Headquarters) -> None:
    asked = _Asked(headquarters, {"outcome": "ok"}, {"outcome": "expired", "facts": {}})

    answers = [asked.ask("claim:r1", {})["outcome"], asked.ask("refund:r1", {})["outcome"]]

    assert answers == ["ok", "expired"]


def test_busy_is_asked_anew(headquarters: Headquarters) -> None:
    asked = _Asked(headquarters, {"outcome": "busy", "facts": {"retry_after_s": 1}}, {"outcome": "ok"})

    answers = [asked.ask("claim:r1", {})["outcome"] for _ in range(3)]

    assert answers == ["busy", "ok", "ok"]
    assert asked.decided == 2


def test_a_decision_that_fails_is_not_remembered(headquarters: Headquarters) -> None:
    def fail(conn: Connection, ctx: Context) -> Answer:
        def decide() -> Answer:
            findings.open_finding(conn, kind="test", key="k", amount_minor=1, detail={}, now=ctx.now)
            raise ValueError("our bug")

        return once(conn, "claim:r1", {}, decide=decide, now=ctx.now)

    with pytest.raises(ValueError, match="our bug"):
        headquarters.services.write(fail)

    assert _Asked(headquarters, {"outcome": "ok"}).ask("claim:r1", {}) == {"outcome": "ok"}
    assert headquarters.services.read(lambda conn, ctx: findings.open_counts(conn)) == {}


def test_a_finding_is_opened_once(headquarters: Headquarters) -> None:
    def find(conn: Connection, ctx: Context) -> None:
        for amount in (100, 200):
            findings.open_finding(conn, kind="late_payment", key="o1", amount_minor=amount, detail={}, now=ctx.now)
        findings.open_finding(conn, kind="late_payment", key="o2", amount_minor=5, detail={}, now=ctx.now)

    headquarters.services.write(find)

    listed = headquarters.call("GET", "/v1/findings", status=200)
    assert listed["open"] == {"late_payment": 2}
    assert [each["amount_minor"] for each in listed["findings"]] == [5, 100]
