"""Read a list of members line by line as it arrives: plain text or CSV, from any spreadsheet, whatever its size.

One member a line. Where the first line names a column `member`, `member_id` or `id` (or 会员, 会员号, 会员编号), that
column counts, else the first. Columns are divided by comma, semicolon or tab. UTF-8, or GB18030 as spreadsheets in
China save it. Blank lines are passed over. A line break inside of quotes is not known: each line stands for itself.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from server.services.names import ID_CHAR, ID_MAX_CHARS

LINE_MAX_BYTES = 4096
SHOWN_CHARS = 64
_COLUMNS = frozenset({"member", "member_id", "id", "会员", "会员号", "会员编号"})
_ID = re.compile(f"{ID_CHAR}{{1,{ID_MAX_CHARS}}}")
_BOM = "\ufeff"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula (OWASP, "CSV Injection"); we write an apostrophe before it."""


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one line, from 1: the member on it, or (`readable` false) the beginning of what could not be read."""

    line: int
    text: str
    readable: bool = True


class MemberFile:
    """Take the bytes in pieces and give the rows; keeps no more than one line."""

    def __init__(self) -> None:
        self._rest = b""
        self._overlong = False
        self._line = 0
        self._column: int | None = None
        self._divider = ","

    def feed(self, data: bytes) -> Iterator[Row]:
        """Yield the rows that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._take(line)
        if len(self._rest) > LINE_MAX_BYTES:
            self._overlong, self._rest = True, self._rest[:LINE_MAX_BYTES]

    def end(self) -> Iterator[Row]:
        """Yield the row of a last line without a line end."""
        if self._rest:
            yield from self._take(self._rest)
        self._rest = b""

    def _take(self, raw: bytes) -> Iterator[Row]:
        self._line += 1
        overlong, self._overlong = self._overlong or len(raw) > LINE_MAX_BYTES, False
        text = _decode(raw[:LINE_MAX_BYTES])
        if text is None or overlong:
            yield Row(self._line, _shown(text or ""), readable=False)
            return
        text = text.removeprefix(_BOM).rstrip("\r")
        if not text.strip():
            return
        if self._column is None:
            self._divider = next((each for each in "\t;" if each in text), ",")
            names = [cell.strip().lower() for cell in self._cells(text)]
            named = next((place for place, name in enumerate(names) if name in _COLUMNS), None)
            self._column = named or 0
            if named is not None:
                return
        cells = self._cells(text)
        member = _plain(cells[self._column].strip()) if len(cells) > self._column else ""
        if _ID.fullmatch(member):
            yield Row(self._line, member)
        else:
            yield Row(self._line, _shown(member or text), readable=False)

    def _cells(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self._divider), [])
        except csv.Error:
            return []


def _decode(raw: bytes) -> str | None:
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return None


def _plain(cell: str) -> str:
    """Take the apostrophe off that keeps a cell from being a formula: the file of failed rows can be sent again."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS) else cell


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:SHOWN_CHARS]
