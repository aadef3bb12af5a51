"""Open the till's window, joined to its chain by a pass: `pawtill till [--join FILE]`."""

from pathlib import Path

from app.domain.ports import Progress, Step, no_progress
from app.services.ports import Busy, Offline
from app.services.secrets import Vault
from app.store.errors import StoreError
from cli.exits import Exit, complain
from cli.ledger_trouble import exit_code, in_words
from cli.progress import progress_shown
from cli.screen import why_no_screen
from cli.till_folder import (
    TILL_FILE,
    NoSuchPass,
    copy_folder,
    find_pass,
    keep_copy_folder,
    make_folder,
    read_joined,
    read_pass,
    tell_of_file,
    till_folder,
    write_joined,
)
from sync.enrol import rejoin
from ui.counter.terminal import CashierTerminal
from ui.desktop import application, done_in_sight, run_until_closed, say_trouble, show_till
from ui.running_till import RunningTill, TillPass, open_running_till


def run_till(
    data_dir: Path | None, *, join: Path | None, language: str, operator: str, second_copy: Path | None = None
) -> int:
    """Open the window and return the exit code when it has closed.

    `second_copy` is a folder on another disk for a second copy of the ledger, remembered from then on.

    `join` names a till pass: its secrets go into the keyring, or where there is none into a file for the owner alone.
    A damaged ledger opens too: the window says so and sells nothing.
    """
    folder = till_folder(data_dir)
    try:
        make_folder(folder)
        granted = join_chain(folder, join) if join is not None else find_pass(folder)
        if second_copy is not None:
            keep_copy_folder(folder, second_copy)
    except NoSuchPass as error:
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
        running = open_running_till(folder / TILL_FILE, granted, payments=terminal, copy_folder=copy)
    except StoreError as error:
        lines = in_words(error)
        say_trouble(error.key, error.detail, language=language, shown=lambda: complain(*lines))
        return exit_code(error)
    with running:
        running.till.operator = operator
        if join is not None:
            done_in_sight(lambda seen: go_on(running, seen), language=language)
        return run_until_closed(show_till(running, terminal=terminal, language=language))


def join_chain(folder: Path, file: Path) -> TillPass:
    """Take a till pass and keep its secrets; raises NoSuchPass, OSError.

    The same till may join again, with a new key; a folder stays one till's for good, since its ledger is.
    """
    granted = read_pass(file)
    known = read_joined(folder)
    if known is not None and (known.till_id, known.store_id) != (granted.joined.till_id, granted.joined.store_id):
        raise NoSuchPass(
            f"{folder} is the folder of till {known.till_id} in store {known.store_id}, the pass is for till "
            f"{granted.joined.till_id} in store {granted.joined.store_id}: choose another folder with --data-dir"
        )
    vault = Vault(folder)
    vault.save(granted.joined.till_id, granted.secrets)
    write_joined(folder, granted.joined)
    tell_of_file(vault, folder)
    print(f"Joined: till {granted.joined.till_id} in store {granted.joined.store_id}. The pass is not needed any more.")
    return granted


def go_on(running: RunningTill, seen: Progress = no_progress) -> None:
    """Let a till that has just come with a new pass go on in a new epoch, where its ledger is the server's no more.

    Whatever keeps it from that leaves everything as it is: the window opens and says what is wrong. A terminal shows
    how far it is; `seen` hears it too.
    """
    if running.till.status().damaged:
        return
    try:
        with progress_shown() as bars:

            def progress(step: Step, done: int, total: int) -> None:
                bars(step, done, total)
                seen(step, done, total)

            begun = rejoin(running.till, running.engine, running.client, progress=progress)
    except (Offline, Busy) as trouble:
        complain(f"head office was not asked to let this till go on ({trouble}); join again to ask again")
        return
    if begun is not None:
        rest = "" if begun.whole else "; the end of its old ledger is missing, so its old rights stay frozen"
        print(f"Epoch {begun.epoch}: {begun.carried} entries of before are carried over{rest}.")
