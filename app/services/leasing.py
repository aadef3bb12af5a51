"""Get rights of this till's own, and give them back: leases of countable value, homes of coupons.

A lease is asked for under an id that is on disk before the question leaves, and asked for again under the same id until
it has an answer, be it no; whichever comes first, the answer or the feed, tells it. A coupon's home needs no such note:
the feed tells it too, and its version says what is newer. Rights go back by an entry alone, behind everything that used
them, so the server never has to guess (PROTOCOL 1.3, 1.4).
"""

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rights import Rights
from app.services.api import AtHome, Lent
from app.services.parts import Parts
from app.services.ports import Busy, LeaseRequest, Offline
from app.services.recording import append_coupon_return, append_lease_close
from app.store import rights
from app.store.meta import instant_ms
from app.store.rights import LeaseRow


def lease(parts: Parts, account_id: str, amount: int, *, size: str = rights.ASKED) -> Lent | Refusal:
    """Ask for a lease; see `Till.lease`. One of the same account that has no answer yet is asked for again first.

    `size` SHARE: the server lends no more than it finds fair.
    """
    assert amount > 0, "a lease lends something"
    if not parts.head_office.online:
        return refuse(RefusalCode.NEEDS_ONLINE, account=account_id)
    with parts.database.write() as tx:
        waiting = [row for row in rights.unanswered(tx) if row.account_id == account_id]
        row = waiting[0] if waiting else rights.request(tx, _fresh(parts, account_id, amount, size=size))
    return _ask(parts, row)


def _fresh(parts: Parts, account_id: str, amount: int, *, size: str) -> LeaseRow:
    return LeaseRow(
        parts.ids.new(),
        account_id,
        amount,
        qty=0,
        used=0,
        held=0,
        state=rights.REQUESTED,
        size=size,
        asked_ms=instant_ms(parts.now()),
    )


def resume(parts: Parts) -> tuple[Lent | Refusal, ...]:
    """Ask again for every lease whose answer never came, until the line fails."""
    with parts.database.read() as conn:
        waiting = rights.unanswered(conn)
    answers = []
    for row in waiting:
        answers.append(_ask(parts, row))
        if not parts.head_office.online:
            break
    return tuple(answers)


def _ask(parts: Parts, row: LeaseRow) -> Lent | Refusal:
    parts.probe("lease_asked")
    try:
        answer = parts.head_office.lease(LeaseRequest(row.id, row.account_id, row.asked, row.size))
    except Offline:
        return refuse(RefusalCode.NEEDS_ONLINE, account=row.account_id)
    except Busy as busy:
        return refuse(busy.code, account=row.account_id, retry_after_s=busy.retry_after_s)
    parts.probe("lease_answered")
    with parts.database.write() as tx:
        if isinstance(answer, Refusal):
            rights.answer(tx, row.id, qty=0)
            return answer
        rights.answer(tx, row.id, qty=answer.amount, coupons=answer.coupons)
    return Lent(row.id, row.account_id, answer.amount)


def unlease(parts: Parts, account_id: str) -> Refusal | None:
    """Give every lease of an account back; see `Till.unlease`."""
    with parts.recording() as tx:
        found = rights.open_leases(tx, account_id)
        closed = [append_lease_close(tx, parts, row, now=parts.now()) for row in found]
    parts.push_soon()
    if not found:
        return unknown("lease", account_id)
    return None if all(closed) else _in_use(account=account_id)


def take_home(parts: Parts, coupon_id: str) -> AtHome | Refusal:
    """Become a coupon's home; see `Till.take_home`."""
    # That it was returned must be known to the server before it is asked for again.
    cannot = parts.push_first(coupon=coupon_id)
    if cannot is not None:
        return cannot
    try:
        answer = parts.head_office.take_home(parts.ids.new(), coupon_id)
    except Offline:
        return refuse(RefusalCode.NEEDS_ONLINE, coupon=coupon_id)
    except Busy as busy:
        return refuse(busy.code, coupon=coupon_id, retry_after_s=busy.retry_after_s)
    if isinstance(answer, Refusal):
        return answer
    with parts.database.write() as tx:
        rights.take_home(tx, [(coupon_id, answer.version)])
    return AtHome(coupon_id, answer.version)


def bring_home(parts: Parts) -> int | Refusal:
    """Become the home of coupons of this store's members, as many as the server finds right; returns how many came."""
    try:
        answer = parts.head_office.bring_home(parts.ids.new())
    except Offline:
        return refuse(RefusalCode.NEEDS_ONLINE, store=parts.store_id)
    except Busy as busy:
        return refuse(busy.code, store=parts.store_id, retry_after_s=busy.retry_after_s)
    if isinstance(answer, Refusal):
        return answer
    with parts.database.write() as tx:
        rights.take_home(tx, answer)
    return len(answer)


def return_home(parts: Parts, coupon_id: str) -> Refusal | None:
    """Let a coupon go home to the server; see `Till.return_home`."""
    with parts.recording() as tx:
        version = rights.at_home(tx, coupon_id)
        gone = version is not None and append_coupon_return(tx, parts, coupon_id, version=version, now=parts.now())
    parts.push_soon()
    return None if gone else _in_use(coupon=coupon_id)


def give_back(parts: Parts, uses: Rights) -> None:
    """Give back what this till has of these rights and no order under way holds; sent by the next push."""
    now = parts.now()
    with parts.recording() as tx:
        for coupon_id in sorted(uses.coupons):
            version = rights.at_home(tx, coupon_id)
            if version is not None:
                append_coupon_return(tx, parts, coupon_id, version=version, now=now)
        for account_id in uses.amounts:
            for row in rights.open_leases(tx, account_id):
                append_lease_close(tx, parts, row, now=now)


def _in_use(**facts: object) -> Refusal:
    return refuse(RefusalCode.ILLEGAL_TRANSITION, state=rights.HELD, event="give_back", **facts)
