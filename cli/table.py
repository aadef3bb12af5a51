"""Print rows in columns."""

from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print rows of the same length, the first with the names of the columns; the first `left` columns are words."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            text.ljust(width) if at < left else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
