"""Be the printer at a till: what came out of it lies on the counter, whatever becomes of the till."""

import zlib
from collections import Counter

JAM = 25
"""Of so many receipts, one meets an empty roll the first time that it is printed."""


class Printer:
    """Print receipts; it outlives the till's process and its disk. `printed` are those that came out, by mark."""

    def __init__(self) -> None:
        self.printed: set[str] = set()
        self._tries: Counter[str] = Counter()

    def print(self, mark: str) -> bool:
        """Print; False = nothing came out, and somebody has put in a new roll since."""
        self._tries[mark] += 1
        if self._tries[mark] == 1 and zlib.crc32(mark.encode()) % JAM == 0:
            return False
        self.printed.add(mark)
        return True
