"""The feed: pages by number, a record once and as it stands now, numbers that never come again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from sqlalchemy import Connection, delete, text
from sqlalchemy.exc import IntegrityError

from server.db.schema import store
from server.services import catalog, feed
from server.services.context import Context
from sync.protocol import PullAnswer
from tests.fakes.headquarters import Headquarters


def _stores(headquarters: Headquarters, ids: Iterable[str]) -> None:
    def set_them(conn: Connection, _ctx: Context) -> None:
        for store_id in ids:
            catalog.set_store(conn, store_id, zone="Asia/Shanghai")

    headquarters.services.write(set_them)


def _page(headquarters: Headquarters, cursor: int, limit: int = 100) -> PullAnswer:
    return headquarters.services.read(lambda conn, ctx: feed.page(conn, cursor, limit))


def _head(headquarters: Headquarters) -> int:
    return headquarters.services.read(lambda conn, ctx: feed.head(conn))


def test_pages_follow_each_other_without_gap_or_repeat(headquarters: Headquarters) -> None:
    start = _head(headquarters)
    _stores(headquarters, ["a", "b", "c"])

    first = _page(headquarters, start, limit=2)
    second = _page(headquarters, first.next, limit=2)
    third = _page(headquarters, second.next, limit=2)

    assert [[each.key for each in page.records] for page in (first, second, third)] == [["a", "b"], ["c"], []]
    assert [page.more for page in (first, second, third)] == [True, False, False]
    assert third.next == second.next == _head(headquarters)
    assert {page.head for page in (first, second, third)} == {_head(headquarters)}


def test_a_page_that_ends_exactly_at_the_head_has_no_more(headquarters: Headquarters) -> None:
    start = _head(headquarters)
    _stores(headquarters, ["a", "b"])

    assert _page(headquarters, start, limit=2).more is False


def test_a_record_that_changed_twice_comes_once_and_last(headquarters: Headquarters) -> None:
    start = _head(headquarters)
    _stores(headquarters, ["a", "b", "a"])

    assert [each.key for each in _page(headquarters, start).records] == ["b", "a"]


def test_a_record_that_is_gone_says_so(headquarters: Headquarters) -> None:
    start = _head(headquarters)
    _stores(headquarters, ["a"])
    headquarters.database.write(lambda conn: conn.execute(delete(store).where(store.c.id == "a")))

    assert [each.record for each in _page(headquarters, start).records] == [None]


def test_a_number_never_comes_again(headquarters: Headquarters) -> None:
    _stores(headquarters, ["a"])
    before = _head(headquarters)
    headquarters.database.write(lambda conn: conn.execute(text("DELETE FROM feed")))

    _stores(headquarters, ["a"])

    assert _head(headquarters) > before


def test_a_write_that_fails_moves_no_record(headquarters: Headquarters) -> None:
    before = _head(headquarters)

    def fail(conn: Connection, _ctx: Context) -> None:
        catalog.set_store(conn, "a", zone="Asia/Shanghai")
        raise ValueError

    with pytest.raises(ValueError):
        headquarters.services.write(fail)

    assert _head(headquarters) == before


def test_the_writer_of_a_file_is_durable_and_keeps_references_whole(on_file: Headquarters) -> None:
    def pragmas(conn: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [conn.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]

    assert on_file.database.write(pragmas) == ["wal", 2, 1]


def test_an_error_of_the_database_tells_no_values(headquarters: Headquarters) -> None:
    statement = text("INSERT INTO api_key (id, digest, scope, till_id, name) VALUES (:secret, :zero, 'app', 'x', 'n')")

    with pytest.raises(IntegrityError) as error:
        headquarters.database.write(lambda conn: conn.execute(statement, {"secret": "0123456789", "zero": b"\0"}))

    assert "0123456789" not in str(error.value)
