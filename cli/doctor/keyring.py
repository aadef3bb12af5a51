"""Look whether the system's keyring answers, with a limit: a locked one would wait for a password for minutes."""

import threading

from app.services.secrets import LIMIT_S, system_keyring
from cli.doctor.check import Check, fine, note

_IN_FILE = "secrets go into a file for its owner alone"


def look() -> Check:
    """Name the keyring's backend and try a read of nothing."""
    found: list[str] = []

    def ask() -> None:
        try:
            ring = system_keyring()
            ring.get_password("pawtill", "doctor")
            found.append(type(ring).__module__)
        except Exception as error:  # whatever a foreign keyring raises, it means that it cannot be used
            found.append(f"!{type(error).__name__}")

    thread = threading.Thread(target=ask, name="keyring", daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if not found:
        return note("Keyring", f"no answer within {LIMIT_S:.0f} s (locked?): {_IN_FILE}")
    if found[0].startswith("!"):
        return note("Keyring", f"none ({found[0][1:]}): {_IN_FILE}")
    return fine("Keyring", found[0])
