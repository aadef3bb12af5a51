"""Decide which tills may speak, and list them: `pawtill suspend`, `resume`, `revoke`, `tills`.

What a till has is shown before it is shut out, because shutting it out changes nothing of that: it may sell on without
a line, and nobody else gets its rights until headquarters decides over them too.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from cli.exits import Exit
from cli.lost_till_commands import Decision, Words, decided, refused
from cli.office import Office, at_office
from cli.table import print_table
from resources.translations import load
from server.services import devices
from server.services.answers import Answer
from server.settings import Settings

CONSEQUENCE = {"suspend": "tills.suspend", "revoke": "tills.revoke"}
_ACCESS = {devices.SUSPENDED: "tills.suspended", devices.REVOKED: "tills.revoked"}
_WORDS = 4


def shut_till(
    settings: Settings,
    url: str,
    *,
    what: str,
    till_id: str,
    reason: str,
    language: str,
    confirm: str | None,
    ask: Callable[[str], str],
) -> int:
    """Show what a till has, have its name confirmed, and suspend or revoke it; returns the exit code.

    `confirm` and `ask` as in `decide_lost_till`. What it has may change meanwhile: it is shut out all the same.
    """

    def do(office: Office, _shown: Answer) -> Answer:
        return office.shut(what, till_id, reason=reason)

    words = load(language)
    decision = Decision(what, till_id, [words[CONSEQUENCE[what]], words["tills.decide_rights"]], do)
    return at_office(settings, url, lambda office: decided(office, decision, words, confirm=confirm, ask=ask))


def resume_till(settings: Settings, url: str, *, till_id: str, language: str) -> int:
    """Let a suspended till speak again; returns the exit code."""
    words = load(language)

    def act(office: Office) -> int:
        done = office.resume(till_id)
        if done["outcome"] != "ok":
            return refused(done, till_id, words)
        print(words["tills.resumed"].format(till=till_id))
        return Exit.OK

    return at_office(settings, url, act)


def list_tills(settings: Settings, url: str, *, after: str, limit: int, language: str) -> int:
    """Print a page of the tills, one line each; returns the exit code."""
    words = load(language)

    def act(office: Office) -> int:
        answer = office.tills(after=after, limit=limit)
        if not answer["tills"]:
            print(words["tills.none_behind" if after else "tills.none"].format(after=after))
            return Exit.OK
        rows = [_row(each, words) for each in answer["tills"]]
        print_table([words["tills.heading"].split("|"), *rows], left=_WORDS)
        if answer["next"] is not None:
            print(words["tills.more"].format(after=answer["next"]))
        return Exit.OK

    return at_office(settings, url, act)


def _row(each: Mapping[str, Any], words: Words) -> tuple[str, ...]:
    pieces = each["pieces"]
    return (
        each["till"],
        each["store"],
        _state(each, words),
        _moment(each["last_seen_at"], words),
        str(each["acked"]),
        str(each["announced"]),
        _drift(each["clock_drift_ms"]),
        each["money"],
        str(pieces["stock"]),
        str(pieces["coupons"]),
        str(pieces["uses"]),
        str(sum(each["without_limit"].values())),
    )


def _state(each: Mapping[str, Any], words: Words) -> str:
    """Say all that keeps a till from being like any other; "open" = nothing."""
    told = [words[_ACCESS[each["access"]]]] if each["access"] in _ACCESS else []
    told += [words["tills.lost"]] if each["lost_at"] is not None else []
    told += [words["tills.fork"]] if each["ledger"] == "FORK" else []
    told += [] if each["has_key"] else [words["tills.no_key"]]
    return words["list.and"].join(told) or words["tills.open"]


def _moment(text: str | None, words: Words) -> str:
    return words["tills.never"] if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"


def _drift(drift_ms: int | None) -> str:
    return "-" if drift_ms is None else f"{drift_ms / 1000:+.1f} s"
