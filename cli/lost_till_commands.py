"""Decide over a till that does not come back: `pawtill strand`, `pawtill reclaim`, `pawtill found`.

What it may have spent already is shown first, in money and pieces, and only what was shown is confirmed: by typing the
till's name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.exits import Exit, complain
from cli.office import Office, at_office
from resources.translations import load
from server.services.answers import Answer
from server.settings import Settings

Words = Mapping[str, str]
CONSEQUENCE = {"strand": "tills.strand", "reclaim": "tills.reclaim"}


def decide_lost_till(
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
    """Show the exposure of a till, have it confirmed, and strand or reclaim; returns the exit code.

    `confirm` is the till's name where nobody is to be asked; `ask` gets it from a person, by the question given.
    """

    def do(office: Office, shown: Answer) -> Answer:
        return office.decide(what, till_id, reason=reason, exposure=shown["exposure"])

    words = load(language)
    decision = Decision(what, till_id, [words[CONSEQUENCE[what]]], do)
    return at_office(settings, url, lambda office: decided(office, decision, words, confirm=confirm, ask=ask))


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold what is to be done with a till, the sentences that say what comes of it, and what does it.

    The sentences may name what is shown of the till. `do` gets that too.
    """

    what: str
    till_id: str
    consequences: Sequence[str]
    do: Callable[[Office, Answer], Answer]


def decided(office: Office, decision: Decision, words: Words, *, confirm: str | None, ask: Callable[[str], str]) -> int:
    """Show what a till has and what comes of the decision, have the till named, and do it; returns the exit code."""
    till_id = decision.till_id
    shown = office.rights(till_id)
    if shown["outcome"] != "ok":
        return refused(shown, till_id, words)
    show_rights(shown, words)
    for each in decision.consequences:
        print(each.format(**shown))
    if not confirmed(till_id, words, confirm=confirm, ask=ask):
        return Exit.CANNOT_START
    done = decision.do(office, shown)
    if done["outcome"] != "ok":
        return refused(done, till_id, words)
    print(words["tills.done"].format(what=decision.what, till=till_id))
    return Exit.OK


def welcome_till(settings: Settings, url: str, *, till_id: str, reason: str, language: str) -> int:
    """Declare a lost till found; returns the exit code."""
    words = load(language)

    def act(office: Office) -> int:
        told = office.welcome(till_id, reason=reason)
        if told["outcome"] != "ok":
            return refused(told, till_id, words)
        print(words["tills.found"].format(till=till_id))
        return Exit.OK

    return at_office(settings, url, act)


def confirmed(till_id: str, words: Words, *, confirm: str | None, ask: Callable[[str], str]) -> bool:
    """Tell whether the till was named again; a person is told where it was not."""
    if (ask(words["tills.ask"]) if confirm is None else confirm) == till_id:
        return True
    complain(words["tills.another"].format(till=till_id))
    return False


def show_rights(shown: Answer, words: Words) -> None:
    """Print what a till may spend without asking, what that is worth at most, and how much of its ledger is here."""
    heading = words["tills.rights_lost" if shown["lost_at"] else "tills.rights"]
    print(heading.format(**_named(shown), since=shown["lost_at"]))
    parts, pieces = shown["parts"], shown["pieces"]
    print(words["tills.parts_money"].format(**parts))
    print(words["tills.parts_pieces"].format(**pieces, **{f"{kind}_money": parts[kind] for kind in pieces}))
    if any(shown["without_limit"].values()):
        print(words["tills.without_limit"].format(**shown["without_limit"]))
    for each in shown["leases"]:
        print(words["tills.lease_aside" if each["stranded"] else "tills.lease"].format(**each))
    late = shown["announced"] - shown["acked"]
    print(words["tills.ledger_late" if late else "tills.ledger"].format(acked=shown["acked"], late=late))


def _named(shown: Answer) -> Mapping[str, Any]:
    return {name: shown[name] for name in ("till", "money", "currency")}


def refused(answer: Answer, till_id: str, words: Words) -> int:
    """Say why the server does not do it; returns the exit code."""
    outcome = answer["outcome"]
    if outcome == "unknown_code":
        complain(words["tills.unknown"].format(till=till_id))
    elif outcome == "illegal_transition":
        complain(words["tills.changed"].format(till=till_id))
    elif answer.get("facts", {}).get("reason") == "till_revoked":
        complain(words["tills.is_revoked"].format(till=till_id))
    else:
        complain(words["tills.refused"].format(title=words.get(f"refusal.{outcome}.title", ""), code=outcome))
    return Exit.CANNOT_START
