"""Say in both languages why a till's ledger cannot be used, whichever command meets it."""

from app.store.errors import StoreError
from cli.exits import Exit, complain
from resources.translations import load

_EXITS = {
    "ledger_locked": Exit.DATA_IN_USE,
    "ledger_newer": Exit.NEWER_DATA,
    "ledger_foreign": Exit.CANNOT_START,
    "ledger_damaged": Exit.DAMAGED_DATA,
}


def in_words(error: StoreError) -> tuple[str, str]:
    """Return what a person should know of a ledger that cannot be used: a line in Chinese, one in English."""
    return load("zh")[f"trouble.{error.key}"], str(error)


def exit_code(error: StoreError) -> int:
    """Return the exit code of a command that cannot use a till's ledger."""
    return _EXITS.get(error.key, Exit.UNAVAILABLE)


def explain(error: StoreError) -> int:
    """Tell a person why a till's ledger cannot be used; returns the exit code for it."""
    complain(*in_words(error))
    return exit_code(error)
