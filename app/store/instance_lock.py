"""Let one process alone use a till's file, and note beside it how far its ledger went.

The lock belongs to the open file description (`flock`) or the process (`msvcrt`), so it goes with a killed process and
never has to be cleaned up. SQLite's own locks would not do: they let two tills take turns, and both would sell.
"""

import os
import sys
from pathlib import Path

from app.store.errors import FolderUnwritable, LedgerLocked

_MARK_SIZE = 128
_LOCKED_BYTE = 4096
"""Where Windows locks: behind the mark, since its locks are mandatory and would forbid reading it."""


class InstanceLock:
    """Hold the lock from construction to `close`. Raises LedgerLocked, FolderUnwritable.

    The file's first line is the tail mark (`write_mark`): where the ledger ended when this machine last committed. It
    is written behind each commit and not forced to disk, so it may lag, and never runs ahead of what was durable.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self.path = ledger.with_name(ledger.name + ".lock")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        except OSError as error:
            raise FolderUnwritable(ledger, error.strerror or "cannot be opened") from error
        try:
            _lock(self._file)
        except OSError as error:
            os.close(self._file)
            raise LedgerLocked(ledger, "another Pawtill uses this till") from error

    def read_mark(self) -> str:
        """Return the mark that was written last, "" where there is none."""
        os.lseek(self._file, 0, os.SEEK_SET)
        return os.read(self._file, _MARK_SIZE).split(b"\n")[0].decode("ascii", "replace").strip()

    def write_mark(self, mark: str) -> None:
        """Write the mark; a full disk is no reason to call a committed sale not made, so errors are passed over."""
        line = mark.encode("ascii").ljust(_MARK_SIZE - 1) + b"\n"
        try:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, line)
        except OSError:
            return

    def close(self) -> None:
        """Let go. The file stays: removing it would let two processes lock two different files of one name."""
        os.close(self._file)


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
