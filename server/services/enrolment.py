"""Enrol tills: one-time codes, and the keys that tills made for themselves (PROTOCOL 7.1).

A code is drawn from `chain.key` and the id of its row, so the database alone does not have it. The newest code of a
till counts; a try is counted before it is looked at, so that rivals get five looks together. Anybody may try, so only
tries that name the code count, and the others, which are no tries at it, hear nothing else than that it is wrong. The
same enrolment asked again gets the same answer, however late: whoever asks has to know the code, and its key is the one
that is known.
"""

import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.chain_key import ChainKey
from server.db.portable import upsert
from server.db.schema import device, enrolment_code, shut_till, store, till
from server.services import devices
from server.services.context import Context
from sync.certificate import Certificate, issue
from sync.enrolment import (
    CODE_CHARS,
    LATE_CODE,
    NO_MORE_TRIES,
    USED_CODE,
    WRONG_CODE,
    Question,
    name_of,
    spell,
)

CODE_LIFE = timedelta(minutes=15)
TRIES_MAX = 5
CERTIFICATE_LIFE = timedelta(days=3650)
"""Long, since nothing renews one; who asks the database hears of a till that may not speak at once."""
SUSPENDED, REPLACED = "till_suspended", "till_replaced"


@dataclass(frozen=True, slots=True)
class NewCode:
    """Hand a code over; it is told once, and counts until `until_at`."""

    code: str
    until_at: datetime


@dataclass(frozen=True, slots=True)
class Tried:
    """Hold what the decision on an enrolment needs: whose code was tried, and who has used it (None = nobody)."""

    code_id: str
    store_id: str
    used_by: str | None


def make_code(conn: Connection, ctx: Context, till_id: str, *, store_id: str, chain_key: ChainKey) -> NewCode | Refusal:
    """Make a one-time code for a till of a store; earlier ones of the till are worthless from then on."""
    if conn.execute(select(store.c.id).where(store.c.id == store_id)).first() is None:
        return unknown("store", store_id)
    conn.execute(upsert(conn, till).values(id=till_id, store_id=store_id).on_conflict_do_nothing())
    stands = conn.execute(select(till.c.store_id).where(till.c.id == till_id)).scalar_one()
    if stands != store_id:
        return refuse(RefusalCode.WRONG_STORE, till=till_id, store=stands)
    # Gone, not older: a clock that was set right may be behind the time of a code that it gave before.
    conn.execute(delete(enrolment_code).where(enrolment_code.c.till_id == till_id))
    code_id, until_at = ctx.ids.new(), ctx.now + CODE_LIFE
    conn.execute(insert(enrolment_code).values(id=code_id, till_id=till_id, store_id=store_id, until_at=until_at))
    return NewCode(code_of(code_id, chain_key), until_at)


def code_of(code_id: str, chain_key: ChainKey) -> str:
    """Draw the code of a row: 75 bits of HMAC-SHA256."""
    drawn = hmac.digest(chain_key.codes, code_id.encode(), "sha256")
    return spell(int.from_bytes(drawn, "big") >> (8 * len(drawn) - 5 * CODE_CHARS))


def named(conn: Connection, till_id: str, code_name: str, *, chain_key: ChainKey) -> Row[Any] | None:
    """Return the till's newest code where this is its name; whatever became of it is told to nobody else."""
    row = _newest(conn, till_id)
    return row if row is not None and name_of(code_of(row.id, chain_key)) == code_name else None


def take_try(
    conn: Connection, ctx: Context, question: Question, *, code_name: str, chain_key: ChainKey
) -> Tried | Refusal:
    """Count a try at the till's newest code, and return what there is to prove; a refusal where none counts."""
    row = named(conn, question.till, code_name, chain_key=chain_key)
    if row is None:
        return refuse(RefusalCode.NOT_ALLOWED, reason=WRONG_CODE)
    again = row.device_id == question.enrolment
    if row.device_id is not None and not again:
        return refuse(RefusalCode.NOT_ALLOWED, reason=USED_CODE)
    if not again and ctx.now >= row.until_at:
        return refuse(RefusalCode.NOT_ALLOWED, reason=LATE_CODE)
    if row.tries >= TRIES_MAX:
        return refuse(RefusalCode.NOT_ALLOWED, reason=NO_MORE_TRIES)
    conn.execute(update(enrolment_code).where(enrolment_code.c.id == row.id).values(tries=row.tries + 1))
    return Tried(row.id, row.store_id, row.device_id)


def enrol(
    conn: Connection, ctx: Context, question: Question, *, tried: Tried, chain_key: ChainKey
) -> dict[str, Any] | Refusal:
    """Take the till's key in its place, after the proof was found good; return what the sealed answer tells."""
    place = conn.execute(select(till).where(till.c.id == question.till)).one()
    code = _newest(conn, question.till)
    known = conn.execute(select(device).where(device.c.id == question.enrolment)).one_or_none()
    access = devices.access_of(conn, question.till)
    problem = _problem(question, tried, place=place, code=code, known=known, access=access)
    if problem is not None:
        return problem
    if code is not None and code.device_id is None:
        # A till that was revoked may speak again, also by the key that it has: headquarters made a code after that.
        conn.execute(delete(shut_till).where(shut_till.c.till_id == place.id))
    certificate = (
        known.certificate if known is not None else _take_in(conn, ctx, question, place=place, chain_key=chain_key)
    )
    # Its tries begin anew: an answer that was lost is asked for again until it is heard.
    used = {"device_id": question.enrolment, "tries": 0}
    conn.execute(update(enrolment_code).where(enrolment_code.c.id == tried.code_id).values(used))
    return {
        "till": place.id,
        "store": place.store_id,
        "epoch": place.epoch,
        "certificate": certificate,
        "certificate_key": chain_key.certificates.public_key().public_bytes_raw().hex(),
        "answer_key": chain_key.answers.public_key().public_bytes_raw().hex(),
        "code_key": ctx.code_key.hex(),
    }


def _newest(conn: Connection, till_id: str) -> Row[Any] | None:
    newest = enrolment_code.c.id.desc()
    return conn.execute(
        select(enrolment_code)
        .where(enrolment_code.c.till_id == till_id)
        .order_by(enrolment_code.c.until_at.desc(), newest)
    ).first()


def _problem(
    question: Question, tried: Tried, *, place: Row[Any], code: Row[Any] | None, known: Row[Any] | None, access: str
) -> Refusal | None:
    """Return why the key is not taken, although its proof is good; None = it is."""
    if code is None or code.id != tried.code_id:
        return refuse(RefusalCode.NOT_ALLOWED, reason=WRONG_CODE)
    if code.device_id not in (None, question.enrolment):
        return refuse(RefusalCode.NOT_ALLOWED, reason=USED_CODE)
    if place.store_id != tried.store_id:
        return refuse(RefusalCode.WRONG_STORE, till=place.id, store=place.store_id)
    if access == devices.SUSPENDED:
        return refuse(RefusalCode.NOT_ALLOWED, reason=SUSPENDED)
    if known is not None and (known.till_id, known.public_key) != (question.till, question.public_key):
        return refuse(RefusalCode.DUPLICATE_MISMATCH, id=question.enrolment)
    if known is not None and known.replaced_at is not None:
        return refuse(RefusalCode.NOT_ALLOWED, reason=REPLACED)
    return None


def _take_in(conn: Connection, ctx: Context, question: Question, *, place: Row[Any], chain_key: ChainKey) -> str:
    """Make the key the till's only one, and return its certificate; what spoke for it before is worthless now."""
    certificate = issue(
        Certificate(
            key_id=question.enrolment,
            till=place.id,
            store=place.store_id,
            epoch=place.epoch,
            public_key=question.public_key.hex(),
            not_after=int((ctx.now + CERTIFICATE_LIFE).timestamp()),
        ),
        chain_key.certificates,
    )
    devices.take_in(
        conn, ctx, place.id, key_id=question.enrolment, public_key=question.public_key, certificate=certificate
    )
    return certificate
