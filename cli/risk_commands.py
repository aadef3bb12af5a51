"""Show and set what tills may lose without a right: `pawtill risk`, `pawtill risk-budget`."""

from collections.abc import Mapping
from typing import Any

from cli.exits import Exit, complain
from cli.lost_till_commands import Words, refused
from cli.office import Office, at_office
from cli.table import print_table
from resources.translations import load
from server.services.answers import Answer
from server.settings import Settings


def show_risk(settings: Settings, url: str, *, language: str) -> int:
    """Print each till that takes a risk, and the sum of all; returns the exit code."""
    words = load(language)

    def act(office: Office) -> int:
        _show(office.risk(), words)
        return Exit.OK

    return at_office(settings, url, act)


def set_risk(settings: Settings, url: str, *, till_id: str, amount: str, by: str, reason: str, language: str) -> int:
    """Set the budget of a till and print where it stands; returns the exit code."""
    words = load(language)

    def act(office: Office) -> int:
        answer = office.set_risk(till_id, amount=amount, by=by, reason=reason)
        if answer["outcome"] == "invalid_amount":
            complain(words["tills.no_amount"].format(amount=amount))
            return Exit.CANNOT_START
        if answer["outcome"] != "ok":
            return refused(answer, till_id, words)
        print(words["tills.risk_set"].format(till=till_id, left=answer["left"], currency=answer["currency"]))
        return Exit.OK

    return at_office(settings, url, act)


def _show(answer: Answer, words: Words) -> None:
    if not answer["tills"]:
        print(words["tills.risk_none"])
    rows = [_row(each["till"], each, words) for each in answer["tills"]]
    rows.append(_row(words["tills.risk_all"], answer["sum"], words))
    print_table([words["tills.risk_heading"].split("|"), *rows])
    print(words["tills.risk_worst"].format(left=answer["sum"]["left"], currency=answer["currency"]))


def _row(name: str, each: Mapping[str, Any], words: Words) -> tuple[str, ...]:
    taken = each["accepted"]
    amounts = (each[column] for column in ("budget", "granted", "lost", "left", "at_till"))
    return (name, *amounts, words["tills.risk_taken"].format(**taken))
