"""The locks and the notice: every package pinned with hashes, named with its licence, from nowhere in particular."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ["requirements.lock", "requirements-dev.lock"]


def pins(lock: str) -> dict[str, str]:
    """Return version by normalised package name (PEP 503)."""
    text = (ROOT / lock).read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_carries_hashes(lock: str) -> None:
    text = re.sub(r" \\\n\s+", " ", (ROOT / lock).read_text("utf-8"))

    unhashed = [line for line in text.splitlines() if "==" in line.split("#")[0] and "--hash=sha256:" not in line]

    assert pins(lock) and unhashed == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_a_place_to_load_from(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")

    assert re.findall(r"://|--(?:extra-)?index-url|--find-links|file:| @ ", text) == []


def test_the_program_is_tested_with_the_versions_that_it_is_locked_to() -> None:
    program, tested = pins("requirements.lock"), pins("requirements-dev.lock")

    assert {name: tested.get(name) for name in program} == program


def test_the_notice_names_every_package_of_the_program() -> None:
    notice = re.sub(r"[-_.]+", "-", (ROOT / "NOTICE").read_text("utf-8").lower())

    unnamed = [name for name in pins("requirements.lock") if not re.search(rf"\b{name}\b", notice)]

    assert unnamed == []


def test_no_package_with_gpl_only_modules_of_qt_is_installed() -> None:
    names = pins("requirements-dev.lock").keys()

    assert not names & {"pyside6", "pyside6-addons", "pyqt5", "pyqt6"}
