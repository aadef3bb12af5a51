"""Say what became of something: a tone (colour and icon), a message, and the thing it is about."""

from dataclasses import dataclass
from enum import StrEnum

from app.domain.refusals import Refusal
from ui.words import Message, Name, Text, tell


class Tone(StrEnum):
    """List the tones; each has its colour, its icon and its word, so that no colour alone says anything."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOTICE = "notice"
    WARNING = "warning"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Hold one verdict; `title` None = the refusal's own, `subject` is the thing's name ("" where there is none)."""

    tone: Tone
    message: Message
    title: Text | None = None
    subject: Name | str = ""


def accepted(key: str, *, title: str, subject: Name | str = "", **values: object) -> Verdict:
    """Say yes."""
    return Verdict(Tone.ACCEPTED, tell(key, **values), tell(title), subject)


def notice(key: str, *, title: str = "verdict.title_notice", subject: Name | str = "", **values: object) -> Verdict:
    """Tell something that is neither yes nor no."""
    return Verdict(Tone.NOTICE, tell(key, **values), tell(title), subject)


def waiting(key: str, **values: object) -> Verdict:
    """Tell that an answer is on its way."""
    return Verdict(Tone.WAITING, tell(key, **values), tell("verdict.title_waiting"))


def warning(key: str, *, title: str = "verdict.title_warning", **values: object) -> Verdict:
    """Tell what needs care."""
    return Verdict(Tone.WARNING, tell(key, **values), tell(title))


def refused(refusal: Refusal, *, subject: Name | str = "") -> Verdict:
    """Say no, with the reason and its facts."""
    return Verdict(Tone.REFUSED, refusal, None, subject)


def not_done(key: str, *, title: str = "verdict.title_not_done", **values: object) -> Verdict:
    """Tell that something was not done, for a reason that is no business rule."""
    return Verdict(Tone.REFUSED, tell(key, **values), tell(title))
