"""The one arbiter: many requests at once are decided as one by one, and no rival takes what is not there."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, event, func, select, update

from app.domain.claims import Grant
from server.db import schema
from server.services import accounts, catalog, grants
from server.services.answers import Answer
from server.services.context import Context
from server.services.grants import Wanted
from tests.fakes.headquarters import Headquarters

STOCK, RIVALS = 50, 200


def _wanted(number: int, *, member: str | None = None, campaign: str = "c1") -> Wanted:
    return Wanted(f"claim:r{number}", campaign, member or f"m{number}", "app")


def _grant(headquarters: Headquarters, wanted: Sequence[Wanted]) -> list[Answer]:
    return headquarters.services.write(lambda conn, ctx: grants.grant(conn, ctx, wanted))


def _outcomes(answers: Sequence[Answer]) -> list[str]:
    return [answer["outcome"] for answer in answers]


def _granted(headquarters: Headquarters) -> int:
    return headquarters.database.read(lambda conn: conn.execute(select(func.count(schema.coupon.c.id))).scalar_one())


def _listen(
    headquarters: Headquarters, wanted: Sequence[Wanted], strike: Callable[[str, Any], None] = lambda *_: None
) -> tuple[list[Answer], list[str]]:
    """Grant, noting each statement and doing something just before it; return the answers and the statements."""
    heard: list[str] = []

    def hear(_conn: Any, cursor: Any, statement: str, *_more: Any) -> None:
        heard.append(statement)
        strike(statement, cursor)

    def run(conn: Connection, ctx: Context) -> list[Answer]:
        event.listen(conn, "before_cursor_execute", hear)
        try:
            return grants.grant(conn, ctx, wanted)
        finally:
            event.remove(conn, "before_cursor_execute", hear)

    return headquarters.services.write(run), heard


# ------------------------------------------------------------------ a batch


def test_a_batch_takes_its_coupons_by_one_transfer_of_n(headquarters: Headquarters) -> None:
    headquarters.furnish(members=3)
    headquarters.campaign(stock=5)

    answers = _grant(headquarters, [_wanted(number) for number in (1, 2, 3)])

    assert [answer["remaining"] for answer in answers] == [4, 3, 2]
    transfer = schema.transfer.c
    taken = headquarters.database.read(
        lambda conn: conn.execute(select(transfer.amount, transfer.id).where(transfer.reason == "grant")).all()
    )
    assert [tuple(row) for row in taken] == [(3, f"grant:{answers[0]['coupon']}")]


def test_the_last_unit_goes_to_the_first_who_asked(headquarters: Headquarters) -> None:
    headquarters.furnish(members=3)
    headquarters.campaign(stock=1)

    answers = _grant(headquarters, [_wanted(number) for number in (2, 1, 3)])

    assert _outcomes(answers) == ["ok", "out_of_stock", "out_of_stock"]


def test_two_requests_of_one_member_in_a_batch_are_counted_both(headquarters: Headquarters) -> None:
    headquarters.campaign(per_member=3, per_member_per_day=2)

    answers = _grant(headquarters, [_wanted(number, member="m1") for number in range(3)])

    assert _outcomes(answers) == ["ok", "ok", "limit_reached"]
    nths = headquarters.database.read(lambda conn: conn.execute(select(schema.coupon.c.member_nth)).scalars().all())
    assert sorted(nths) == [1, 2]


def test_the_same_request_twice_in_a_batch_is_one_grant(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5, per_member=2)

    answers = _grant(headquarters, [_wanted(1), _wanted(1)])

    assert answers[0] == answers[1]
    assert headquarters.stock()["granted"] == 1


def test_the_same_request_with_other_content_in_a_batch_is_refused(headquarters: Headquarters) -> None:
    headquarters.furnish(members=2)
    headquarters.campaign(stock=5)

    answers = _grant(headquarters, [_wanted(1), _wanted(1, member="m2")])

    assert _outcomes(answers) == ["ok", "duplicate_mismatch"]


def test_a_batch_asks_the_database_as_often_however_large_it_is(headquarters: Headquarters) -> None:
    headquarters.furnish(members=310)
    headquarters.campaign(stock=1000)

    _, few = _listen(headquarters, [_wanted(number) for number in range(301, 311)])
    _, many = _listen(headquarters, [_wanted(number) for number in range(1, 301)])

    # Statements are compared, not only counted: an IN list that is written out would differ by its length.
    assert many == few


def _plan(conn: Connection, held: str) -> str:
    """Tell which index answers the statement, in the database's words."""
    if conn.dialect.name == "sqlite":
        plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {held}", ("c1", "c1", "2026-06-01", '["m2"]')).all()
        return "\n".join(str(row.detail) for row in plan)
    # Of one coupon PostgreSQL knows no better index than another: with many of that member it does.
    conn.exec_driver_sql("SET LOCAL enable_seqscan = off")
    conn.exec_driver_sql("DROP INDEX ix_coupon_member_id")
    values = {"today": "2026-06-01", "campaign": "c1", "names": ["m2"]}
    return "\n".join(conn.exec_driver_sql(f"EXPLAIN {held}", values).scalars())


def test_what_a_campaign_granted_to_others_is_not_looked_at(headquarters: Headquarters) -> None:
    headquarters.furnish(members=2)
    headquarters.campaign(stock=10)
    _, statements = _listen(headquarters, [_wanted(1)])

    held = next(each for each in statements if "count(*)" in each)
    plan = headquarters.database.write(lambda conn: _plan(conn, held))

    # A scan by bitmap, which PostgreSQL may choose, names its condition once more for the rows that it rechecks.
    searches = [line for line in plan.splitlines() if re.search("campaign_id ?=", line) and "Recheck" not in line]
    assert len(searches) == 2, plan
    assert all(re.search(r"\(campaign_id ?= ?[^)]*\)? AND \(?member_id ?= ?", line) for line in searches), plan


_CAMPAIGNS: dict[str, dict[str, Any]] = {
    "stocked": {"stock": 3, "per_member": 1},
    "daily": {"stock": 4, "per_member": 3, "per_member_per_day": 2, "valid_days": 7},
    "golden": {"tiers": ["gold"], "bearer": True, "per_member": 2},
    "paused": {"state": "PAUSED"},
    "automatic": {"kind": "automatic"},
}
_asked = st.builds(
    Wanted,
    request=st.integers(1, 9).map("claim:r{}".format),
    campaign_id=st.sampled_from([*_CAMPAIGNS, "nothing"]),
    member_id=st.sampled_from(["m1", "m2", "m3", "nobody"]),
    source=st.sampled_from(["app", "banner"]),
    reason=st.sampled_from(["", "", "sorry"]),
)
_DRAWN = {"code", "code_digest", "version"}


class _Undone(Exception):
    """Take back what a trial wrote."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headquarters]:
    opened = Headquarters(tmp_path_factory.mktemp("world"))
    opened.furnish(members=3)
    opened.services.write(lambda conn, ctx: catalog.set_member(conn, ctx, "m3", tier="gold", home_store="s1", label=""))
    for campaign_id, keys in _CAMPAIGNS.items():
        opened.campaign(campaign_id, **keys)
    _grant(opened, [Wanted("claim:before", "daily", "m1", "app"), Wanted("claim:too", "golden", "m3", "app")])
    opened.clock.pass_time(hours=24)
    yield opened
    opened.close()


def _trial(world: Headquarters, batches: Sequence[Sequence[Wanted]]) -> tuple[list[Answer], dict[str, list[Any]]]:
    """Grant batch by batch; return the answers and the rows, without what is drawn; everything is taken back."""
    told: list[Answer] = []
    rows: dict[str, list[Any]] = {}
    world.ids._count = 1_000_000

    def run(conn: Connection, ctx: Context) -> None:
        for batch in batches:
            told.extend(grants.grant(conn, ctx, batch))
        for table in (schema.coupon, schema.history, schema.feed, schema.account, schema.request):
            found = conn.execute(select(table).order_by(*table.primary_key)).mappings()
            rows[table.name] = [
                {
                    key: _without_code(value) if key == "answer" else value
                    for key, value in row.items()
                    if key not in _DRAWN
                }
                for row in found
            ]
        raise _Undone

    with pytest.raises(_Undone):
        world.services.write(run)
    return [_without_code(answer) for answer in told], rows


def _without_code(answer: Answer) -> Answer:
    """Keep the length of what was drawn."""
    return {**answer, "code": len(answer["code"])} if "code" in answer else answer


@given(batches=st.lists(st.lists(_asked, max_size=12), min_size=1, max_size=3))
def test_a_batch_gives_the_answers_and_rows_of_one_by_one(world: Headquarters, batches: list[list[Wanted]]) -> None:
    together = _trial(world, batches)

    one_by_one = _trial(world, [[each] for batch in batches for each in batch])

    assert together == one_by_one


# ------------------------------------------------------------------ codes


def _draws(headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch, *draws: str) -> None:
    left = iter(draws)
    monkeypatch.setattr(headquarters.ids, "digits", lambda count: next(left))


def test_a_code_that_comes_twice_in_a_draw_is_drawn_again(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.furnish(members=2)
    headquarters.campaign()
    _draws(headquarters, monkeypatch, "1" * 28, "2" * 14)

    answers = _grant(headquarters, [_wanted(1), _wanted(2)])

    assert sorted(answer["code"][1:15] for answer in answers) == ["1" * 14, "2" * 14]


def test_a_batch_that_draws_a_code_in_use_is_drawn_anew(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.furnish(members=3)
    headquarters.campaign(stock=3)
    _draws(headquarters, monkeypatch, "1" * 14, "1" * 14 + "2" * 14, "3" * 14 + "4" * 14)
    _grant(headquarters, [_wanted(1)])

    answers = _grant(headquarters, [_wanted(2), _wanted(3)])

    assert [answer["code"][1:15] for answer in answers] == ["3" * 14, "4" * 14]
    assert headquarters.stock()["granted"] == 3


def test_one_who_draws_codes_in_use_for_ever_is_busy_and_not_remembered(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.furnish(members=2)
    headquarters.campaign(stock=3)
    with monkeypatch.context() as patch:
        patch.setattr(headquarters.ids, "digits", lambda count: "1" * count)
        first, second = _grant(headquarters, [_wanted(1)]), _grant(headquarters, [_wanted(2)])

    assert (_outcomes(first), _outcomes(second)) == (["ok"], ["busy"])
    assert _outcomes(_grant(headquarters, [_wanted(2)])) == ["ok"]


# ------------------------------------------------------------------ rivals in another process


def test_a_rival_who_takes_the_stock_meanwhile_leaves_the_batch_what_is_there(headquarters: Headquarters) -> None:
    headquarters.furnish(members=4)
    headquarters.campaign(stock=3)
    struck: list[str] = []

    def strike(statement: str, cursor: Any) -> None:
        if statement.startswith("UPDATE account") and not struck:
            struck.append(statement)
            take = "UPDATE account SET available = available - 2, spent = spent + 2 WHERE id = 'stock:c1'"
            cursor.connection.execute(take)

    answers, _ = _listen(headquarters, [_wanted(number) for number in (1, 2, 3)], strike)

    # The rival wrote inside our savepoint and went with it: what counts is that the batch was decided anew.
    assert struck and _outcomes(answers) == ["ok", "ok", "ok"]
    assert headquarters.stock()["granted"] == 3


def test_a_batch_that_never_gets_through_whole_is_decided_one_by_one(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.furnish(members=3)
    headquarters.campaign(stock=5)
    post = accounts.post
    monkeypatch.setattr(accounts, "post", lambda conn, move, now: post(conn, move, now) if move.amount == 1 else False)

    answers = _grant(headquarters, [_wanted(number) for number in (1, 2, 3)])

    assert [answer["remaining"] for answer in answers] == [4, 3, 2]


def test_two_hundred_rivals_get_fifty_coupons(headquarters: Headquarters) -> None:
    headquarters.furnish(members=RIVALS)
    headquarters.campaign(stock=STOCK)

    with ThreadPoolExecutor(RIVALS) as threads:
        outcomes = Counter(
            threads.map(lambda n: _grant(headquarters, [_wanted(n)])[0]["outcome"], range(1, RIVALS + 1))
        )

    assert outcomes == {"ok": STOCK, "out_of_stock": RIVALS - STOCK}
    assert headquarters.stock()["available"] == 0


def test_batches_and_single_claims_at_once_grant_what_there_is(headquarters: Headquarters) -> None:
    headquarters.furnish(members=RIVALS)
    headquarters.campaign(stock=STOCK)
    numbers = range(1, RIVALS + 1)
    batches = [[_wanted(number) for number in numbers[at : at + 1 + at % 9]] for at in numbers[:-10:7]]

    with ThreadPoolExecutor(16) as threads:
        answers = [
            answer for batch in threads.map(lambda each: _grant(headquarters, each), batches) for answer in batch
        ]

    granted = {answer["coupon"] for answer in answers if answer["outcome"] == "ok"}
    assert len(granted) == _granted(headquarters) == STOCK


def test_one_member_who_asks_a_hundred_times_at_once_gets_one(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=STOCK)

    with ThreadPoolExecutor(100) as threads:
        outcomes = Counter(
            threads.map(lambda n: _grant(headquarters, [_wanted(n, member="m1")])[0]["outcome"], range(100))
        )

    assert outcomes == {"ok": 1, "already_claimed": 99}


# What follows lets rivals decide on facts that are stale when they write: every one of them gathered before any wrote,
# as in two server processes. The guards must hold by themselves; each has a control in which it is taken out.


def _race(headquarters: Headquarters, batches: Sequence[Sequence[Wanted]]) -> Counter[str]:
    """Let all gather, then let all record without looking again; count "granted" and "too late"."""
    gathered_by_all = threading.Barrier(len(batches), timeout=60)

    def rival(batch: Sequence[Wanted]) -> str:
        def gather(conn: Connection, ctx: Context) -> tuple[grants.Facts, list[grants.Decision]]:
            facts = grants.gather(conn, ctx, batch)
            decisions = grants.decide(ctx, batch, facts)
            assert all(isinstance(each, Grant) for each in decisions)
            return facts, decisions

        facts, decisions = headquarters.services.read(gather)
        gathered_by_all.wait()
        answers = headquarters.services.write(
            lambda conn, ctx: grants.record(conn, ctx, batch, facts=facts, decisions=decisions)
        )
        return "too late" if answers is None else "granted"

    with ThreadPoolExecutor(len(batches)) as threads:
        return Counter(threads.map(rival, batches))


def _many_members(headquarters: Headquarters, *, together: int = 1) -> list[list[Wanted]]:
    headquarters.furnish(members=RIVALS)
    headquarters.campaign(stock=STOCK)
    numbers = range(1, RIVALS + 1)
    return [[_wanted(number) for number in numbers[at : at + together]] for at in range(0, RIVALS, together)]


def _one_member(headquarters: Headquarters) -> list[list[Wanted]]:
    headquarters.campaign(stock=STOCK)
    return [[_wanted(number, member="m1")] for number in range(20)]


def _take_without_looking(conn: Connection, account_id: str, *, source: str, target: str, amount: int) -> bool:
    """Do what `accounts` does, without its WHERE."""
    column = schema.account.c
    changed = {column[source]: column[source] - amount, column[target]: column[target] + amount}
    conn.execute(update(schema.account).where(column.id == account_id).values(changed))
    return True


def _drop_the_checks(headquarters: Headquarters, table: str, keep: Callable[[str], bool]) -> None:
    """Rebuild a table without the constraints that `keep` does not want."""

    def rebuild(conn: Connection) -> None:
        if conn.dialect.name == "postgresql":
            return alter(conn)
        sql = conn.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).scalar_one()
        parts = sql.rstrip().removesuffix(")").rstrip().split(", \n")
        conn.exec_driver_sql(f"ALTER TABLE {table} RENAME TO guarded")
        conn.exec_driver_sql(",\n".join(part for part in parts if keep(part)) + "\n)")
        conn.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM guarded")

    def alter(conn: Connection) -> None:
        found = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass"
        for name, definition in conn.exec_driver_sql(found, (table,)).all():
            if not keep(f"CONSTRAINT {name} {definition}"):
                conn.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")

    headquarters.database.write(rebuild)


@pytest.mark.parametrize("together", [1, 10])
def test_stale_facts_oversell_nothing(headquarters: Headquarters, together: int) -> None:
    batches = _many_members(headquarters, together=together)

    outcomes = _race(headquarters, batches)

    assert outcomes == {"granted": STOCK // together, "too late": (RIVALS - STOCK) // together}


@pytest.mark.parametrize("together", [1, 10])
def test_control_without_the_conditional_update_the_same_race_oversells(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    batches = _many_members(headquarters, together=together)
    monkeypatch.setattr(accounts, "_shift", _take_without_looking)
    _drop_the_checks(headquarters, "account", keep=lambda part: "CHECK" not in part)

    _race(headquarters, batches)

    assert _granted(headquarters) > STOCK


def test_the_check_alone_keeps_stock_from_being_oversold(
    headquarters: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = _many_members(headquarters)
    monkeypatch.setattr(accounts, "_shift", _take_without_looking)

    _race(headquarters, batches)

    assert _granted(headquarters) == STOCK


def test_stale_facts_give_no_member_a_second_coupon(headquarters: Headquarters) -> None:
    batches = _one_member(headquarters)

    outcomes = _race(headquarters, batches)

    assert outcomes == {"granted": 1, "too late": len(batches) - 1}
    assert headquarters.stock()["granted"] == 1


def test_control_without_the_unique_index_the_same_race_gives_one_member_many(headquarters: Headquarters) -> None:
    batches = _one_member(headquarters)
    _drop_the_checks(headquarters, "coupon", keep=lambda part: "UNIQUE (campaign_id" not in part)

    _race(headquarters, batches)

    assert _granted(headquarters) == len(batches)
