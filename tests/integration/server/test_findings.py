"""A finding is opened with its evidence, decided by somebody, closed when it is done; nothing of it is ever deleted."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from app.domain.states import FindingState
from server.db.schema import finding as finding_table
from server.services import findings
from server.services.remedies import KINDS, LOSERS
from tests.fakes.counter import Counter, cash
from tests.fakes.counter import finding as finding_of
from tests.fakes.headquarters import Headquarters

DECIDE = {"decision": "remedy", "by": "Lin", "reason": "the customer is paid back"}
CLOSE = {"by": "Lin", "reason": "paid"}


@pytest.fixture
def late(headquarters: Headquarters, counter: Counter) -> str:
    """Find money that came for an order that was off; return the path of its finding."""
    counter.hold(counter.basket("o1", "A"), status=200)
    counter.cancel("o1")
    counter.append("late_payment", counter.body("o1", tenders=[{"type": "card", "amount_minor": 10_000}]))
    counter.push()
    return f"/v1/findings/{finding_of(headquarters, 'late_payment')['id']}"


def test_a_finding_says_who_loses_how_much_and_what_may_be_done(headquarters: Headquarters, late: str) -> None:
    shown = headquarters.call("GET", late, status=200)

    assert (shown["loser"], shown["amount_minor"], shown["in_money"], shown["currency"]) == (
        "customer",
        10_000,
        True,
        "CNY",
    )
    assert (shown["remedy"], shown["state"], shown["decision"]) == ("pay_back", "OPEN", "")
    assert shown["detail"]["tenders"] == [{"type": "card", "amount_minor": 10_000}]


def test_who_decided_what_and_when_is_kept(headquarters: Headquarters, late: str) -> None:
    decided = headquarters.call("POST", f"{late}/decide", DECIDE, status=200)
    closed = headquarters.call("POST", f"{late}/close", CLOSE, status=200)

    assert (decided["state"], closed["state"]) == ("DECIDED", "CLOSED")
    assert closed["decision"] == "remedy" and closed["decided_by"].startswith("Lin (headquarters:")
    assert closed["decided_at"] and closed["closed_at"]
    told = headquarters.call("GET", late, status=200)["history"]
    assert [(event["event"], event["to"], event["reason"]) for event in told] == [
        ("decide", "DECIDED", "remedy: the customer is paid back"),
        ("close", "CLOSED", "paid"),
    ]


def test_the_same_word_again_changes_nothing(headquarters: Headquarters, late: str) -> None:
    first = headquarters.call("POST", f"{late}/decide", DECIDE, status=200)
    again = headquarters.call("POST", f"{late}/decide", DECIDE, status=200)
    headquarters.call("POST", f"{late}/close", CLOSE, status=200)
    closed = headquarters.call("POST", f"{late}/close", CLOSE, status=200)

    assert (first, closed["state"]) == (again, "CLOSED")
    assert len(headquarters.call("GET", late, status=200)["history"]) == 2


def test_another_decision_takes_the_place_of_one_that_was_not_carried_out(
    headquarters: Headquarters, late: str
) -> None:
    headquarters.call("POST", f"{late}/decide", DECIDE, status=200)

    changed = headquarters.call("POST", f"{late}/decide", {**DECIDE, "decision": "accept", "by": "Wu"}, status=200)

    assert (changed["decision"], changed["decided_by"][:2]) == ("accept", "Wu")
    assert len(headquarters.call("GET", late, status=200)["history"]) == 2


def test_what_nobody_decided_is_not_closed_and_what_is_closed_is_not_decided(
    headquarters: Headquarters, late: str
) -> None:
    early = headquarters.call("POST", f"{late}/close", CLOSE, status=409)
    headquarters.call("POST", f"{late}/decide", DECIDE, status=200)
    headquarters.call("POST", f"{late}/close", CLOSE, status=200)
    after = headquarters.call("POST", f"{late}/decide", {**DECIDE, "by": "Wu"}, status=409)

    assert (early["outcome"], after["outcome"]) == ("illegal_transition", "illegal_transition")
    assert headquarters.call("GET", late, status=200)["decided_by"].startswith("Lin")


def test_only_headquarters_decides_and_only_the_office_reads(headquarters: Headquarters, late: str) -> None:
    manager, app = headquarters.new_key("manager"), headquarters.new_key("app")

    assert headquarters.call("GET", late, key=manager, status=200)["state"] == "OPEN"
    headquarters.call("POST", f"{late}/decide", DECIDE, key=manager, status=403)
    headquarters.call("POST", f"{late}/close", CLOSE, key=manager, status=403)
    headquarters.call("GET", late, key=app, status=403)
    headquarters.call("GET", "/v1/findings", key=app, status=403)


def test_a_finding_that_is_not_there_is_not_found(headquarters: Headquarters) -> None:
    headquarters.call("GET", "/v1/findings/99", status=404)
    headquarters.call("POST", "/v1/findings/99/decide", DECIDE, status=404)
    headquarters.call("POST", "/v1/findings/99/close", CLOSE, status=404)


@pytest.mark.parametrize("change", [{"decision": "forget"}, {"by": " "}, {"reason": ""}, {"more": 1}])
def test_a_word_that_makes_no_sense_is_422(headquarters: Headquarters, late: str, change: dict[str, object]) -> None:
    headquarters.call("POST", f"{late}/decide", DECIDE | change, status=422)


def test_findings_are_listed_by_state_and_kind(headquarters: Headquarters, counter: Counter, late: str) -> None:
    basket = counter.basket("o2", "A")
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket, tenders=[cash(1)]))
    counter.push()
    headquarters.call("POST", f"{late}/decide", DECIDE, status=200)

    def kinds(query: str) -> list[str]:
        return [each["kind"] for each in headquarters.call("GET", f"/v1/findings{query}", status=200)["findings"]]

    assert kinds("") == ["bad_sums", "late_payment"]
    assert (kinds("?state=OPEN"), kinds("?state=DECIDED"), kinds("?kind=bad_sums")) == (
        ["bad_sums"],
        ["late_payment"],
        ["bad_sums"],
    )


def test_a_rival_who_was_quicker_is_not_written_over(headquarters: Headquarters, late: str) -> None:
    """The state is compared by the write itself: what was read a moment ago may be over."""
    number = int(late.rpartition("/")[2])

    def both(conn, ctx):  # type: ignore[no-untyped-def]
        row = findings._find(conn, number)
        conn.execute(update(finding_table).values(state=FindingState.CLOSED))
        word = findings.Word("Lin", "late", "accept")
        values = {"decision": "accept", "decided_by": "Lin"}
        return findings._step(conn, ctx, row, event=findings.FindingEvent.DECIDE, word=word, values=values)

    answer = headquarters.services.write(both)

    assert answer["outcome"] == "illegal_transition"
    assert headquarters.call("GET", late, status=200)["decision"] == ""


def test_every_kind_names_its_loser() -> None:
    assert {each.loser for each in KINDS.values()} <= set(LOSERS)
