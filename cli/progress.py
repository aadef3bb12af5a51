"""Show how far long work is: a bar with counts for each step, on a terminal alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from app.domain.ports import Progress, Step, no_progress

_WORDS = {
    Step.READ: "Reading the ledger / 读取账本",
    Step.FETCH: "Fetching goods and coupons / 下载资料",
    Step.COMPARE: "Asking what is missing / 与总部核对",
    Step.CARRY: "Carrying entries over / 结转记录",
    Step.SEND: "Sending entries / 上传记录",
}


@contextmanager
def progress_shown(console: Console | None = None) -> Iterator[Progress]:
    """Show what the block tells of its steps. `console` None = stderr; where that is no terminal nothing is written."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield no_progress
        return
    tasks: dict[Step, TaskID] = {}
    with Bars(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console) as bars:

        def tell(step: Step, done: int, total: int) -> None:
            if not (done or total):
                return  # there is nothing of it
            if step not in tasks:
                tasks[step] = bars.add_task(_WORDS[step], total=None)
            bars.update(tasks[step], completed=done, total=max(done, total) if total else None)

        yield tell
