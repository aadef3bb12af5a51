"""`run.py` on machines that lack something: what it says, with which exit code, and what it never does."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import PySide6
import pytest

HOUSE = Path(__file__).parents[2]
PRESENT_EVERYWHERE = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
# What the program loads: the modules it imports, and the two ways to a screen beside the offscreen one.
LOADED = [
    *("QtCore.abi3.so", "QtGui.abi3.so", "QtWidgets.abi3.so", "QtTest.abi3.so"),
    *("Qt/plugins/platforms/libqoffscreen.so", "Qt/plugins/iconengines/libqsvgicon.so"),
]
LOADED_WITH_A_SCREEN = [
    *("Qt/plugins/platforms/libqxcb.so", "Qt/plugins/platforms/libqwayland.so"),
    "Qt/plugins/wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
]


def load_run(folder: Path = HOUSE) -> ModuleType:
    """Load `folder`/run.py as a module of its own, so that a test may change it."""
    spec = importlib.util.spec_from_file_location("run_under_test", folder / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def house_without_a_roof(folder: Path) -> Path:
    """Copy to `folder` what the set-up reads, with a PATH of its own whose apt-get tells on its caller."""
    for name in ("run.py", "pyproject.toml", "requirements-dev.lock"):
        shutil.copy(HOUSE / name, folder / name)
    tools = folder / "tools"
    tools.mkdir()
    apt = tools / "apt-get"
    apt.write_text(f"#!/bin/sh\ntouch '{folder / 'apt-was-called'}'\n")
    apt.chmod(0o755)
    return tools


def run_as(folder: Path, *, before: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `folder`/run.py as a process of its own, after the statements `before` have changed it."""
    script = f"import sys, os, run\n{before}\nsys.exit(run.main({arguments!r}))"
    environment = {**os.environ, "PATH": str(folder / "tools"), "PYTHONPATH": str(folder), "DISPLAY": ":0"}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


NOT_ROOT = "os.geteuid = lambda: 1000"
NOTHING_HERE = (
    'run.QT_LIBRARIES = "libnowhere.so.9 libnowhere9 libnowhere-more.so.9 libnowhere9"\n'
    'run.WINDOW_LIBRARIES = "libwindow.so.9 libwindow9"\n'
    "run.has_chinese_font = lambda: False"
)
ONLY_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system packages are a matter of Linux")


# ------------------------------------------------------------------ an old Python


@pytest.mark.parametrize("version", [(3, 8), (3, 10)])
def test_an_old_python_is_told_what_is_needed(version: tuple[int, int]) -> None:
    run = load_run()

    with pytest.raises(run.Stop) as stop:
        run.check_python(version)

    assert stop.value.code == 81
    assert f"needs Python 3.11 or newer, this is {version[0]}.{version[1]};" in stop.value.message


@pytest.mark.parametrize("version", [(3, 11), (3, 14), (4, 0)])
def test_a_new_enough_python_passes(version: tuple[int, int]) -> None:
    run = load_run()

    run.check_python(version)


def test_an_old_python_can_read_run_py_as_far_as_the_message() -> None:
    source = (HOUSE / "run.py").read_text("utf-8")

    tree = ast.parse(source, feature_version=(3, 8))

    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imported |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    assert {str(name).split(".")[0] for name in imported} <= sys.stdlib_module_names


# ------------------------------------------------------------------ system packages


@ONLY_LINUX
def test_without_the_right_to_install_one_exact_line_is_printed_and_apt_is_left_alone(tmp_path: Path) -> None:
    house_without_a_roof(tmp_path)

    result = run_as(tmp_path, before=f"{NOT_ROOT}\n{NOTHING_HERE}", arguments=["test"])

    assert result.returncode == 82
    line = result.stderr.splitlines()[-1]
    assert line.startswith("su - -c '") and line.endswith(
        "apt-get install -y --no-install-recommends fonts-wqy-microhei libnowhere9 libwindow9'"
    )
    assert not (tmp_path / "apt-was-called").exists()
    assert not (tmp_path / ".venv").exists()


@ONLY_LINUX
def test_a_sudo_that_wants_a_password_is_not_waited_for(tmp_path: Path) -> None:
    tools = house_without_a_roof(tmp_path)
    (tools / "sudo").write_text('#!/bin/sh\n[ "$1" = -n ] && exit 1\nread answer\n')
    (tools / "sudo").chmod(0o755)

    result = run_as(tmp_path, before=f"{NOT_ROOT}\n{NOTHING_HERE}", arguments=["demo", "--headless"])

    assert result.returncode == 82
    assert result.stderr.splitlines()[-1].startswith("sudo apt-get ")


@ONLY_LINUX
def test_packages_that_were_installed_but_not_found_stop_the_setup(tmp_path: Path) -> None:
    tools = house_without_a_roof(tmp_path)
    (tools / "env").symlink_to("/usr/bin/env")
    (tools / "touch").symlink_to("/usr/bin/touch")

    result = run_as(tmp_path, before=f"os.geteuid = lambda: 0\n{NOTHING_HERE}", arguments=["test"])

    assert result.returncode == 82
    assert "installed, yet not found" in result.stderr
    assert (tmp_path / "apt-was-called").exists()


@ONLY_LINUX
@pytest.mark.parametrize(
    ("arguments", "is_blocked"),
    [(["demo"], True), (["till"], True), (["demo", "--headless"], False), (["test"], False), (["audit"], False)],
)
def test_libraries_of_a_window_stop_only_what_opens_one(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_blocked: bool
) -> None:
    run = load_run()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(run, "QT_LIBRARIES", "")
    monkeypatch.setattr(run, "WINDOW_LIBRARIES", "libwindow.so.9 libwindow9")
    monkeypatch.setattr(run, "has_chinese_font", lambda: True)

    packages = run.packages_to_install(arguments[0], arguments[1:])

    assert packages == (["libwindow9"] if is_blocked else [])


@pytest.mark.parametrize(
    ("has_sudo", "has_lists", "line"),
    [
        (True, True, "sudo apt-get install -y --no-install-recommends a b"),
        (True, False, "sudo apt-get update && sudo apt-get install -y --no-install-recommends a b"),
        (False, True, "su - -c 'apt-get install -y --no-install-recommends a b'"),
        (False, False, "su - -c 'apt-get update && apt-get install -y --no-install-recommends a b'"),
    ],
)
def test_the_line_to_type_fits_the_machine(has_sudo: bool, has_lists: bool, line: str) -> None:
    run = load_run()

    assert run.install_line(["a", "b"], has_sudo, has_lists) == line


def test_a_font_is_found_by_its_file_name_where_fc_list_is_absent() -> None:
    name = load_run().CHINESE_FONT_NAME

    found = [n for n in ("wqy-microhei.ttc", "NotoSansCJK-Regular.ttc", "SourceHanSansSC.otf") if name.search(n)]

    assert len(found) == 3
    assert not name.search("DejaVuSans.ttf")


# ------------------------------------------------------------------ the tables against PySide6's own binaries


def needed_libraries(binary: Path) -> list[str]:
    """Read DT_NEEDED of a 64-bit little-endian ELF file (System V ABI, chapters 4 and 5)."""
    data = binary.read_bytes()
    table, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, table + size * i) for i in range(count)]
    segments = [(vaddr, offset, length) for kind, _, offset, vaddr, _, length, _, _ in headers if kind == 1]
    start, length = next((h[2], h[5]) for h in headers if h[0] == 2)
    entries = [struct.unpack_from("<QQ", data, start + 16 * i) for i in range(length // 16)]
    address = next(value for tag, value in entries if tag == 5)
    strings = next(address - vaddr + offset for vaddr, offset, length in segments if vaddr <= address < vaddr + length)
    starts = [strings + value for tag, value in entries if tag == 1]
    return [data[at : data.index(b"\0", at)].decode() for at in starts]


def foreign_libraries(binaries: list[str]) -> set[str]:
    """Follow `binaries` through all that PySide6 brings itself; return what it expects of the system."""
    home = Path(PySide6.__file__).parent
    brought = {p.name: p for folder in (home / "Qt/lib", home, home.parent / "shiboken6") for p in folder.glob("*.so*")}
    todo, seen, foreign = [home / name for name in binaries], set(), set()
    while todo:
        for library in needed_libraries(todo.pop()):
            if library in brought and library not in seen:
                todo.append(brought[library])
            elif library not in brought:
                foreign.add(library)
            seen.add(library)
    return foreign - PRESENT_EVERYWHERE


@ONLY_LINUX
def test_every_library_that_qt_needs_is_in_the_table_of_packages() -> None:
    run = load_run()

    needed = foreign_libraries(LOADED)

    assert needed == set(run.QT_LIBRARIES.split()[::2])


@ONLY_LINUX
def test_every_library_that_a_window_needs_is_in_the_table_of_packages() -> None:
    run = load_run()

    needed = foreign_libraries(LOADED_WITH_A_SCREEN) - foreign_libraries(LOADED)

    assert needed == set(run.WINDOW_LIBRARIES.split()[::2])


# ------------------------------------------------------------------ the environment and its stamp


@pytest.fixture
def house(tmp_path: Path) -> ModuleType:
    """Load a run.py that lives in an empty folder with a lock of its own, and a `.venv` whose Python works."""
    for name in ("run.py", "pyproject.toml"):
        shutil.copy(HOUSE / name, tmp_path / name)
    (tmp_path / "requirements-dev.lock").write_text("", "utf-8")
    run = load_run(tmp_path)
    run.BIN.mkdir(parents=True)
    run.PYTHON.symlink_to(sys.executable)
    return run


def test_a_finished_environment_is_used_without_running_anything(
    house: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.STAMP.write_text(house.wanted_stamp(), "utf-8")

    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("nothing is to be run"))
    house.make_environment()

    assert house.STAMP.read_text("utf-8") == house.wanted_stamp()


@pytest.mark.parametrize("changed", ["requirements-dev.lock", "pyproject.toml"])
def test_a_change_of_what_is_locked_makes_the_stamp_stale_but_keeps_the_environment(
    house: ModuleType, changed: str
) -> None:
    stamp = house.wanted_stamp()

    with (house.ROOT / changed).open("a") as file:
        file.write("# changed\n")

    assert house.wanted_stamp() != stamp
    assert house.is_reusable(stamp, house.wanted_stamp())


def test_an_environment_made_by_hand_is_built_upon(house: ModuleType) -> None:
    assert house.is_reusable(None, house.wanted_stamp())


def test_an_interrupted_setup_is_not_built_upon(house: ModuleType) -> None:
    assert not house.is_reusable(house.BUILDING, house.wanted_stamp())


def test_an_environment_of_another_folder_or_python_is_not_built_upon(house: ModuleType) -> None:
    root, python, digest = house.wanted_stamp().split("\n")

    moved, upgraded = f"/elsewhere\n{python}\n{digest}", f"{root}\n3.10.1\n{digest}"

    assert not house.is_reusable(moved, house.wanted_stamp())
    assert not house.is_reusable(upgraded, house.wanted_stamp())


def test_an_environment_whose_python_is_gone_is_not_built_upon(house: ModuleType) -> None:
    house.PYTHON.unlink()

    assert not house.is_reusable(house.wanted_stamp(), house.wanted_stamp())


def test_a_setup_that_fails_leaves_a_stamp_that_says_so(house: ModuleType) -> None:
    (house.ROOT / "requirements-dev.lock").write_text(
        "pawtill-no-hash==1\n", "utf-8"
    )  # no hash: refused before any download

    with pytest.raises(house.Stop) as stop:
        house.make_environment()

    assert stop.value.code == 83
    assert house.STAMP.read_text("utf-8") == house.BUILDING
