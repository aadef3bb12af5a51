"""Look at the machine: Python, packages, the window's libraries, fonts."""

import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from cli.doctor.check import Check, broken, fine, note
from cli.screen import why_no_screen

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PROBE_LIMIT_S = 20
_LOAD_QT = "import PySide6.QtWidgets"
_FIND_FONT = (
    "from PySide6.QtGui import QGuiApplication as A; app = A(['doctor', '-platform', 'offscreen']); "
    "from ui.theme import chinese_family; print(chinese_family() or '')"
)


def look() -> Iterator[Check]:
    """Yield what there is to say about this machine."""
    yield _python()
    yield from _packages()
    yield _qt()
    yield _screen()
    yield _chinese_font()


def _python() -> Check:
    text = f"{platform.python_version()} on {platform.system()} {platform.release()}, {sys.executable}"
    return fine("Python", text) if sys.version_info >= (3, 11) else broken("Python", f"{text}; 3.11 is the oldest")


def _packages() -> Iterator[Check]:
    """Compare what Pawtill declares with what is there; the extras for development are nobody's need here."""
    try:
        wanted = requires("pawtill") or []
    except PackageNotFoundError:
        yield broken("Pawtill", "not installed as a package: run `python3 run.py doctor`")
        return
    yield fine("Pawtill", version("pawtill"))
    found, missing = [], []
    for line in wanted:
        requirement, _, marker = line.partition(";")
        name = _NAME.match(requirement.strip())
        if name is None or "extra" in marker or not _applies(marker):
            continue
        try:
            found.append(f"{name[0]} {version(name[0])}")
        except PackageNotFoundError:
            missing.append(name[0])
    yield fine("Packages", ", ".join(found))
    if missing:
        yield broken("Packages missing", ", ".join(missing) + ": run `python3 run.py doctor`")


def _applies(marker: str) -> bool:
    """Read the one kind of marker that our own declaration uses: on Windows, or everywhere else."""
    on_windows = sys.platform == "win32"
    if "sys_platform" not in marker:
        return True
    return on_windows == ("==" in marker)


def _qt() -> Check:
    """Load Qt in a process of its own: a missing system library then has a name, and the doctor lives."""
    loaded = _python_says(_LOAD_QT)
    if loaded.returncode == 0:
        return fine("Window toolkit", "Qt loads")
    return broken("Window toolkit", _last_line(loaded.stderr) or "Qt does not load")


def _screen() -> Check:
    reason = why_no_screen()
    return note("Screen", f"{reason}: `pawtill till` opens no window here") if reason else fine("Screen", "opens")


def _python_says(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    try:
        return subprocess.run(  # noqa: S603 - our own interpreter, our own text
            command, capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_PROBE_LIMIT_S} s")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _chinese_font() -> Check:
    """Ask what the window asks; elsewhere than on Linux the system brings its own Chinese fonts."""
    if not sys.platform.startswith("linux"):
        return fine("Chinese font", "the system's own")
    asked = _python_says(_FIND_FONT)
    if asked.returncode != 0:
        return note("Chinese font", "unknown: the window toolkit does not load")
    family = _last_line(asked.stdout)
    if family:
        return fine("Chinese font", family)
    return broken("Chinese font", "none: Chinese text would be boxes; on Debian install fonts-wqy-microhei")
