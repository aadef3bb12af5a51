"""Controls: with its guards taken out the server fails the tests of faults, so those tests can see a failure.

The database decides and Redis admits, so each of the two hides the lack of the other: a control takes out both, and
shows beside it that one of them alone keeps the sum.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.faults.faults import Fault, Ground, Scene, open_ground, play
from tests.faults.shop import Shop

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are looked up in /proc")

_GUARDS = """
    SELECT conrelid::regclass::text, conname FROM pg_constraint
    WHERE conrelid = 'account'::regclass AND contype = 'c'
       OR conrelid = 'coupon'::regclass AND contype = 'u' AND pg_get_constraintdef(oid) LIKE '%member_nth%'
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Share a PostgreSQL among the controls."""
    with open_ground(tmp_path_factory.mktemp("controls"), seed=5) as made:
        yield made


def _drop_guards(shop: Shop) -> None:
    """Drop what the database itself would say no by."""
    assert shop.url is not None
    with psycopg.connect(shop.url.render_as_string(hide_password=False), autocommit=True) as connection:
        found = connection.execute(_GUARDS).fetchall()
        assert len(found) > 2
        for table, name in found:
            drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}")
            connection.execute(drop.format(sql.Identifier(table), sql.Identifier(name)))


OLD_SNAPSHOT = Fault([Scene.keep_snapshot, Scene.restore_snapshot], large=True, listed=0, early=False)
QUIET = Fault([], large=True, listed=0)
WITHOUT_REDIS = Fault([], large=True, listed=0, arbiter="database")


# Whether it is seen at all that a guard is gone, the suite asks of the sale without Lua; this guard by itself has its
# tests where Redis comes back, and the next two stand at the rivals in two processes.
@pytest.mark.long
def test_an_old_snapshot_oversells_where_neither_the_epoch_nor_the_database_says_no(ground: Ground) -> None:
    outcome = play(ground, OLD_SNAPSHOT, weak=("epoch", "arbiter"), prepare=_drop_guards)

    assert outcome.doubled > 0 and not outcome.clean


@pytest.mark.long
def test_lua_alone_keeps_the_sum_where_the_database_grants_everything(ground: Ground) -> None:
    outcome = play(ground, QUIET, weak=("arbiter",), prepare=_drop_guards)

    assert (outcome.doubled, outcome.lost, outcome.granted) == (0, 0, 260)


@pytest.mark.long
def test_a_sale_oversells_where_neither_lua_nor_the_database_says_no(ground: Ground) -> None:
    outcome = play(ground, QUIET, weak=("lua", "arbiter"), prepare=_drop_guards)

    assert outcome.doubled > 0 and not outcome.clean


@pytest.mark.long
def test_index_and_conditional_update_alone_keep_the_sum_where_servers_write_at_the_same_time(ground: Ground) -> None:
    outcome = play(ground, WITHOUT_REDIS, weak=("lock",))

    assert (outcome.doubled, outcome.lost, outcome.granted) == (0, 0, 260)


@pytest.mark.long
def test_two_servers_oversell_where_neither_lock_nor_index_nor_update_says_no(ground: Ground) -> None:
    outcome = play(ground, WITHOUT_REDIS, weak=("lock", "guards"), prepare=_drop_guards)

    assert outcome.doubled > 0 and not outcome.clean
