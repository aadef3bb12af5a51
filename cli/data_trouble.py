"""Say in both languages what is wrong with the server's data, whichever command meets it."""

from cli.exits import complain
from server.exits import exit_code, in_words


def explain(error: Exception) -> int:
    """Tell a person what is wrong with the server's data; returns the exit code for it."""
    complain(*in_words(error))
    return exit_code(error)
