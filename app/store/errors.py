"""Name what can go wrong with the till's file, each with what a person should do about it.

These are exceptions, "cannot now": their type says whether to try again or to stop. `key` names the words for the
screen (`resources/translations`); the text of the exception is for logs and the command line.
"""

from pathlib import Path
from typing import ClassVar


class StoreError(Exception):
    """Say that the till's file cannot do what was asked."""

    key: ClassVar[str]
    advice: ClassVar[str]

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path}: {detail}. {self.advice}")
        self.path = path
        self.detail = detail


class LedgerDamaged(StoreError):
    """Say that the ledger cannot be trusted any more: this till sells nothing until it is recovered."""

    key = "ledger_damaged"
    advice = "Sell on another till. Leave this file as it is and call support: what can be saved is in it"


class LedgerNewer(StoreError):
    """Say that a newer version of Pawtill wrote the file; an older one must not touch it."""

    key = "ledger_newer"
    advice = "Install the newest version of Pawtill on this till"


class LedgerForeign(StoreError):
    """Say that the file belongs to another till, or to another program."""

    key = "ledger_foreign"
    advice = "Start Pawtill with the folder of this till"


class LedgerLocked(StoreError):
    """Say that another program has the file, perhaps Pawtill itself in another window."""

    key = "ledger_locked"
    advice = "Close the other window or program that uses it, then start again"


class LedgerBusy(StoreError):
    """Say that the file could not be written within the time limit: nothing was saved; trying again may help."""

    key = "ledger_busy"
    advice = "Nothing was saved. Try again; if it stays so, close other programs that use this folder"


class DiskFull(StoreError):
    """Say that there is no room: nothing was saved, so the sale was NOT made."""

    key = "disk_full"
    advice = "Nothing was saved. Free some space on this disk, then try again"


class FolderUnwritable(StoreError):
    """Say that the file or its folder cannot be opened for writing."""

    key = "folder_unwritable"
    advice = "Check that the folder exists and that you may write there"
