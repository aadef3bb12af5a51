"""`pawtill restored`: what it begins, and where it cannot."""

from __future__ import annotations

from pathlib import Path

from cli.exits import Exit
from tests.fakes.headquarters import Headquarters
from tests.integration.cli.command import pawtill_here


def test_it_names_the_tills_that_are_waited_for(tmp_path: Path) -> None:
    headquarters = Headquarters(tmp_path)
    headquarters.furnish()
    headquarters.new_key("till")
    key = headquarters.key
    headquarters.close()

    ended = pawtill_here("restored", "--reason", "the disk broke", "--data-dir", tmp_path)
    again = Headquarters(tmp_path)
    shown = again.call("GET", "/v1/restore", key=key, status=200)
    again.close()

    assert (ended.code, "t1" in ended.said) == (Exit.OK, True)
    assert (shown["restoring"], shown["waiting_for"]) == (True, ["t1"])


def test_beside_a_running_server_it_does_nothing(tmp_path: Path) -> None:
    headquarters = Headquarters(tmp_path)
    headquarters.furnish()

    ended = pawtill_here("restored", "--reason", "the disk broke", "--data-dir", tmp_path)

    assert ended.code == Exit.DATA_IN_USE
    assert "每个文件夹只能运行一个服务器" in ended.complained and "another server is running" in ended.complained
    assert headquarters.call("GET", "/v1/restore", status=200)["restoring"] is False
    headquarters.close()


def test_an_empty_folder_came_back_from_no_backup(tmp_path: Path) -> None:
    ended = pawtill_here("restored", "--reason", "the disk broke", "--data-dir", tmp_path)

    assert (ended.code, "no chain" in ended.complained) == (Exit.CANNOT_START, True)
