"""Enrol tills, and suspend, resume and revoke them."""

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy import Connection

from app.domain.refusals import Refusal, RefusalCode, refuse
from server.http.answers import reply
from server.http.security import Headquarters, ServicesDep
from server.http.values import Body, Id, Reason
from server.services import devices, enrolment
from server.services.answers import ok
from server.services.context import Context
from sync.enrolment import ALPHABET, ENROL_PATH, NAME_CHARS, WRONG_CODE, Question, proves, seal, show_code, stretch

router = APIRouter(tags=["enrolment"])

PathId = Annotated[Id, Path()]
_HEX_32 = "^[0-9a-f]{64}$"


class CodeIn(Body):
    """The store in which the till stands; made before."""

    store: Id


class EnrolIn(Body):
    """`enrolment` is the till's own id for this; `public_key` (Ed25519), `nonce` and `proof` in hex.

    `code_name` is the first five characters of the code, which only who was given the code knows.
    """

    till: Id
    code_name: Annotated[str, Field(pattern=f"^[{ALPHABET}]{{{NAME_CHARS}}}$")]
    enrolment: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    public_key: Annotated[str, Field(pattern=_HEX_32)]
    nonce: Annotated[str, Field(pattern=_HEX_32)]
    proof: Annotated[str, Field(pattern=_HEX_32)]


class AccessIn(Body):
    """Headquarters says why."""

    reason: Reason


@router.post("/v1/tills/{till_id}/enrolment-codes", status_code=201)
def post_code(*, till_id: PathId, body: CodeIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Make a one-time code for a till, new or not: 15 minutes, five tries of who names it, one use; told this once."""
    made = services.write(
        lambda conn, ctx: enrolment.make_code(conn, ctx, till_id, store_id=body.store, chain_key=services.chain_key),
        actor,
    )
    if isinstance(made, Refusal):
        return reply(made)
    code = show_code(made.code)
    return reply(ok(till=till_id, store=body.store, code=code, until_at=made.until_at.isoformat()), status=201)


@router.post(ENROL_PATH, status_code=201)
def post_enrolment(*, body: EnrolIn, services: ServicesDep) -> JSONResponse:
    """Take a till's key against a one-time code; who asks has no key yet. The answer is sealed under the code."""
    question = Question(body.till, body.enrolment, bytes.fromhex(body.public_key), bytes.fromhex(body.nonce))
    chain_key, name = services.chain_key, body.code_name
    # Looked at first: what strangers send does not come to the one writer of everybody.
    if services.read(lambda conn, _ctx: enrolment.named(conn, body.till, name, chain_key=chain_key)) is None:
        return reply(refuse(RefusalCode.NOT_ALLOWED, reason=WRONG_CODE))
    tried = services.write(
        lambda conn, ctx: enrolment.take_try(conn, ctx, question, code_name=name, chain_key=chain_key)
    )
    if isinstance(tried, Refusal):
        return reply(tried)
    # Between two writes, not in one: it takes long on purpose, and the writer has others to serve.
    key = stretch(enrolment.code_of(tried.code_id, chain_key), question.till)
    if not proves(key, question, bytes.fromhex(body.proof)):
        return reply(refuse(RefusalCode.NOT_ALLOWED, reason=WRONG_CODE))

    def take(conn: Connection, ctx: Context) -> dict[str, Any] | Refusal:
        return enrolment.enrol(conn, ctx, question, tried=tried, chain_key=chain_key)

    told = services.write(take)
    if isinstance(told, Refusal):
        return reply(told)
    content = {**told, "authority": services.authority}
    return reply(ok(sealed=base64.b64encode(seal(key, question, content)).decode()), status=201)


@router.post("/v1/tills/{till_id}/suspend")
def post_suspend(*, till_id: PathId, body: AccessIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Let a till speak no more until it is resumed."""
    return _shut(services, actor, till_id, access=devices.SUSPENDED, reason=body.reason)


@router.post("/v1/tills/{till_id}/revoke")
def post_revoke(*, till_id: PathId, body: AccessIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Take a till out of service for good; only a new enrolment brings it back.

    What it still tells is kept in a finding, and booked when that is judged.
    """
    return _shut(services, actor, till_id, access=devices.REVOKED, reason=body.reason)


@router.post("/v1/tills/{till_id}/resume")
def post_resume(*, till_id: PathId, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Let a suspended till speak again."""
    problem = services.write(lambda conn, ctx: devices.resume(conn, ctx, till_id), actor)
    return reply(problem or ok(till=till_id, access=devices.OPEN), path="till")


def _shut(services: ServicesDep, actor: Headquarters, till_id: str, *, access: str, reason: str) -> JSONResponse:
    problem = services.write(lambda conn, ctx: devices.shut(conn, ctx, till_id, access=access, reason=reason), actor)
    return reply(problem or ok(till=till_id, access=access), path="till")
