"""Journals: what is in them outlives whoever wrote, and a line that its writer died over counts for nothing."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.journal import Follower, Journal


def test_what_was_added_is_read_once_in_its_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "t1.jsonl")
    follower = Follower(journal.path)
    journal.add("basket", order="o1")
    journal.add("receipt", order="o1")

    seen = [line["what"] for line in follower.lines()]
    journal.add("basket", order="o2")

    assert seen == ["basket", "receipt"]
    assert [line["order"] for line in follower.lines()] == ["o2"]
    journal.close()


def test_a_line_that_is_not_whole_waits_and_is_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "t1.jsonl"
    path.write_bytes(b'{"what": "basket"}\n{"what": "rec')
    follower = Follower(path)
    assert [line["what"] for line in follower.lines()] == ["basket"]

    journal = Journal(path)
    journal.add("refund")

    assert [line["what"] for line in Follower(path).lines()] == ["basket", "refund"]
    journal.close()


def test_who_comes_late_reads_the_last_lines_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "t1.jsonl")
    for number in range(50):
        journal.add("basket", number=number)

    numbers = [line["number"] for line in Follower(journal.path, tail_bytes=200).lines()]

    assert 0 < len(numbers) < 6 and numbers[-1] == 49
    journal.close()
