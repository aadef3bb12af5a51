"""Presenters are plain Python: what a cashier sees is decided without Qt, so it is tested without a screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLAIN = sorted(
    [
        *(ROOT / "ui").rglob("*_presenter.py"),
        *(ROOT / "ui" / name for name in ("words.py", "verdict.py", "jobs.py")),
        *(ROOT / "ui" / "counter" / name for name in ("basket.py", "receipt_text.py", "terminal.py")),
    ]
)


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_no_presenter_brings_qt_in() -> None:
    code = f"import sys, {', '.join(map(module, PLAIN))}; sys.exit('PySide6' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_there_are_presenters_to_check() -> None:
    assert len(PLAIN) >= 10
