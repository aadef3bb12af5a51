"""Decide over a till that does not come back: `pawtill strand`, `pawtill reclaim`, `pawtill found`.

What it may have spent already is shown first, in money and pieces, and only what was shown is confirmed: by typing the
till's name.
"""

from collections.abc import Callable

from cli.exits import Exit, complain
from cli.office import Office, at_office
from server.services.answers import Answer
from server.settings import Settings

CONSEQUENCE = {
    "strand": "It stays set aside for what the till may still tell: it is never sold again, and nothing is used twice.",
    "reclaim": "It is usable elsewhere at once. What the till has spent of it already is then spent twice: your risk.",
}


def decide_lost_till(
    settings: Settings, url: str, *, what: str, till_id: str, reason: str, confirm: str | None, ask: Callable[[], str]
) -> int:
    """Show the exposure of a till, have it confirmed, and strand or reclaim; returns the exit code.

    `confirm` is the till's name where nobody is to be asked; `ask` gets it from a person.
    """

    def act(office: Office) -> int:
        shown = office.rights(till_id)
        if shown["outcome"] != "ok":
            return refused(shown, till_id)
        show_rights(shown)
        print(CONSEQUENCE[what])
        if not confirmed(till_id, confirm=confirm, ask=ask):
            return Exit.CANNOT_START
        done = office.decide(what, till_id, reason=reason, exposure=shown["exposure"])
        if done["outcome"] != "ok":
            return refused(done, till_id)
        print(f"Done: {what} {till_id}.")
        return Exit.OK

    return at_office(settings, url, act)


def welcome_till(settings: Settings, url: str, *, till_id: str, reason: str) -> int:
    """Declare a lost till found; returns the exit code."""

    def act(office: Office) -> int:
        told = office.welcome(till_id, reason=reason)
        if told["outcome"] != "ok":
            return refused(told, till_id)
        print(f"Till {till_id} may be lent rights again; what was set aside comes back when it has synced.")
        return Exit.OK

    return at_office(settings, url, act)


def confirmed(till_id: str, *, confirm: str | None, ask: Callable[[], str]) -> bool:
    """Tell whether the till was named again; a person is told where it was not."""
    if (ask() if confirm is None else confirm) == till_id:
        return True
    complain(f"that is not {till_id}: nothing was changed")
    return False


def show_rights(shown: Answer) -> None:
    """Print what a till may spend without asking, and how much of its ledger is here."""
    pieces = shown["pieces"]
    since = f", lost since {shown['lost_at']}" if shown["lost_at"] else ""
    print(f"Till {shown['till']}{since} may spend without asking:")
    print(f"  money {shown['money']} (stored value, budgets, risk)")
    print(f"  {pieces['stock']} coupons to give out, {pieces['coupons']} coupons to use, {pieces['uses']} card uses")
    for each in shown["leases"]:
        aside = ", set aside" if each["stranded"] else ""
        print(f"  lease {each['lease']}: {each['left']} of {each['lent']} left of {each['account']}{aside}")
    late = shown["announced"] - shown["acked"]
    rest = f"; {late} more are announced and not here" if late else ""
    print(f"Its ledger is here up to entry {shown['acked']}{rest}. What it sold since it was last heard, nobody knows.")


def refused(answer: Answer, till_id: str) -> int:
    """Say why the server does not do it; returns the exit code."""
    if answer["outcome"] == "unknown_code":
        complain(f"there is no till {till_id}")
    elif answer["outcome"] == "illegal_transition":
        complain(f"what till {till_id} has changed meanwhile: look again")
    elif answer.get("facts", {}).get("reason") == "till_revoked":
        complain(
            f"till {till_id} is revoked: only a new enrolment brings it back / 收银台 {till_id} 已吊销，须重新登记"
        )
    else:
        complain(f"refused: {answer['outcome']}")
    return Exit.CANNOT_START
