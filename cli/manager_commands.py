"""Name who may approve at tills, and who may no more: `pawtill manager`, `pawtill manager-left`."""

from app.domain.pins import LENGTH_MAX, LENGTH_MIN
from cli.exits import Exit, complain
from cli.office import Office, at_office
from server.services.answers import Answer
from server.settings import Settings


def appoint(settings: Settings, url: str, *, staff_id: str, name: str, store_id: str | None, pin: str) -> int:
    """Set a manager up, or another PIN, name or store; returns the exit code."""

    def act(office: Office) -> int:
        answer = office.appoint(staff_id, name=name, store_id=store_id, pin=pin)
        return _tell(answer, f"{name} may approve, as soon as the tills have synced.", what=f"store {store_id}")

    return at_office(settings, url, act)


def dismiss(settings: Settings, url: str, *, staff_id: str, reason: str) -> int:
    """Take the right to approve away; returns the exit code."""

    def act(office: Office) -> int:
        answer = office.dismiss(staff_id, reason=reason)
        return _tell(answer, f"{staff_id} approves no more, once the tills have synced.", what=f"manager {staff_id}")

    return at_office(settings, url, act)


def _tell(answer: Answer, done: str, *, what: str) -> int:
    outcome = answer["outcome"]
    if outcome == "ok":
        print(done)
        return Exit.OK
    if outcome == "wrong_pin":
        complain(f"a PIN has {LENGTH_MIN} to {LENGTH_MAX} digits, and is no row such as 123456 or 444444")
    elif outcome == "unknown_code":
        complain(f"there is no {what}")
    else:
        complain(f"refused: {outcome}")
    return Exit.CANNOT_START
