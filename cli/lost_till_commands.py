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
            return _refused(shown, till_id)
        _show(shown)
        print(CONSEQUENCE[what])
        if (ask() if confirm is None else confirm) != till_id:
            complain(f"that is not {till_id}: nothing was changed")
            return Exit.CANNOT_START
        done = office.decide(what, till_id, reason=reason, exposure=shown["exposure"])
        if done["outcome"] != "ok":
            return _refused(done, till_id)
        print(f"Done: {what} {till_id}.")
        return Exit.OK

    return at_office(settings, url, act)


def welcome_till(settings: Settings, url: str, *, till_id: str, reason: str) -> int:
    """Declare a lost till found; returns the exit code."""

    def act(office: Office) -> int:
        told = office.welcome(till_id, reason=reason)
        if told["outcome"] != "ok":
            return _refused(told, till_id)
        print(f"Till {till_id} may be lent rights again; what was set aside comes back when it has synced.")
        return Exit.OK

    return at_office(settings, url, act)


def _show(shown: Answer) -> None:
    pieces = shown["pieces"]
    since = f", lost since {shown['lost_at']}" if shown["lost_at"] else ""
    print(f"Till {shown['till']}{since} may spend without asking:")
    print(f"  money {shown['money']} (stored value, budgets, risk)")
    print(f"  {pieces['stock']} coupons to give out, {pieces['coupons']} coupons to use, {pieces['uses']} card uses")
    for each in shown["leases"]:
        aside = ", set aside" if each["stranded"] else ""
        print(f"  lease {each['lease']}: {each['left']} of {each['lent']} left of {each['account']}{aside}")


def _refused(answer: Answer, till_id: str) -> int:
    if answer["outcome"] == "unknown_code":
        complain(f"there is no till {till_id}")
    elif answer["outcome"] == "illegal_transition":
        complain(f"what till {till_id} has changed meanwhile: look again")
    else:
        complain(f"refused: {answer['outcome']}")
    return Exit.CANNOT_START
