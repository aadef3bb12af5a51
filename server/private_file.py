"""Write a file that only its owner may read, whole or not at all."""

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write the file durably with mode 0600; an older one is replaced in one step.

    On Windows the mode means little: the folder's own rights protect it there.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
