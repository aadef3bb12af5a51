"""Print rows in columns."""

from collections.abc import Sequence
from unicodedata import east_asian_width


def print_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print rows of the same length, the first with the names of the columns; the first `left` columns are words."""
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        blanks = [" " * (width - _cells(text)) for text, width in zip(row, widths, strict=True)]
        cells = [
            text + blank if at < left else blank + text
            for at, (text, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _cells(text: str) -> int:
    """Count the cells of a terminal that a text fills: a Chinese character takes two (Unicode Standard Annex 11)."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
