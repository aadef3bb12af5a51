"""Say what a PIN is, what is hashed of it, and how guessing is slowed down; till and server read the same. Pure.

A PIN is a second factor on a till that is enrolled, no password: six digits fall to somebody who can try them all. So
what is hashed (Argon2id, at both ends) is no PIN but its HMAC under a key that lies in the keyring and not in the
database: a file that is stolen alone opens nothing. Wrong tries are counted in the ledger of the till, where restoring
a file does not undo them, and work without a line.
"""

import hmac
import re
from datetime import datetime, timedelta
from itertools import pairwise

LENGTH_MIN, LENGTH_MAX = 6, 12
_PIN = re.compile(rf"[0-9]{{{LENGTH_MIN},{LENGTH_MAX}}}", re.ASCII)
_PURPOSE = b"pawtill: the pepper of staff PINs"
FREE_TRIES = 4
"""Wrong ones without a pause."""
PAUSE_FIRST = timedelta(seconds=30)
"""Behind the fifth, doubled with each further one."""
TRIES_MAX = 10
"""Wrong ones behind which no time helps: whose PIN it is needs another one, from headquarters."""

MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
"""Of Argon2id (RFC 9106): the least that OWASP's Password Storage Cheat Sheet recommends; some 50 ms at a till."""
SALT_BYTES, HASH_BYTES = 16, 32


def is_pin(text: str) -> bool:
    """Tell whether a text can be a PIN: 6 to 12 digits, and neither one digit alone nor a run such as 123456."""
    if not _PIN.fullmatch(text):
        return False
    steps = {(int(after) - int(before)) % 10 for before, after in pairwise(text)}
    return steps not in ({0}, {1}, {9})


def peppered(code_key: bytes, pin: str) -> bytes:
    """Return what is hashed in place of a PIN: 32 bytes, under the key that till and server have in common."""
    pepper = hmac.digest(code_key, _PURPOSE, "sha256")
    return hmac.digest(pepper, pin.encode(), "sha256")


def locked_for(failures: int, last_at: datetime | None, now: datetime) -> timedelta | None:
    """Return how long nobody's PIN is looked at, 0 = it may be tried, None = never again: it takes a new one.

    `failures` in a row, the last one at `last_at`. A clock that was set back makes the pause begin anew: it never makes
    it shorter.
    """
    if failures >= TRIES_MAX:
        return None
    if failures <= FREE_TRIES or last_at is None:
        return timedelta(0)
    pause: timedelta = PAUSE_FIRST * 2 ** (failures - FREE_TRIES - 1)
    passed = now - last_at
    return pause if passed < timedelta(0) else max(timedelta(0), pause - passed)
