"""Tell which rows of a batch issue got nothing, and why: a CSV for any spreadsheet, that can be sent in again."""

import csv
import io
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from resources import translations
from server.db import schema
from server.services.issue_work import REPEATED, Failure
from server.services.member_file import FORMULA_STARTS
from server.services.services import Services

PAGE_CHUNKS = 20
HEADINGS = ("line", "member", "reason", "原因", "explanation")


def as_csv(services: Services, task_id: str) -> Iterator[str]:
    """Yield the file in pieces: UTF-8 with a mark for spreadsheets, one row for each failure, in the order of lines.

    Chunks that are not done yet tell what could not be read of them. Each page is a snapshot of its own, so that a
    caller who reads slowly keeps no snapshot open.
    """
    yield "\ufeff" + _lines([HEADINGS])
    after = 0
    while True:
        found = services.read(lambda conn, _ctx, after=after: _page(conn, task_id, after=after))  # type: ignore[misc]
        if not found:
            return
        after = found[-1][0]
        yield _lines([_told(failure) for _, failures in found for failure in failures])


def _page(conn: Connection, task_id: str, *, after: int) -> list[tuple[int, list[Failure]]]:
    chunk = schema.issue_chunk
    rows = conn.execute(
        select(chunk.c.number, chunk.c.failures)
        .where(chunk.c.task_id == task_id, chunk.c.number > after, chunk.c.failed > 0)
        .order_by(chunk.c.number)
        .limit(PAGE_CHUNKS)
    )
    return [(row.number, [(line, text, reason) for line, text, reason in row.failures]) for row in rows]


def _told(failure: Failure) -> Sequence[object]:
    line, text, reason = failure
    key = "issue.repeated" if reason == REPEATED else f"refusal.{reason}.title"
    return line, _plain(text), reason, translations.load("zh").get(key, ""), translations.load("en").get(key, "")


def _plain(text: str) -> str:
    """Keep a cell from being a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _lines(rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
