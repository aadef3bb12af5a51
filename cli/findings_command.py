"""List, show, decide and close findings: `pawtill findings`.

Where a server runs on the folder it is asked, with headquarters' key of the folder; else the database is opened here.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from app.domain.money import Currency
from app.domain.refusals import RefusalCode
from cli.chain_door import own_line
from cli.exits import Exit, complain
from cli.office import explained
from resources.translations import load
from server.db.errors import DataDirInUse
from server.opening import open_services
from server.services import findings, quarantine
from server.services.answers import Answer, ok
from server.services.context import Actor
from server.services.findings import Word
from server.services.remedies import words_of
from server.services.services import Services
from server.services.system import SystemClock, SystemIds
from server.settings import Settings
from sync.client import Json, ServerClient

OPERATOR = Actor("headquarters", "command line")
LISTED_MAX = 1000


def run_list(settings: Settings, url: str, *, language: str, state: str | None) -> int:
    """Print the newest findings, one line each; those in one state where it is named."""
    path = f"/v1/findings?limit={LISTED_MAX}" + (f"&state={state}" if state else "")

    def here(services: Services) -> Answer:
        return ok(findings=services.read(lambda conn, _: findings.newest(conn, limit=LISTED_MAX, state=state)))

    def tell(answer: Mapping[str, Any], words: Mapping[str, str]) -> None:
        for each in answer["findings"]:
            state, what = words["state." + each["state"]], words[words_of(each["kind"])]
            print(f"{each['id']:>6}  {state:<8}  {what}  {each['key']}")
        if not answer["findings"]:
            print(words["findings.none"])

    return _run((settings, url), language, here=here, there=lambda client: client.get(path), tell=tell)


def run_show(settings: Settings, url: str, finding_id: int, *, language: str) -> int:
    """Print one finding: what, how much and whose loss, what is proposed, the evidence of both sides, its history."""

    def here(services: Services) -> Answer:
        return services.read(lambda conn, ctx: findings.shown(conn, ctx, finding_id))

    path = f"/v1/findings/{finding_id}"
    return _run((settings, url), language, here=here, there=lambda client: client.get(path), tell=_show)


def run_decide(settings: Settings, url: str, finding_id: int, *, language: str, word: Word) -> int:
    """Decide about a finding and print it."""
    body = {"decision": word.decision, "by": word.by, "reason": word.reason}
    return _say(settings, url, finding_id, step="decide", word=word, body=body, language=language)


def run_close(settings: Settings, url: str, finding_id: int, *, language: str, word: Word) -> int:
    """Close a finding that was decided and print it."""
    body = {"by": word.by, "reason": word.reason}
    return _say(settings, url, finding_id, step="close", word=word, body=body, language=language)


def run_judge(settings: Settings, url: str, finding_id: int, *, language: str, word: Word) -> int:
    """Have the entry of a finding judged again, all of them where it holds many, and print the finding."""
    body = {"by": word.by, "reason": word.reason}

    def here(services: Services) -> Answer:
        answer: Answer = _to_the_end(
            lambda: services.write(lambda conn, ctx: quarantine.judge(conn, ctx, finding_id, word=word), OPERATOR)
        )
        return answer

    def there(client: ServerClient) -> Any:
        return _to_the_end(lambda: client.post(f"/v1/findings/{finding_id}/judge", body))

    return _run((settings, url), language, here=here, there=there, tell=_show)


def _to_the_end(judge: Callable[[], Any]) -> Any:
    """Judge as long as that leaves less to be judged; return the last answer."""
    left: int | None = None
    while True:
        answer = judge()
        now = answer.get("left", 0) if isinstance(answer, dict) else 0
        if not now or (left is not None and now >= left):
            return answer
        left = now


def _say(settings: Settings, url: str, finding_id: int, *, step: str, word: Word, body: Json, language: str) -> int:
    use_case = {"decide": findings.decide, "close": findings.close}[step]

    def here(services: Services) -> Answer:
        return services.write(lambda conn, ctx: use_case(conn, ctx, finding_id, word=word), OPERATOR)

    path = f"/v1/findings/{finding_id}/{step}"
    return _run((settings, url), language, here=here, there=lambda client: client.post(path, body), tell=_show)


# ------------------------------------------------------------------ asking


def _run(
    where: tuple[Settings, str],
    language: str,
    *,
    here: Callable[[Services], Answer],
    there: Callable[[ServerClient], Any],
    tell: Callable[[Mapping[str, Any], Mapping[str, str]], None],
) -> int:
    """Ask the database, or the server that has it, and print the answer; 1 where it is a no."""
    settings, url = where
    words = load(language)

    def ask() -> int:
        try:
            answer = _ask_here(settings, here)
        except DataDirInUse:
            answer = _ask_server(settings, url, there)
        if answer["outcome"] != "ok":
            complain(_no(answer, words))
            return Exit.FOUND_SOMETHING
        tell(answer, words)
        return Exit.OK

    return explained(settings, url, ask)


def _ask_here(settings: Settings, here: Callable[[Services], Answer]) -> Answer:
    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=SystemIds())
    try:
        return here(services)
    finally:
        services.database.close()


def _ask_server(settings: Settings, url: str, there: Callable[[ServerClient], Any]) -> Answer:
    """Ask the server of this machine; raises Offline or Busy, and OSError where the folder has no key."""
    with own_line(settings, url) as client:
        answer = there(client)
    return answer if isinstance(answer, dict) else {"outcome": answer.code.value, "facts": dict(answer.facts)}


# ------------------------------------------------------------------ words


def _no(answer: Mapping[str, Any], words: Mapping[str, str]) -> str:
    facts = answer["facts"]
    if answer["outcome"] == RefusalCode.ILLEGAL_TRANSITION:
        return words["findings.illegal"].format(id=facts["finding"], state=words[f"state.{facts['state']}"])
    return words["findings.unknown"].format(id=facts.get("id", ""))


def _show(found: Mapping[str, Any], words: Mapping[str, str]) -> None:
    print(f"{found['id']}  {words[words_of(found['kind'])]}  ({found['kind']} {found['key']})")
    print(words[f"state.{found['state']}"], found["opened_at"])
    if found["amount_minor"]:
        print(_amount(found, words))
    print(words["findings.remedy"].format(text=words[f"remedy.{found['remedy']}"]))
    if found["decision"]:
        told = {"at": found["decided_at"], "by": found["decided_by"], "decision": found["decision"]}
        print(words["findings.decided"].format(**told))
    print(f"{words['findings.evidence']}:")
    print(json.dumps(found["detail"], ensure_ascii=False, indent=2))
    if found.get("history"):
        print(f"{words['findings.history']}:")
    for event in found.get("history", ()):
        what = words["event." + event["event"]]
        print(f"  {event['server_at']}  {what}  {event['operator'] or ''}  {event['reason']}")


def _amount(found: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """Say how much: in money, whose loss it is; after a decision the currency is not told again."""
    if not found["in_money"]:
        return words["findings.count"].format(amount=found["amount_minor"])
    code = found.get("currency")
    amount = f"{Currency.of(code).format(found['amount_minor'])} {code}" if code else str(found["amount_minor"])
    return words["findings.loss"].format(loser=words[f"loser.{found['loser']}"], amount=amount)
