"""Enrol this till by a one-time code: `pawtill enrol`."""

from pathlib import Path

from app.domain.refusals import Refusal
from app.services.ports import Busy, Offline
from app.services.secrets import Vault
from app.store.errors import StoreError
from cli.exits import Exit, complain
from cli.ledger_trouble import explain
from cli.no_terminal import NoTerminal
from cli.progress import progress_shown
from cli.till_folder import (
    INSECURE_ZH,
    TILL_FILE,
    NotEnrolled,
    find_enrolment,
    make_folder,
    read_joined,
    tell_of_file,
    till_folder,
    write_joined,
)
from sync.client import ServerClient
from sync.enrol import rejoin
from sync.enrolling import Enrolled, enrol, new_attempt
from sync.enrolment import LATE_CODE, NO_MORE_TRIES, USED_CODE, WRONG_CODE, read_code
from sync.trust import may_be_plain, unknown_yet
from ui.running_till import Joined, open_running_till

ANSWER_S = 30.0
"""A person waits for this once; a code is stretched slowly on purpose."""
REPLACED = "till_replaced"
_WHY = {
    WRONG_CODE: (
        "the code is not this till's, or there is a newer one",
        "登记码不是本收银台的，或已有更新的登记码",
    ),
    LATE_CODE: ("the code is older than 15 minutes", "登记码已超过 15 分钟"),
    USED_CODE: ("the code was used already", "登记码已被使用"),
    NO_MORE_TRIES: ("the code was tried wrongly five times", "登记码已错误输入五次"),
    "till_suspended": ("headquarters has suspended this till", "总部已暂停本收银台"),
    REPLACED: ("another machine was enrolled in this till's place since", "另一台机器已登记为本收银台"),
}
_AGAIN = "ask headquarters for a new code / 请向总部索取新的登记码"


def enrol_till(data_dir: Path | None, *, till_id: str, server: str, code: str) -> int:
    """Make this till's key, let the server know it, and keep what it answers; returns the exit code.

    The key is kept before it is asked for, so the same command again is the same enrolment: an answer that got lost is
    given again. A till that was here before keeps its folder, its ledger and all that it has not sent.
    """
    read = read_code(code)
    if read is None:
        complain(f"a code has fifteen letters and digits / 登记码由十五个字母和数字组成: {code}")
        return Exit.CANNOT_START
    if not may_be_plain(server):
        complain(f"{server} would be spoken to without TLS, which only this machine may: {INSECURE_ZH}")
        return Exit.CANNOT_START
    folder = till_folder(data_dir)
    try:
        make_folder(folder)
        joined = read_joined(folder)
        if joined is not None and joined.till_id != till_id:
            raise NotEnrolled(f"{folder} is the folder of till {joined.till_id}: choose another with --data-dir")
        enrolled = _ask(Vault(folder), till_id, server=server, code=read)
        if isinstance(enrolled, Refusal):
            return _refused(enrolled, Vault(folder), till_id)
        _keep(folder, enrolled, joined=joined, granted=Joined(server, till_id, enrolled.store_id, enrolled.authority))
    except (Offline, Busy) as error:
        complain(f"{server} gives no answer that can be believed ({error}): run the same command again")
        return Exit.UNAVAILABLE
    except NotEnrolled as error:
        complain(str(error))
        return Exit.CANNOT_START
    except (OSError, ValueError) as error:
        complain(f"{folder} or {server} cannot be used: {error}")
        return Exit.CANNOT_START
    print(f"Enrolled: till {till_id} in store {enrolled.store_id}. Open it: pawtill till")
    return _go_on(folder) if (folder / TILL_FILE).exists() else Exit.OK


def _go_on(folder: Path) -> int:
    """Let a till that has a ledger go on by its new key, in a new epoch where the server wants one."""
    try:
        with open_running_till(folder / TILL_FILE, find_enrolment(folder), payments=NoTerminal()) as running:
            if running.till.status().damaged:
                complain("its ledger is damaged or cut short: pawtill recover / 账本已损坏，请运行 pawtill recover")
                return Exit.DAMAGED_DATA
            with progress_shown() as progress:
                begun = rejoin(running.till, running.engine, running.client, progress=progress)
    except StoreError as error:
        return explain(error)
    except (Offline, Busy) as trouble:
        complain(f"head office was not asked to let this till go on ({trouble}); enrol again to ask again")
        return Exit.OK
    if begun is not None:
        rest = "" if begun.whole else "; the end of its old ledger is missing, so its old rights stay frozen"
        print(f"Epoch {begun.epoch}: {begun.carried} entries of before are carried over{rest}.")
    return Exit.OK


def _ask(vault: Vault, till_id: str, *, server: str, code: str) -> Enrolled | Refusal:
    attempt = vault.load_attempt(till_id)
    if attempt is None:
        attempt = new_attempt()
        vault.save_attempt(till_id, attempt)
    with ServerClient(server, None, trust=unknown_yet(), answer_timeout_s=ANSWER_S) as client:
        return enrol(client, till_id, code=code, attempt=attempt)


def _keep(folder: Path, enrolled: Enrolled, *, joined: Joined | None, granted: Joined) -> None:
    """Keep the secrets first: a crash in between leaves an enrolment that the same command finishes."""
    if joined is not None and joined.store_id != granted.store_id:
        raise NotEnrolled(f"{folder} is of a till in store {joined.store_id}, the code of one in {granted.store_id}")
    vault = Vault(folder)
    vault.save(granted.till_id, enrolled.secrets)
    tell_of_file(vault, folder)
    write_joined(folder, granted)
    vault.forget_attempt(granted.till_id)


def _refused(refusal: Refusal, vault: Vault, till_id: str) -> int:
    if refusal.facts.get("reason") == REPLACED:
        # This key will never speak again; the next code is for a new one.
        vault.forget_attempt(till_id)
    english, chinese = _WHY.get(str(refusal.facts.get("reason")), (str(refusal.code), str(refusal.code)))
    complain(f"not enrolled: {english} / 未登记：{chinese}. {_AGAIN}")
    return Exit.FOUND_SOMETHING
