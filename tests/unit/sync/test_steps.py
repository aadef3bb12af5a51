"""The parts of a session that only think: whose ledger, how much at once, what a verdict means, how long to wait."""

from __future__ import annotations

import random
from zoneinfo import ZoneInfo

import pytest

from app.domain.ledger import Entry, genesis, make_entry
from sync.engine import BACKOFF_MAX_S, backoff_s
from sync.hello import Stop, check
from sync.protocol import EntryResult, HelloAnswer, PushedEntry
from sync.push import fit, parking_code
from sync.verify import Daybook

# ------------------------------------------------------------------ whose ledger


def answer_of(**changes: object) -> HelloAnswer:
    told: dict[str, object] = {
        "incarnation": 1,
        "epoch": 1,
        "acked": (3, "h3"),
        "tail": (5, "h5"),
        "state": "OK",
        "now_ms": 0,
        "schema_accept": (1, 1),
        "head": 0,
    }
    return HelloAnswer.model_validate(told | changes)


def checked(answer: HelloAnswer) -> Stop | None:
    return check(answer, epoch=1, last_seq=5, hash_at=lambda seq: f"h{seq}" if seq else "")


@pytest.mark.parametrize("acked", [(0, ""), (3, "h3"), (5, "h5")])
def test_a_server_that_holds_a_beginning_of_our_ledger_is_ours(acked: tuple[int, str]) -> None:
    assert checked(answer_of(acked=acked)) is None


@pytest.mark.parametrize(
    ("changes", "stop"),
    [
        ({"epoch": 2}, Stop.EPOCH),
        ({"epoch": 0}, Stop.EPOCH),
        ({"acked": (6, "h6")}, Stop.ROWS_LOST),
        ({"tail": (6, "h6")}, Stop.ROWS_LOST),
        ({"acked": (3, "other")}, Stop.FORK),
        ({"tail": (5, "other")}, Stop.FORK),
        ({"acked": (0, "h0")}, Stop.FORK),
        ({"acked": (3, "")}, Stop.FORK),
        ({"state": "FORK"}, Stop.FORK),
        ({"state": "REVOKED"}, Stop.REVOKED),
        ({"epoch": 2, "acked": (6, "h6"), "state": "REVOKED"}, Stop.EPOCH),
        ({"acked": (6, "h6"), "tail": (5, "other")}, Stop.ROWS_LOST),
    ],
)
def test_a_server_that_holds_something_else_stops_the_sync(changes: dict[str, object], stop: Stop) -> None:
    assert checked(answer_of(**changes)) is stop


# ------------------------------------------------------------------ how much at once


def ledger_of(*bodies: str) -> list[Entry]:
    entries: list[Entry] = []
    for seq, body in enumerate(bodies, start=1):
        before = entries[-1].hash if entries else genesis("t1", 1)
        entries.append(
            make_entry(before, till_id="t1", epoch=1, seq=seq, entry_id=f"e{seq}", kind="sale", data={"note": body})
        )
    return entries


def test_entries_fit_to_the_last_byte() -> None:
    entries = ledger_of("a" * 100, "b" * 100, "c" * 100)
    two = sum(len(PushedEntry.of(entry).model_dump_json()) + 1 for entry in entries[:2])

    assert [len(fit(entries, max_bytes)) for max_bytes in (two - 1, two, two + 1)] == [1, 2, 2]


def test_an_entry_beyond_the_limit_travels_alone() -> None:
    entries = ledger_of("a" * 1000, "b")

    assert fit(entries, 10) == (entries[0],)


# ------------------------------------------------------------------ what a verdict means


@pytest.mark.parametrize(
    ("result", "code", "parked"),
    [
        ("OK", "", None),
        ("DUP", "", None),
        ("DUP", "late_payment", "CONFLICT late_payment"),
        ("DUP", "quarantined", "QUARANTINED quarantined"),
        ("CONFLICT", "unknown_sku", "CONFLICT unknown_sku"),
        ("QUARANTINED", "", "QUARANTINED"),
        ("HANDED_OVER", "t2", "HANDED_OVER t2"),
    ],
)
def test_only_what_is_in_order_is_not_parked(result: str, code: str, parked: str | None) -> None:
    assert parking_code(EntryResult(seq=1, result=result, code=code)) == parked


# ------------------------------------------------------------------ how long to wait


def test_waiting_doubles_up_to_five_minutes_and_never_less_than_half_of_that() -> None:
    rng = random.Random(1)

    waits = [backoff_s(failures, rng) for failures in (*range(1, 12), 10_000)]

    tops = [min(BACKOFF_MAX_S, 5.0 * 2**failures) for failures in (*range(1, 12), 20)]
    assert all(top / 2 <= wait <= top for wait, top in zip(waits, tops, strict=True))
    assert len(set(waits)) == len(waits)


# ------------------------------------------------------------------ a day's sums


def money_entry(seq: int, kind: str, at: str, data: dict[str, object]) -> Entry:
    return make_entry(
        b"", till_id="t1", epoch=1, seq=seq, entry_id=f"e{seq}", kind=kind, data={"order": "o", "at": at, **data}
    )


def test_a_day_counts_sales_and_refunds_by_the_stores_date() -> None:
    book = Daybook(ZoneInfo("Asia/Shanghai"))
    cash = [{"type": "cash", "amount_minor": 995}, {"type": "rounding", "amount_minor": 5}]

    book.add(money_entry(1, "sale", "2026-06-01T15:59:59Z", {"quote": {"discount_minor": 7}, "tenders": cash}))
    book.add(money_entry(2, "cancel", "2026-06-01T15:59:59Z", {"reason": "cancelled"}))
    book.add(money_entry(3, "sale", "2026-06-01T16:00:00Z", {"quote": {"discount_minor": 0}, "tenders": cash}))
    back = {"tenders": [{"type": "cash", "amount_minor": 995}]}
    book.add(money_entry(4, "refund", "2026-06-01T16:00:01Z", {"body": back}))

    assert {date: day.to_json() for date, day in book.days.items()} == {
        "2026-06-01": {"sales": 1, "refunds": 0, "tenders": {"cash": 995, "rounding": 5}, "discount_minor": 7},
        "2026-06-02": {"sales": 1, "refunds": 1, "tenders": {"rounding": 5}, "discount_minor": 0},
    }
    assert (book.changed, book.upto) == ({"2026-06-01", "2026-06-02"}, 4)


@pytest.mark.parametrize("data", [{}, {"quote": {"discount_minor": 1}}, {"quote": 7, "tenders": []}])
def test_an_entry_that_cannot_be_read_counts_for_nothing_and_stops_nothing(data: dict[str, object]) -> None:
    book = Daybook(ZoneInfo("Asia/Shanghai"))

    book.add(money_entry(1, "sale", "2026-06-01T15:59:59Z", data))

    assert (book.days, book.upto) == ({}, 1)
