"""Keep a second server off a data folder, by a lock that the operating system drops when the process dies."""

import os
import sys
from pathlib import Path
from typing import IO

from server.db.errors import DataDirInUse


class FileLock:
    """Hold an exclusive lock on a file until `release`; raises DataDirInUse where somebody has it."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("a+b")
        try:
            _lock(self._file)
        except OSError as taken:
            self._file.close()
            raise DataDirInUse(f"another server is running on {path.parent}") from taken
        # For a person who looks who has it; the lock itself is the operating system's.
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n".encode())
        self._file.flush()

    def release(self) -> None:
        """Let go; closing the file drops the lock. The file stays, since removing it would race with the next owner."""
        self._file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        # Locks are mandatory here: one byte far behind the end, so that the number in front stays readable.
        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        # flock, not lockf: it belongs to this open file, so a second server in one process is refused as well.
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
