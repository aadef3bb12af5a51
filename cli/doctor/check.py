"""Hold what the doctor found."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """Say how one thing stands: `NOTE` is worth knowing and keeps nothing from working."""

    FINE = "fine"
    NOTE = "note"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """Tell one thing that was looked at; never a secret."""

    name: str
    health: Health
    detail: str


def fine(name: str, detail: str) -> Check:
    """Report something that works."""
    return Check(name, Health.FINE, detail)


def note(name: str, detail: str) -> Check:
    """Report something worth knowing."""
    return Check(name, Health.NOTE, detail)


def broken(name: str, detail: str) -> Check:
    """Report something that keeps Pawtill, or a part of it, from working."""
    return Check(name, Health.BROKEN, detail)
