"""Give a till's rights back for the night without opening its window: `pawtill close-day`."""

from pathlib import Path

from app.services.ports import Busy, Offline
from app.store.errors import StoreError
from cli.exits import Exit, complain
from cli.ledger_trouble import explain
from cli.no_terminal import NoTerminal
from cli.till_folder import TILL_FILE, NotEnrolled, find_enrolment, till_folder
from ui.running_till import RunningTill, open_running_till


def run_close_day(data_dir: Path | None) -> int:
    """Sync, give every right back that no order holds, sync again; returns the exit code.

    Without a line the rights are closed all the same, and the server hears of it with the next sync.
    """
    folder = till_folder(data_dir)
    try:
        enrolment = find_enrolment(folder)
        with open_running_till(folder / TILL_FILE, enrolment, payments=NoTerminal()) as running:
            return _close(running)
    except (NotEnrolled, ValueError) as error:
        complain(str(error))
        return Exit.CANNOT_START
    except StoreError as error:
        return explain(error)


def _close(running: RunningTill) -> int:
    before = _sync(running)
    done = running.till.close_day()
    trouble = _sync(running) or before
    print(f"已交还额度 {done.closed} 笔、券 {done.returned} 张；未完成的订单占用 {done.kept} 项。")
    print(f"Given back: {done.closed} leases, {done.returned} coupons; {done.kept} are held by open orders.")
    if trouble is not None:
        complain(
            f"未能告知总部（{trouble}）：本机下次同步时告知",
            f"head office was not told ({trouble}): it hears of it with the till's next sync",
        )
    return Exit.OK if trouble is None else Exit.UNAVAILABLE


def _sync(running: RunningTill) -> Offline | Busy | None:
    """Sync; return why that was not done."""
    try:
        running.engine.run_once()
    except (Offline, Busy) as trouble:
        return trouble
    return None
