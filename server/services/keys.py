"""Make, check and revoke API keys: `pt_<key id>_<secret>`, shown once, stored as a digest.

The secret has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess (OWASP ASVS 5.0, V6.5.2).
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from app.domain.refusals import Refusal, unknown
from server.db.schema import api_key
from server.services.context import Actor, Context

SCOPES = ("app", "manager", "headquarters")
Who = Callable[[Connection, str], Actor | None]
"""Tells whose a bearer token is, None = nobody's."""

_TOKEN = re.compile(r"pt_([0-9a-f]{32})_([0-9a-f]{64})", re.ASCII)
_KEY = select(api_key).where(api_key.c.id == bindparam("key"), api_key.c.revoked_at.is_(None))


@dataclass(frozen=True, slots=True)
class NewKey:
    """Hand a key over; `token` exists nowhere else from now on."""

    id: str
    token: str


def create(conn: Connection, ctx: Context, *, scope: str, name: str) -> NewKey:
    """Make a key; no till has one: it signs what it asks (`devices.py`)."""
    assert scope in SCOPES, "a till signs"
    key_id, secret = ctx.ids.new(), secrets.token_hex(32)
    conn.execute(insert(api_key).values(id=key_id, digest=_digest(secret), scope=scope, name=name, created_at=ctx.now))
    return NewKey(key_id, f"pt_{key_id}_{secret}")


def authenticate(conn: Connection, token: str) -> Actor | None:
    """Return whose key it is; None for anything else, without a hint in word or time at which part was wrong."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    key_id, secret = found.groups()
    row = conn.execute(_KEY, {"key": key_id}).one_or_none()
    same = hmac.compare_digest(row.digest if row is not None else bytes(32), _digest(secret))
    if row is None or not same:
        return None
    return Actor(scope=row.scope, key_id=row.id)


@dataclass(slots=True)
class _Known:
    """Hold whose a key is, until when, and when somebody is to ask the database anew; `monotonic` seconds."""

    actor: Actor
    until: float
    ask_at: float


class KeyCache:
    """Remember for a moment whose key a token is, so that a flood of claims asks the database a few times a second.

    A key that is revoked through this process is forgotten at once, one that is revoked through another opens claims
    for `LIFE_S` more. What was refused is never remembered.
    """

    LIFE_S = 2.0
    ASK_S = 0.5
    """After this one caller is sent to ask anew, while the others still pass: a whole flood would ask at once."""
    KEPT_MAX = 1000

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[bytes, _Known] = {}

    def find(self, token: str) -> Actor | None:
        """Return who it is, None where the database has to be asked by this caller."""
        known, now = self._known.get(_digest(token)), self._monotonic()
        if known is None or now >= known.until:
            return None
        if now >= known.ask_at:
            known.ask_at = now + self.ASK_S
            return None
        return known.actor

    def add(self, token: str, actor: Actor) -> None:
        """Remember what the database said just now."""
        if len(self._known) >= self.KEPT_MAX:
            self._known.clear()
        now = self._monotonic()
        self._known[_digest(token)] = _Known(actor, now + self.LIFE_S, now + self.ASK_S)

    def clear(self) -> None:
        """Forget everybody: keys have changed."""
        self._known.clear()


def revoke(conn: Connection, ctx: Context, key_id: str) -> Refusal | None:
    """Make a key worthless from now on; again is fine. None = done."""
    known = conn.execute(select(api_key.c.id).where(api_key.c.id == key_id)).one_or_none()
    if known is None:
        return unknown("key", key_id)
    conn.execute(
        update(api_key).where(api_key.c.id == key_id, api_key.c.revoked_at.is_(None)).values(revoked_at=ctx.now)
    )
    return None


def listed(conn: Connection) -> list[dict[str, Any]]:
    """List the keys without their secrets, oldest first, as JSON data."""
    rows = conn.execute(select(api_key).order_by(api_key.c.created_at, api_key.c.id))
    return [
        {
            "id": row.id,
            "scope": row.scope,
            "till": row.till_id,
            "name": row.name,
            "created_at": row.created_at.isoformat(),
            "revoked_at": row.revoked_at.isoformat() if row.revoked_at else None,
        }
        for row in rows
    ]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
