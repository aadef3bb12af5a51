"""Number the ways in which the command ends; each means one thing, whichever subcommand says it.

1 is left to findings (an audit's violation, a scenario that failed, a part that is broken), 2 to a command line that
makes no sense. `run.py` adds 81 to 83 for the set-up.
"""

import sys
from enum import IntEnum


class Exit(IntEnum):
    """List the exit codes."""

    OK = 0
    FOUND_SOMETHING = 1
    CANNOT_START = 2
    PORT_IN_USE = 3
    DATA_IN_USE = 4
    NEWER_DATA = 5
    DAMAGED_DATA = 6
    UNAVAILABLE = 7
    """The database cannot be read or written now: locked, read-only, disk full."""
    NO_SCREEN = 8
    OTHER_CODE_KEY = 9
    """The folder's `code.key` is not the one under which the codes of the database are digested."""
    TOLD_TO_END = 143
    """By SIGTERM, before the work was done: 128 and the signal's number, as shells have it."""


NEW_CHAIN = "A new, empty chain. Headquarters' key, for its owner alone: {}"


def complain(*messages: str) -> None:
    """Tell a person what keeps the command from going on, a line for each message, without a traceback."""
    print("\n".join(f"pawtill: {message}" for message in messages), file=sys.stderr, flush=True)
