"""Open the till's window: `pawtill till`."""

from pathlib import Path

from app.store.errors import StoreError
from cli.exits import Exit, complain
from cli.ledger_trouble import exit_code, in_words
from cli.screen import why_no_screen
from cli.till_folder import TILL_FILE, NotEnrolled, copy_folder, find_enrolment, keep_copy_folder, till_folder
from ui.counter.terminal import CashierTerminal
from ui.desktop import application, run_until_closed, say_trouble, show_till
from ui.running_till import open_running_till


def run_till(data_dir: Path | None, *, language: str, operator: str, second_copy: Path | None = None) -> int:
    """Open the window and return the exit code when it has closed.

    `second_copy` is a folder on another disk for a second copy of the ledger, remembered from then on.
    A damaged ledger opens too: the window says so and sells nothing.
    """
    folder = till_folder(data_dir)
    try:
        enrolment = find_enrolment(folder)
        if second_copy is not None:
            keep_copy_folder(folder, second_copy)
    except NotEnrolled as error:
        complain(str(error))
        return Exit.CANNOT_START
    except OSError as error:
        complain(f"{folder} cannot be used: {error.strerror or error}")
        return Exit.CANNOT_START
    if reason := why_no_screen():
        complain(f"{reason}. A till needs a screen; everything is prepared, start it again where there is one.")
        return Exit.NO_SCREEN
    application()
    terminal = CashierTerminal()
    try:
        copy = copy_folder(folder)
        running = open_running_till(folder / TILL_FILE, enrolment, payments=terminal, copy_folder=copy)
    except StoreError as error:
        lines = in_words(error)
        say_trouble(error.key, error.detail, language=language, shown=lambda: complain(*lines))
        return exit_code(error)
    with running:
        running.till.operator = operator
        return run_until_closed(show_till(running, terminal=terminal, language=language))
