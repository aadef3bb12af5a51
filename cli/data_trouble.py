"""Say what is wrong with the server's data, whichever command meets it."""

from sqlalchemy.exc import SQLAlchemyError

from cli.exits import Exit, complain
from server.code_key import CodeKeyDiffers
from server.db.errors import DatabaseDamaged, DatabaseTrouble, NewerSchema


def explain(error: Exception) -> int:
    """Tell a person what is wrong with the server's data; returns the exit code for it."""
    complain(str(error))
    match error:
        case NewerSchema():
            return Exit.NEWER_DATA
        case DatabaseDamaged():
            return Exit.DAMAGED_DATA
        case CodeKeyDiffers():
            return Exit.OTHER_CODE_KEY
        case DatabaseTrouble() | SQLAlchemyError():
            return Exit.UNAVAILABLE
        case _:
            return Exit.CANNOT_START
