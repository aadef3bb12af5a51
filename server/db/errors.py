"""Name what keeps the database from answering now; each type says whether to try again or to call someone."""


class DatabaseTrouble(Exception):
    """Say that nothing was decided and nothing was written. `word` is stable, for logs and the `doctor` command."""

    word = "unavailable"


class DatabaseBusy(DatabaseTrouble):
    """Ask to try again: others write, a connection was lost, too many writes wait; `retry_after_s` is a guess."""

    word = "busy"

    def __init__(self, reason: str, *, retry_after_s: int = 1) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class DiskFull(DatabaseTrouble):
    """Say that there is no room left; what was answered before is safe."""

    word = "disk_full"


class DatabaseReadOnly(DatabaseTrouble):
    """Say that the database may not be written: a file's rights, a standby."""

    word = "read_only"


class DatabaseDamaged(DatabaseTrouble):
    """Say that the database is none of ours or not whole; to be restored from a backup, never repaired in passing."""

    word = "damaged"


class NewerSchema(DatabaseTrouble):
    """Refuse a database that a newer version of Pawtill has written."""

    word = "newer_schema"


class DataDirInUse(DatabaseTrouble):
    """Refuse to be the second server on one data folder."""

    word = "in_use"
