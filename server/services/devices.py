"""Know tills by the keys that they enrolled, and let headquarters suspend, resume and revoke them, at once."""

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import ColumnElement, Connection, delete, exists, insert, select, update

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.db.schema import coupon, device, enrolment_code, shut_till, till
from server.services import findings, history
from server.services.context import Actor, Context

_NAME_MAX = 200
OPEN, SUSPENDED, REVOKED, REPLACED = "OPEN", "SUSPENDED", "REVOKED", "REPLACED"
SHUTS = {SUSPENDED: "suspend", REVOKED: "revoke"}
"""What headquarters does, by what the till then is."""


@dataclass(frozen=True, slots=True)
class Device:
    """Hold a till's key, and who speaks by it."""

    key: Ed25519PublicKey
    actor: Actor


def find(conn: Connection, key_id: str) -> Device | None:
    """Return whose key it is, also where it may not speak any more (`Actor.access`); None for one that nobody has.

    Asked for each request and kept nowhere, so what headquarters decides counts from the next one on.
    """
    row = conn.execute(
        select(device, till.c.store_id, shut_till.c.access)
        .join(till, till.c.id == device.c.till_id)
        .outerjoin(shut_till, shut_till.c.till_id == device.c.till_id)
        .where(device.c.id == key_id)
    ).one_or_none()
    if row is None:
        return None
    access = (row.access or OPEN) if row.replaced_at is None else REPLACED
    actor = Actor("till", row.id, till_id=row.till_id, store_id=row.store_id, access=access)
    return Device(Ed25519PublicKey.from_public_bytes(row.public_key), actor)


def replace(conn: Connection, ctx: Context, till_id: str) -> None:
    """Make the key that a till enrolled worthless: another speaks for the till from now on.

    It may be another machine: so the coupons that are at home there are not told to whoever is new. The till that has
    them uses and returns them as ever.
    """
    conn.execute(update(coupon).where(coupon.c.home == till_id).values(frozen_version=coupon.c.version))
    current = (device.c.till_id == till_id, device.c.replaced_at.is_(None))
    conn.execute(update(device).where(*current).values(replaced_at=ctx.now))


def take_in(conn: Connection, ctx: Context, till_id: str, *, key_id: str, public_key: bytes, certificate: str) -> None:
    """Make a key (Ed25519, 32 bytes) the till's only one; what spoke for it before is worthless now."""
    replace(conn, ctx, till_id)
    conn.execute(
        insert(device).values(
            id=key_id, till_id=till_id, public_key=public_key, certificate=certificate, enrolled_at=ctx.now
        )
    )


def shut(conn: Connection, ctx: Context, till_id: str, *, access: str, reason: str) -> Refusal | None:
    """Let a till speak no more, for now (SUSPENDED) or until it enrols anew (REVOKED); None = done.

    What it has sold stays with it: nothing is deleted anywhere, and its rights stay its own. What a revoked till tells
    all the same waits for a person (`services/revoked.py`).
    """
    stands = _stands(conn, till_id)
    if isinstance(stands, Refusal):
        return stands
    if access == REVOKED:
        # A code from before, which may be where the till is, brings it back no more.
        unused = (enrolment_code.c.till_id == till_id, enrolment_code.c.device_id.is_(None))
        conn.execute(delete(enrolment_code).where(*unused))
    if stands == REVOKED:
        return None if access == REVOKED else refuse(RefusalCode.NOT_ALLOWED, reason="till_revoked")
    conn.execute(delete(shut_till).where(shut_till.c.till_id == till_id))
    conn.execute(insert(shut_till).values(till_id=till_id, access=access, reason=reason, since_at=ctx.now))
    _record(conn, ctx, till_id, event=SHUTS[access], reason=reason)
    return None


def resume(conn: Connection, ctx: Context, till_id: str) -> Refusal | None:
    """Let a suspended till speak again; one that is not suspended stays as it is. None = it may speak."""
    stands = _stands(conn, till_id)
    if isinstance(stands, Refusal):
        return stands
    if stands == REVOKED:
        return refuse(RefusalCode.NOT_ALLOWED, reason="till_revoked")
    if stands == SUSPENDED:
        conn.execute(delete(shut_till).where(shut_till.c.till_id == till_id))
        _record(conn, ctx, till_id, event="resume")
    return None


def access_of(conn: Connection, till_id: str) -> str:
    """Return whether headquarters lets a till speak: OPEN, SUSPENDED or REVOKED."""
    found = conn.execute(select(shut_till.c.access).where(shut_till.c.till_id == till_id)).scalar_one_or_none()
    return found or OPEN


def spoke_for(conn: Connection, ctx: Context, name: str) -> None:
    """Tell a person that a till spoke as another one: a folder was copied, or a key is used for what it is not.

    One finding a day for each till. `name` is what it called itself, of any length and characters.
    """
    told = name if name.isprintable() and len(name) <= _NAME_MAX else ""
    key = f"{ctx.actor.till_id}/{ctx.now:%Y-%m-%d}"
    detail = {"till": ctx.actor.till_id, "key": ctx.actor.key_id, "spoke_as": told}
    findings.open_finding(conn, kind="wrong_till", key=key, amount_minor=0, detail=detail, now=ctx.now)


def has_key() -> ColumnElement[bool]:
    """Return the condition that a till of the query has a key to speak by, let in by it or not."""
    return exists().where(device.c.till_id == till.c.id, device.c.replaced_at.is_(None))


def is_shut() -> ColumnElement[bool]:
    """Return the condition that headquarters has suspended or revoked a till of the query."""
    return exists().where(shut_till.c.till_id == till.c.id)


def _stands(conn: Connection, till_id: str) -> str | Refusal:
    if conn.execute(select(till.c.id).where(till.c.id == till_id)).first() is None:
        return unknown("till", till_id)
    return access_of(conn, till_id)


def _record(conn: Connection, ctx: Context, till_id: str, *, event: str, reason: str = "") -> None:
    by = f"{ctx.actor.scope}:{ctx.actor.key_id}"
    told = history.Event("till", till_id, event, None, None, reason=reason, till_id=till_id, operator=by)
    history.record(conn, [told], ctx.now)
