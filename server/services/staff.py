"""Name the managers who may approve at tills, each with a PIN of which the server keeps a verifier alone."""

import os
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from sqlalchemy import Connection, Row, insert, select, update

from app.domain import pins
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.db import schema
from server.services import feed, feed_records, history
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.entries import ApprovalBody
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict

STAFF = "staff"


@dataclass(frozen=True, slots=True)
class Manager:
    """Describe a manager as set: `store_id` None = of every store; `verifier` None = the PIN stays as it is."""

    id: str
    name: str
    store_id: str | None
    verifier: str | None


def make_verifier(code_key: bytes, pin: str, *, memory_kib: int = pins.MEMORY_KIB) -> str | Refusal:
    """Hash a PIN (some 50 ms, 19 MiB); `wrong_pin` where it is none. Not to be called within a transaction.

    How much work it was stands in what is returned; less is for PINs that are no secret.
    """
    if not pins.is_pin(pin):
        return refuse(RefusalCode.WRONG_PIN, least_digits=pins.LENGTH_MIN)
    kdf = Argon2id(
        salt=os.urandom(pins.SALT_BYTES),
        length=pins.HASH_BYTES,
        iterations=pins.PASSES,
        lanes=pins.LANES,
        memory_cost=memory_kib,
    )
    return kdf.derive_phc_encoded(pins.peppered(code_key, pin))


def put(conn: Connection, ctx: Context, manager: Manager) -> Answer:
    """Set a manager up, or change name, store or PIN; who has left comes back by a new PIN alone.

    A new PIN counts its wrong tries from 0 at every till.
    """
    store = schema.store
    place = manager.store_id
    if place is not None and conn.execute(select(store.c.id).where(store.c.id == place)).one_or_none() is None:
        return refused(unknown("store", place))
    row = _find(conn, manager.id)
    if manager.verifier is None and (row is None or not row.active):
        return refused(refuse(RefusalCode.WRONG_PIN, least_digits=pins.LENGTH_MIN))
    values: dict[str, Any] = {"name": manager.name, "store_id": place, "active": True, "changed_at": ctx.now}
    if manager.verifier is not None:
        values |= {"verifier": manager.verifier, "pin_version": 1 if row is None else row.pin_version + 1}
    staff = schema.staff
    if row is None:
        conn.execute(insert(staff).values(id=manager.id, **values))
    else:
        conn.execute(update(staff).where(staff.c.id == manager.id).values(**values))
    _tell(conn, ctx, manager.id, event="set" if manager.verifier is None else "set_pin")
    return _shown(conn, manager.id)


def leave(conn: Connection, ctx: Context, staff_id: str, *, reason: str) -> Answer:
    """Take somebody's right to approve away; once more is fine. Tills hear of it with their next sync."""
    staff = schema.staff
    row = _find(conn, staff_id)
    if row is None:
        return refused(unknown(STAFF, staff_id))
    if row.active:
        conn.execute(update(staff).where(staff.c.id == staff_id).values(active=False, changed_at=ctx.now))
        _tell(conn, ctx, staff_id, event="leave", reason=reason)
    return _shown(conn, staff_id)


def listed(conn: Connection) -> Answer:
    """List everybody, who has left too, without what proves a PIN."""
    rows = conn.execute(select(schema.staff).order_by(schema.staff.c.id))
    return ok(staff=[_view(row) for row in rows])


def judge_approval(conn: Connection, told: Told, *, body: ApprovalBody) -> Verdict:
    """Find who approved in the books; one whom nobody named there, or who approved for himself, is a finding."""
    known = _find(conn, body["by"]) is not None
    if known and body["by"] != body["operator"]:
        return IN_ORDER
    why = "approved what is his own" if known else "is no manager"
    detail = {"order": body["order"], "coupon": body["coupon"], "by": body["by"], "why": why}
    return conflict(conn, told, "unknown_approver", key=body["approval"], amount_minor=0, detail=detail)


def _find(conn: Connection, staff_id: str) -> Row[Any] | None:
    return conn.execute(select(schema.staff).where(schema.staff.c.id == staff_id)).one_or_none()


def _shown(conn: Connection, staff_id: str) -> Answer:
    row = _find(conn, staff_id)
    assert row is not None, "nobody is deleted"
    return ok(**_view(row))


def _view(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "store": row.store_id,
        "active": row.active,
        "changed_at": row.changed_at.isoformat(),
    }


def _tell(conn: Connection, ctx: Context, staff_id: str, *, event: str, reason: str = "") -> None:
    by = f"{ctx.actor.scope}:{ctx.actor.key_id}"
    told = history.Event(STAFF, staff_id, event, None, None, reason=reason, operator=by)
    history.record(conn, [told], ctx.now)
    feed.touch(conn, [(feed_records.STAFF, staff_id)])
