"""Files for their owner alone, written whole, also by several processes at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from server.private_file import write_private


def test_two_processes_that_write_one_file_at_once_both_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the workers of one server do, each with its own copy of the authority's certificate."""
    file, force = tmp_path / "some.pem", os.fsync

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", force)
        write_private(file, b"the other's")
        force(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_private(file, b"mine")

    assert file.read_bytes() == b"mine"
    assert file.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some.key"
    write_private(file, b"older")

    def full(_descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_private(file, b"newer")

    assert file.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [file]
