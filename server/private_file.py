"""Write a file that only its owner may read, whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write the file durably with mode 0600; an older one is replaced in one step, whoever else writes it just now.

    On Windows the mode means little: the folder's own rights protect it there.
    """
    # A name of its own, which mkstemp makes with mode 0600: several workers begin at once.
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
