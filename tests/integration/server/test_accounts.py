"""Accounts: the equation holds whatever is tried, a transfer happens once, what is not there cannot be taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Connection, create_engine, event, select, update
from sqlalchemy.exc import IntegrityError

from server.db import schema
from server.db.schema import COMPARTMENTS
from server.services import accounts
from server.services.accounts import AVAILABLE, HELD, OUTSIDE, OVER, SPENT, Move
from tests.examples import share

NOW = datetime(2026, 6, 1, tzinfo=UTC)
STOCK = "stock:c1"


def _connect() -> Connection:
    engine = create_engine("sqlite://")

    @event.listens_for(engine, "connect")
    def prepare(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]

    connection = engine.connect()
    schema.metadata.create_all(connection)
    return connection


@pytest.fixture
def conn() -> Iterator[Connection]:
    """Open a database with an account of 10."""
    opened = _connect()
    accounts.open_account(opened, STOCK, kind=accounts.STOCK, total=10, now=NOW)
    yield opened
    opened.close()
    opened.engine.dispose()


def _move(transfer_id: str, amount: int, *, source: str = AVAILABLE, target: str = SPENT, attempt: int = 1) -> Move:
    return Move(transfer_id, STOCK, source, target, amount, "test", order_id="o1", attempt=attempt)


def _read(conn: Connection) -> accounts.Account:
    return accounts.read(conn, [STOCK])[STOCK]


def _states(conn: Connection) -> dict[str, str]:
    rows = conn.execute(select(schema.transfer.c.id, schema.transfer.c.state))
    return {row.id: row.state for row in rows if not row.id.startswith("open:")}


@pytest.mark.parametrize(("amount", "done"), [(1, True), (10, True), (11, False)])
def test_a_move_takes_what_is_there_and_not_one_more(conn: Connection, amount: int, done: bool) -> None:
    moved = accounts.post(conn, _move("t1", amount), NOW)

    found = _read(conn)
    assert moved is done
    assert (found.available, found.spent) == ((10 - amount, amount) if done else (10, 0))
    assert ("t1" in _states(conn)) is done


@pytest.mark.parametrize("make", [accounts.post, accounts.reserve])
def test_the_same_transfer_again_changes_nothing(
    conn: Connection, make: Callable[[Connection, Move, datetime], bool]
) -> None:
    make(conn, _move("t1", 4), NOW)
    before = _read(conn)

    again = make(conn, _move("t1", 4), NOW)

    assert again is True
    assert _read(conn) == before


def test_another_transfer_under_a_known_id_is_our_bug(conn: Connection) -> None:
    accounts.post(conn, _move("t1", 4), NOW)

    with pytest.raises(AssertionError):
        accounts.post(conn, _move("t1", 5), NOW)


def test_a_refused_transfer_may_come_again_when_there_is_enough(conn: Connection) -> None:
    assert accounts.post(conn, _move("t1", 12), NOW) is False

    accounts.add(conn, "more", account_id=STOCK, amount=2, reason="raised", now=NOW)

    assert accounts.post(conn, _move("t1", 12), NOW) is True


def test_what_is_reserved_is_nobody_elses_until_it_is_settled(conn: Connection) -> None:
    accounts.reserve(conn, _move("t1", 7), NOW)

    rival = accounts.reserve(conn, _move("t2", 4, attempt=2), NOW)
    touched = accounts.post_pending(conn, "o1", 1, now=NOW)

    found = _read(conn)
    assert rival is False
    assert touched == (STOCK,)
    assert (found.available, found.held, found.spent, found.standing) == (3, 0, 7, 3)
    assert _states(conn) == {"t1": "POSTED"}


def test_what_is_voided_is_back_and_is_not_voided_or_posted_again(conn: Connection) -> None:
    accounts.reserve(conn, _move("t1", 7), NOW)

    first = accounts.void_pending(conn, "o1", 1, now=NOW)
    again = accounts.void_pending(conn, "o1", 1, now=NOW)
    late = accounts.post_pending(conn, "o1", 1, now=NOW)

    assert (first, again, late) == ((STOCK,), (), ())
    assert _read(conn).available == 10


def test_only_the_attempt_that_holds_is_settled(conn: Connection) -> None:
    accounts.reserve(conn, _move("t1", 3, attempt=1), NOW)
    accounts.reserve(conn, _move("t2", 4, attempt=2), NOW)

    accounts.void_pending(conn, "o1", 1, now=NOW)

    assert (_read(conn).available, _read(conn).held) == (6, 4)


def test_a_voided_transfer_is_not_made_again_under_its_id(conn: Connection) -> None:
    accounts.reserve(conn, _move("t1", 3), NOW)
    accounts.void_pending(conn, "o1", 1, now=NOW)

    assert accounts.reserve(conn, _move("t1", 3), NOW) is False
    assert _read(conn).held == 0


def test_an_overdraft_stands_on_its_own_side_until_what_comes_in_pays_it_back(conn: Connection) -> None:
    accounts.post(conn, _move("all", 10), NOW)
    accounts.post(conn, _move("too much", 3, source=OVER), NOW)
    overdrawn = _read(conn)

    accounts.add(conn, "more", account_id=STOCK, amount=5, reason="raised", now=NOW)
    paid = accounts.pay_back_overdraft(conn, "netting", account_id=STOCK, reason="raised", now=NOW)

    assert (overdrawn.over, overdrawn.spent) == (3, 13)
    assert paid == 3
    assert (_read(conn).over, _read(conn).available) == (0, 2)


def test_a_cut_takes_from_outside_only_what_is_available(conn: Connection) -> None:
    accounts.post(conn, _move("t1", 8), NOW)

    assert accounts.post(conn, _move("cut 3", 3, target=OUTSIDE), NOW) is False
    assert accounts.post(conn, _move("cut 2", 2, target=OUTSIDE), NOW) is True
    assert (_read(conn).total, _read(conn).available) == (8, 0)


def test_no_more_overdraft_is_paid_back_than_there_is(conn: Connection) -> None:
    assert accounts.post(conn, _move("over", 3, source=OVER), NOW) is True

    assert accounts.post(conn, _move("too much", 4, target=OVER), NOW) is False
    assert accounts.post(conn, _move("all", 3, target=OVER), NOW) is True
    assert (_read(conn).over, _read(conn).available) == (0, 7)


def test_opening_an_open_account_changes_nothing(conn: Connection) -> None:
    accounts.open_account(conn, STOCK, kind=accounts.STOCK, total=99, now=NOW)

    assert _read(conn).total == 10


@pytest.mark.parametrize("column", ["total", "over", *COMPARTMENTS])
def test_no_statement_can_break_the_equation(conn: Connection, column: str) -> None:
    broken = update(schema.account).values({column: schema.account.c[column] + 1})

    with pytest.raises(IntegrityError, match="ck_account_equation"):
        conn.execute(broken)


@pytest.mark.parametrize("column", [name for name in COMPARTMENTS if name != AVAILABLE])
def test_no_statement_can_bring_a_compartment_below_zero(conn: Connection, column: str) -> None:
    columns = schema.account.c
    broken = update(schema.account).values({column: columns[column] - 1, AVAILABLE: columns.available + 1})

    with pytest.raises(IntegrityError, match=f"ck_account_{column}"):
        conn.execute(broken)


Make = Callable[[Connection, Move, datetime], bool]
# What is held belongs to an attempt: only settling and voiding may move it.
WAYS = [
    (source, target)
    for source in (*COMPARTMENTS, OUTSIDE, OVER)
    for target in (*COMPARTMENTS, OUTSIDE, OVER)
    if HELD not in (source, target) and not {source, target} <= {OUTSIDE, OVER}
]


class AccountMachine(RuleBasedStateMachine):
    """Post, reserve, settle and void at random, next to a model that only adds and takes away."""

    def __init__(self) -> None:
        super().__init__()
        self.conn = _connect()
        self.left = {"total": 0, "over": 0}
        self.right = dict.fromkeys(COMPARTMENTS, 0)
        self.pending: dict[int, list[Move]] = {1: [], 2: [], 3: []}
        self.made: list[tuple[Make, Move, bool]] = []
        self.count = 0

    def teardown(self) -> None:
        self.conn.close()
        self.conn.engine.dispose()

    @initialize(total=st.integers(0, 20))
    def open(self, total: int) -> None:
        accounts.open_account(self.conn, STOCK, kind=accounts.STOCK, total=total, now=NOW)
        self.left["total"] = self.right[AVAILABLE] = total

    def _new(self, source: str, target: str, *, amount: int, attempt: int) -> Move:
        self.count += 1
        return _move(f"t{self.count}", amount, source=source, target=target, attempt=attempt)

    def _shift(self, source: str, target: str, amount: int) -> bool:
        sides = {OUTSIDE: "total", OVER: "over"}
        if source == target:
            return True
        if source in self.right and self.right[source] < amount:
            return False
        if target in sides and self.left[sides[target]] < amount:
            return False
        for name, sign in ((source, -1), (target, 1)):
            if name in self.right:
                self.right[name] += sign * amount
            else:
                self.left[sides[name]] -= sign * amount
        return True

    @rule(way=st.sampled_from(WAYS), amount=st.integers(1, 12))
    def post(self, way: tuple[str, str], amount: int) -> None:
        move = self._new(*way, amount=amount, attempt=0)
        done = accounts.post(self.conn, move, NOW)
        assert done is self._shift(*way, amount)
        if done:
            self.made.append((accounts.post, move, True))

    @rule(
        way=st.sampled_from([way for way in WAYS if set(way) <= set(COMPARTMENTS)]),
        amount=st.integers(1, 12),
        attempt=st.integers(1, 3),
    )
    def reserve(self, way: tuple[str, str], amount: int, attempt: int) -> None:
        move = self._new(*way, amount=amount, attempt=attempt)
        done = accounts.reserve(self.conn, move, NOW)
        assert done is self._shift(way[0], HELD, amount)
        if done:
            self.pending[attempt].append(move)

    @rule(attempt=st.integers(1, 3), posted=st.booleans())
    def resolve(self, attempt: int, posted: bool) -> None:
        waiting, self.pending[attempt] = self.pending[attempt], []
        settle = accounts.post_pending if posted else accounts.void_pending
        assert settle(self.conn, "o1", attempt, now=NOW) == ((STOCK,) if waiting else ())
        for move in waiting:
            assert self._shift(HELD, move.target if posted else move.source, move.amount)
            self.made.append((accounts.reserve, move, posted))

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        waiting = [(accounts.reserve, move, True) for moves in self.pending.values() for move in moves]
        if self.made or waiting:
            make, move, answer = data.draw(st.sampled_from(self.made + waiting))
            assert make(self.conn, move, NOW) is answer

    @invariant()
    def the_account_is_the_model(self) -> None:
        found = accounts.read(self.conn, [STOCK]).get(STOCK)
        if found is not None:
            assert {name: getattr(found, name) for name in (*self.left, *self.right)} == {**self.left, **self.right}
            assert found.total + found.over == sum(self.right.values())


AccountMachine.TestCase.settings = settings(max_examples=share(1 / 2), stateful_step_count=30)
TestAccountsAgainstAModel = AccountMachine.TestCase
