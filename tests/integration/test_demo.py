"""Run the demo as a person does, as a process of its own, and see that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.exits import Exit
from cli.screen import no_screen_needed
from ui.demo.run import WINDOW_PX

ROOT = Path(__file__).parents[2]
SCENES = 11
SCREENS = {
    "desk-empty",
    "desk-best",
    "desk-offline",
    "coupon-refused",
    "quantity",
    "confirm",
    "tender-mixed",
    "tender-unknown",
    "terminal",
    "receipt",
    "refund",
    "refund-done",
    "interrupted",
    "rights",
    "close-day",
    "day-closed",
}


def _demo(*arguments: str, folder: Path, platform: str | None, display: bool = False) -> subprocess.Popen[str]:
    """Start `pawtill demo` with `folder` as the place of its temporary files."""
    hidden = {"QT_QPA_PLATFORM", "WAYLAND_DISPLAY"} | (set() if display else {"DISPLAY"})
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["TMPDIR"] = str(folder)
    if platform is not None:
        environment["QT_QPA_PLATFORM"] = platform
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environment,
    )


@pytest.mark.slow
def test_the_story_comes_out_as_it_says_and_shows_every_screen_in_both_languages(tmp_path: Path) -> None:
    shots = tmp_path / "shots"

    with _demo("--headless", "--shots", str(shots), folder=tmp_path, platform=None) as process:
        told, _ = process.communicate(timeout=180)

    assert process.returncode == Exit.OK, told
    assert [line.partition(".")[0] for line in told.splitlines() if line[:1].isdigit()] == [
        str(scene) for scene in range(1, SCENES + 1)
    ]
    assert "✗" not in told and "audit: clean" in told and str(shots) in told
    names = {path.name.partition("-")[2].rsplit("-", 1)[0] for path in shots.glob("*.png")}
    assert names >= SCREENS
    for name in names:
        assert {path.stem.rsplit("-", 1)[1] for path in shots.glob(f"*-{name}-??.png")} == {"zh", "en"}, name
    assert [path.name for path in tmp_path.iterdir()] == ["shots"], "the shop's data is gone"


@pytest.mark.skipif(sys.platform == "win32", reason="its paths have a colon")
def test_the_screen_that_nobody_sees_has_room_for_dialogs_over_the_middle_of_the_window() -> None:
    size = "from PySide6.QtGui import QGuiApplication as A; print(A([]).primaryScreen().size().toTuple())"
    environment = os.environ | {"QT_QPA_PLATFORM": no_screen_needed()}

    told = subprocess.run([sys.executable, "-c", size], env=environment, capture_output=True, text=True, check=True)

    assert told.stdout.strip() == str(WINDOW_PX)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGTERM")
def test_the_demo_ends_with_its_window_and_its_server_with_it(tmp_path: Path) -> None:
    process = _demo(folder=tmp_path, platform="offscreen")
    assert process.stdout is not None
    ready = process.stdout.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    servers = children.read_text().split() if children.exists() else []

    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=60)

    assert "The demo's server is on https://127.0.0.1:" in ready, ready + told
    assert process.returncode == Exit.OK, told
    assert not list(tmp_path.iterdir())
    assert not any(Path(f"/proc/{pid}").exists() for pid in servers)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux runs without a screen")
def test_without_a_screen_the_demo_names_the_line_that_plays_by_itself(tmp_path: Path) -> None:
    with _demo(folder=tmp_path, platform=None) as process:
        told, _ = process.communicate(timeout=60)

    assert process.returncode == Exit.NO_SCREEN
    assert "python3 run.py demo --headless" in told and "Traceback" not in told
