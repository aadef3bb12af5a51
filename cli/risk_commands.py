"""Show and set what tills may lose without a right: `pawtill risk`, `pawtill risk-budget`."""

from collections.abc import Mapping
from typing import Any

from cli.exits import Exit, complain
from cli.office import Office, at_office
from cli.table import print_table
from server.services.answers import Answer
from server.settings import Settings

_COLUMNS = ("till", "budget", "granted", "lost", "left", "at till", "accepted")


def show_risk(settings: Settings, url: str) -> int:
    """Print each till that takes a risk, and the sum of all; returns the exit code."""

    def act(office: Office) -> int:
        _show(office.risk())
        return Exit.OK

    return at_office(settings, url, act)


def set_risk(settings: Settings, url: str, *, till_id: str, amount: str, by: str, reason: str) -> int:
    """Set the budget of a till and print where it stands; returns the exit code."""

    def act(office: Office) -> int:
        answer = office.set_risk(till_id, amount=amount, by=by, reason=reason)
        if answer["outcome"] == "unknown_code":
            complain(f"there is no till {till_id}")
        elif answer["outcome"] == "invalid_amount":
            complain(f"{amount} is no amount of this chain's money")
        elif answer["outcome"] != "ok":
            complain(f"refused: {answer['outcome']}")
        else:
            print(f"Till {till_id} may lose {answer['left']} from now on, as soon as it has synced.")
            return Exit.OK
        return Exit.CANNOT_START

    return at_office(settings, url, act)


def _show(answer: Answer) -> None:
    if not answer["tills"]:
        print("No till takes a risk.")
    rows = [_COLUMNS, *(_row(each["till"], each) for each in answer["tills"]), _row("all", answer["sum"])]
    print_table(rows)
    print(f"Worst case: {answer['sum']['left']} {answer['currency']}")


def _row(name: str, each: Mapping[str, Any]) -> tuple[str, ...]:
    taken = each["accepted"]
    amounts = (each[column] for column in ("budget", "granted", "lost", "left", "at_till"))
    return (name, *amounts, f"{taken['count']} for {taken['amount']}")
