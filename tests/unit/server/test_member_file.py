"""A list of members is read as people save it, and what cannot be read is told by its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.services.issue_lists import chunks_of
from server.services.member_file import LINE_MAX_BYTES, MemberFile, Row


def _read(data: bytes, *, piece: int = 7) -> list[Row]:
    file = MemberFile()
    rows = [row for at in range(0, len(data), piece) for row in file.feed(data[at : at + piece])]
    return rows + list(file.end())


def _members(text: str, encoding: str = "utf-8") -> list[tuple[int, str]]:
    rows = _read(text.encode(encoding))
    assert all(row.readable for row in rows), rows
    return [(row.line, row.text) for row in rows]


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("m1\nm2\n", [(1, "m1"), (2, "m2")]),
        ("m1\r\nm2", [(1, "m1"), (2, "m2")]),
        ("\n\nm1\n \nm2\n", [(3, "m1"), (5, "m2")]),
        ("member\nm1\n", [(2, "m1")]),
        ("line,Member,reason\n1,m1,out\n", [(2, "m1")]),
        ("姓名;会员号\n王;m1\n", [(2, "m1")]),
        ("name\tid\nWang\tm1\n", [(2, "m1")]),
        ('"m1","x, y"\n', [(1, "m1")]),
        ("m1,extra\nm2\n", [(1, "m1"), (2, "m2")]),
        ("\ufeffmember\nm1\n", [(2, "m1")]),
        ("member\n'-m1\n", [(2, "-m1")]),
        ("0012\n", [(1, "0012")]),
    ],
)
def test_one_member_a_line_is_found(text: str, members: list[tuple[int, str]]) -> None:
    assert _members(text) == members


def test_a_chinese_spreadsheets_own_encoding_is_read() -> None:
    assert _members("会员,姓名\nm1,王\n", "gb18030") == [(2, "m1")]


@pytest.mark.parametrize(
    "line",
    ["a b", "a/b", "x" * 65, "a\x00b", ",,", "x" * (LINE_MAX_BYTES + 1), "x" * (9 * LINE_MAX_BYTES)],
)
def test_a_line_that_cannot_be_a_member_is_told_and_the_next_is_read(line: str) -> None:
    rows = _read(f"m1\n{line}\nm3\n".encode())

    assert [(row.line, row.readable) for row in rows] == [(1, True), (2, False), (3, True)]
    assert len(rows[1].text) <= 64 and rows[1].text.isprintable()


def test_bytes_of_no_encoding_are_told() -> None:
    assert [row.readable for row in _read(b"m1\n\xff\xff\nm3")] == [True, False, True]


@given(data=st.binary(max_size=300), piece=st.integers(1, 300))
def test_pieces_of_any_size_give_the_same_rows(data: bytes, piece: int) -> None:
    assert _read(data, piece=piece) == _read(data, piece=len(data) + 1)


@given(lines=st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=60), size=st.integers(1, 7))
def test_chunks_hold_every_row_at_its_line_and_none_is_too_large(lines: list[tuple[int, bool]], size: int) -> None:
    line, rows = 0, []
    for step, readable in lines:
        line += step
        rows.append(Row(line, f"m{line}", readable))

    chunks = list(chunks_of(rows, size))

    told = [(chunk.first_line + place, member) for chunk in chunks for place, member in enumerate(chunk.members)]
    assert [(at, member) for at, member in told if member is not None] == [
        (row.line, row.text) for row in rows if row.readable
    ]
    assert [failure[0] for chunk in chunks for failure in chunk.failures] == [
        row.line for row in rows if not row.readable
    ]
    assert all(1 <= chunk.size <= size and len(chunk.members) <= 4 * size for chunk in chunks)
    assert sum(chunk.size for chunk in chunks) == len(rows)
