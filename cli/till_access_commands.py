"""Decide which tills may speak, and list them: `pawtill suspend`, `resume`, `revoke`, `tills`.

What a till has is shown before it is shut out, because shutting it out changes nothing of that: it may sell on without
a line, and nobody else gets its rights until headquarters decides over them too.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from cli.exits import Exit
from cli.lost_till_commands import confirmed, refused, show_rights
from cli.office import Office, at_office
from cli.table import print_table
from server.settings import Settings

CONSEQUENCE = {
    "suspend": (
        "The server hears nothing of it until: pawtill resume {till}\n"
        "It may sell on without a line, with the rights above, which nobody else gets. What it sells stays in its own "
        "file and comes in after that."
    ),
    "revoke": (
        "It gets nothing from the server any more, for good. Only a new enrolment brings it back:\n"
        "  pawtill enrolment-code {till} --store {store}, then pawtill enrol {till} at the till\n"
        "What it still tells is kept in one finding and not booked, until you say so: pawtill findings judge. What it "
        "has not sent\nstays in its own file, and comes in when that same folder enrols; codes made before are "
        "worthless.\n"
        "It may sell on without a line, with the rights above, which nobody else gets."
    ),
}
DECIDE_RIGHTS = (
    "Its rights stay its own until you decide over them:\n"
    "  pawtill strand {till} --reason WHY    sets them aside for what it may still tell: nothing is used twice\n"
    "  pawtill reclaim {till} --reason WHY   takes them back at once, at a risk"
)
_COLUMNS = ("till", "store", "state", "last seen", "here", "announced", "clock", "money", "stock", "coupons", "uses")
_WORDS = 4


def shut_till(
    settings: Settings, url: str, *, what: str, till_id: str, reason: str, confirm: str | None, ask: Callable[[], str]
) -> int:
    """Show what a till has, have its name confirmed, and suspend or revoke it; returns the exit code.

    `confirm` and `ask` as in `decide_lost_till`. What it has may change meanwhile: it is shut out all the same.
    """

    def act(office: Office) -> int:
        shown = office.rights(till_id)
        if shown["outcome"] != "ok":
            return refused(shown, till_id)
        show_rights(shown)
        print(CONSEQUENCE[what].format(**shown))
        print(DECIDE_RIGHTS.format(**shown))
        if not confirmed(till_id, confirm=confirm, ask=ask):
            return Exit.CANNOT_START
        done = office.shut(what, till_id, reason=reason)
        if done["outcome"] != "ok":
            return refused(done, till_id)
        print(f"Done: {what} {till_id}.")
        return Exit.OK

    return at_office(settings, url, act)


def resume_till(settings: Settings, url: str, *, till_id: str) -> int:
    """Let a suspended till speak again; returns the exit code."""

    def act(office: Office) -> int:
        done = office.resume(till_id)
        if done["outcome"] != "ok":
            return refused(done, till_id)
        print(f"Till {till_id} may speak: what it sold meanwhile comes in with its next sync.")
        return Exit.OK

    return at_office(settings, url, act)


def list_tills(settings: Settings, url: str, *, after: str, limit: int) -> int:
    """Print a page of the tills, one line each; returns the exit code."""

    def act(office: Office) -> int:
        answer = office.tills(after=after, limit=limit)
        if not answer["tills"]:
            print("There are no tills" + (f" behind {after}." if after else "."))
            return Exit.OK
        print_table([_COLUMNS, *map(_row, answer["tills"])], left=_WORDS)
        if answer["next"] is not None:
            print(f"There are more: pawtill tills --after {answer['next']}")
        return Exit.OK

    return at_office(settings, url, act)


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    pieces = each["pieces"]
    return (
        each["till"],
        each["store"],
        _state(each),
        _moment(each["last_seen_at"]),
        str(each["acked"]),
        str(each["announced"]),
        _drift(each["clock_drift_ms"]),
        each["money"],
        str(pieces["stock"]),
        str(pieces["coupons"]),
        str(pieces["uses"]),
    )


def _state(each: Mapping[str, Any]) -> str:
    """Say all that keeps a till from being like any other; "open" = nothing."""
    words = [each["access"].lower()] if each["access"] != "OPEN" else []
    words += ["lost"] if each["lost_at"] is not None else []
    words += ["fork"] if each["ledger"] == "FORK" else []
    words += [] if each["has_key"] else ["no key"]
    return ", ".join(words) or "open"


def _moment(text: str | None) -> str:
    return "never" if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"


def _drift(drift_ms: int | None) -> str:
    return "-" if drift_ms is None else f"{drift_ms / 1000:+.1f} s"
