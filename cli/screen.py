"""Find out whether a window can open here, before Qt ends the process over it; make a screen where there is none."""

import os
import subprocess
import sys
from importlib.resources import files

_OPEN = (
    "from PySide6.QtGui import QGuiApplication as A; print('x'.join(map(str, A([]).primaryScreen().size().toTuple())))"
)
_LIMIT_S = 20


def why_no_screen() -> str | None:
    """Return why no window can open, None where one can. Asks Qt in a process of its own, since it would abort ours."""
    on_linux = sys.platform.startswith("linux")
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))
    if not on_linux:
        return None
    if not named:
        return "there is no screen (no DISPLAY)"
    try:
        tried = subprocess.run(  # noqa: S603 - our own interpreter, our own text
            [sys.executable, "-c", _OPEN],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"the screen gave no answer within {_LIMIT_S} s"
    if tried.returncode == 0:
        return None
    lines = [line.strip() for line in tried.stderr.splitlines() if line.strip()]
    return lines[0] if lines else "Qt finds no screen"


def no_screen_needed() -> str:
    """Return the `QT_QPA_PLATFORM` of a screen that nobody sees, as large as the demo's window.

    Qt's own is 800 by 800, so that dialogs, which stay on the screen, would not be over the middle of the window.
    """
    screen = str(files("resources") / "demo" / "screen.json")
    # Qt parts the platform's options at colons, and a path of Windows has one.
    return "offscreen" if ":" in screen else f"offscreen:configfile={screen}"
