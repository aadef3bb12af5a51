"""What a person sees of long work: a bar with counts for each step, on a terminal alone."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from app.domain.ports import Step, no_progress
from cli.progress import progress_shown


def screen() -> Console:
    return Console(file=StringIO(), force_terminal=True, width=120)


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_each_step_has_a_bar_with_its_counts() -> None:
    console = screen()

    with progress_shown(console) as tell:
        tell(Step.FETCH, 500, 1002)
        tell(Step.FETCH, 1002, 1002)
        tell(Step.CARRY, 3, 8)

    shown = written(console)
    assert "下载资料" in shown and "1002/1002" in shown and "结转记录" in shown and "3/8" in shown


def test_where_nobody_knows_how_much_there_is_what_is_done_is_counted() -> None:
    console = screen()

    with progress_shown(console) as tell:
        tell(Step.READ, 700, 0)

    assert "700/?" in written(console)


def test_a_step_of_which_there_is_nothing_has_no_bar() -> None:
    console = screen()

    with progress_shown(console) as tell:
        tell(Step.READ, 0, 0)

    assert "读取账本" not in written(console)


def test_more_than_was_said_is_no_more_than_all() -> None:
    console = screen()

    with progress_shown(console) as tell:
        tell(Step.FETCH, 12, 10)

    assert "12/12" in written(console)


def test_every_step_has_words() -> None:
    console = screen()

    with progress_shown(console) as tell:
        for step in Step:
            tell(step, 1, 1)

    assert written(console).count("1/1") >= len(Step)


def test_into_a_file_nothing_is_written() -> None:
    console = Console(file=StringIO())

    with progress_shown(console) as tell:
        tell(Step.FETCH, 1, 2)

    assert written(console) == "" and tell is no_progress
