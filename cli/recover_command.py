"""Recover a till's damaged or lost ledger: `pawtill recover`, behind a new enrolment."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.domain.refusals import RefusalCode
from app.services.ports import Busy, Offline
from app.services.system import SystemIds
from app.services.till import Till
from app.store.errors import StoreError
from app.store.second_copy import SecondCopy
from cli.exits import Exit, complain
from cli.ledger_trouble import explain
from cli.no_terminal import NoTerminal
from cli.progress import progress_shown
from cli.till_folder import TILL_FILE, NotEnrolled, copy_folder, find_enrolment, till_folder
from sync.client import Misunderstood, ServerClient
from sync.engine import SyncEngine
from sync.enrol import recover
from ui.running_till import open_running_till

_ONE_EPOCH = (
    "head office opens one epoch for each key, and this till's key has: enrol it anew with a code, and run this "
    "again / 总部对每个密钥只开启一次新账期：请先重新登记，再运行本命令"
)


def run_recover(data_dir: Path | None, *, copy: Path | None) -> int:
    """Build a sound ledger from what is left, in a new epoch, and put it in place; the damaged file is kept."""
    folder = till_folder(data_dir)
    try:
        enrolment = find_enrolment(folder)
    except NotEnrolled as error:
        complain(str(error))
        return Exit.CANNOT_START

    @contextmanager
    def opened(file: Path) -> Iterator[tuple[Till, SyncEngine, ServerClient]]:
        with open_running_till(file, enrolment, payments=NoTerminal()) as running:
            yield running.till, running.engine, running.client

    joined = enrolment.joined
    kept = copy or copy_folder(folder)
    second = SecondCopy(kept, joined.till_id) if kept else None
    who = (joined.till_id, joined.store_id)
    try:
        with progress_shown() as progress:
            new_id = SystemIds().new()
            begun = recover(folder / TILL_FILE, opened, who=who, copy=second, new_id=new_id, progress=progress)
    except (Offline, Busy) as trouble:
        if isinstance(trouble, Misunderstood) and str(trouble) == RefusalCode.NOT_ALLOWED.value:
            complain(_ONE_EPOCH)
            return Exit.FOUND_SOMETHING
        complain(f"head office was not asked ({trouble}): nothing has changed here; try again when it can be reached")
        return Exit.UNAVAILABLE
    except StoreError as error:
        return explain(error)
    except OSError as error:
        complain(str(error))
        return Exit.UNAVAILABLE
    if begun is not None:
        rest = "" if begun.whole else " Something of the old ledger is missing: headquarters has a finding of it."
        print(f"Epoch {begun.epoch}: {begun.carried} entries are carried over.{rest}")
    print("Recovered. The damaged file is kept beside the new one; start the till: pawtill till")
    return Exit.OK
