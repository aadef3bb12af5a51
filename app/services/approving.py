"""Take a manager's word at the till: another person than the cashier, by PIN, for a reason; with or without a line.

A wrong PIN is an entry of the ledger, and so is a word that was given; the pause behind wrong ones is read from there.
No PIN is kept, logged or sent.
"""

from datetime import datetime
from math import ceil

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from sqlalchemy import Connection

from app.domain import pins
from app.domain.conditions import own_reason
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.services.api import Approved, Approver
from app.services.gathering import coupon_facts, gather_site, risk_desk
from app.services.parts import Parts
from app.services.recording import append_approval, append_pin_failed
from app.store import approvals, coupons
from app.store.approvals import Approval, Manager

REASON_MAX_CHARS = 500


def approvers(parts: Parts) -> tuple[Approver, ...]:
    """Return who may approve here: everybody but who is signed in."""
    with parts.database.read() as conn:
        found = approvals.managers(conn)
    return tuple(Approver(each.id, each.name) for each in found if not _is_operator(parts, each))


def _is_operator(parts: Parts, manager: Manager) -> bool:
    return parts.operator in (manager.id, manager.name)


def approve_risk(parts: Parts, order_id: str, coupon_id: str, *, by: str, pin: str, reason: str) -> Approved | Refusal:
    """Let an order use a coupon without a right; see `Till.approve_risk`."""
    with parts.database.read() as conn:
        wanted = _wanted(conn, parts, order_id=order_id, coupon_id=coupon_id)
        manager = next((each for each in approvals.managers(conn) if each.id == by), None)
        count, last_at = (0, None) if manager is None else approvals.failures(conn, manager)
    if isinstance(wanted, Refusal):
        return wanted
    if manager is None:
        return unknown("staff", by)
    if _is_operator(parts, manager):
        return refuse(RefusalCode.NOT_ALLOWED, same_person=manager.name)
    locked = _locked(manager, count, last_at, now=parts.now())
    if locked is not None:
        return locked
    # Some 50 ms, outside of the transaction; nobody else is at it meanwhile (`Parts.ordering`).
    if not verifies(manager.verifier, parts.code_key, pin):
        return _failed(parts, manager, count + 1)
    member_id, campaign_id, max_minor = wanted
    given = Approval(
        order_id,
        coupon_id,
        parts.ids.new(),
        member_id=member_id,
        by=manager.id,
        reason=reason.strip()[:REASON_MAX_CHARS],
        max_minor=max_minor,
    )
    with parts.recording() as tx:
        append_approval(tx, parts, given, campaign_id=campaign_id, pin_version=manager.pin_version, now=parts.now())
    return Approved(coupon_id, manager.name, max_minor=max_minor)


def _wanted(conn: Connection, parts: Parts, *, order_id: str, coupon_id: str) -> tuple[str | None, str, int] | Refusal:
    """Return whose coupon of which campaign it is, and what it may cost, where a manager's word is all that lacks."""
    site = gather_site(conn, parts)
    if isinstance(site, Refusal):
        return site
    if site.online:
        return refuse(RefusalCode.NOT_ALLOWED, online=True)
    row = coupons.by_ids(conn, [coupon_id]).get(coupon_id)
    if row is None:
        return refuse(RefusalCode.NEEDS_ONLINE, coupon=coupon_id)
    facts = coupon_facts(parts, site, row, desk=risk_desk(conn, parts, site, order_id=order_id))
    if isinstance(facts, Refusal):
        return facts
    reason = own_reason(facts, site.now, order_id=order_id) or facts.blocked
    if reason is None:
        return refuse(RefusalCode.ILLEGAL_TRANSITION, coupon=coupon_id, state="approved", event="approve")
    if reason.code is not RefusalCode.NEEDS_APPROVAL:
        return reason
    max_minor = reason.facts["max_minor"]
    assert isinstance(max_minor, int), "it says how much"
    return row.member_id, row.campaign_id, max_minor


def _failed(parts: Parts, manager: Manager, count: int) -> Refusal:
    now = parts.now()
    with parts.recording() as tx:
        append_pin_failed(tx, parts, manager, count=count, now=now)
    return _locked(manager, count, now, now=now) or refuse(RefusalCode.WRONG_PIN)


def _locked(manager: Manager, count: int, last_at: datetime | None, *, now: datetime) -> Refusal | None:
    """Return how a PIN is refused that was wrong so often in a row; None = it may be tried."""
    pause = pins.locked_for(count, last_at, now)
    if pause is None:
        return refuse(RefusalCode.PIN_LOCKED, manager=manager.name)
    return refuse(RefusalCode.PIN_LOCKED, retry_after_s=ceil(pause.total_seconds())) if pause else None


def verifies(verifier: str, code_key: bytes, pin: str) -> bool:
    """Tell whether a PIN is the one that was hashed; False also for a verifier that this version cannot read."""
    try:
        Argon2id.verify_phc_encoded(pins.peppered(code_key, pin), verifier)
    except (InvalidKey, ValueError):
        return False
    return True
