"""Carry the sync protocol: hello, push, pull, sanity (`sync/protocol.py`), each for the till of its key.

The body is read once and parsed by pydantic straight from its bytes: at 200 entries a push, the framework's own way
through Python objects costs more than judging them.
"""

import json
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError

from app.domain.refusals import Refusal, RefusalCode
from server.http import described
from server.http.answers import reply
from server.http.security import ATill, ATillWithFacts, ServicesDep, TillShut
from server.services import adopting, devices, epochs, feed, ingest, sessions
from server.services.context import Actor
from server.services.services import Services
from sync.protocol import (
    ADOPT_PATH,
    ENROL_PATH,
    HELLO_PATH,
    PROTOCOL,
    PULL_PATH,
    PUSH_PATH,
    SANITY_PATH,
    UNKNOWN_PATH,
    Adopt,
    AdoptAnswer,
    Enrol,
    EnrolAnswer,
    Hello,
    HelloAnswer,
    Pull,
    PullAnswer,
    Push,
    PushAnswer,
    Sanity,
    SanityAnswer,
    Unknown,
    UnknownAnswer,
)

router = APIRouter(tags=["sync"])

MessageT = TypeVar("MessageT", Hello, Push, Pull, Sanity, Enrol, Unknown, Adopt)


async def _raw_body(request: Request) -> bytes:
    return await request.body()


Raw = Annotated[bytes, Depends(_raw_body)]


def _document(message: type[BaseModel]) -> dict[str, Any]:
    """Describe in the OpenAPI page what the route reads by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": described.ref(message)}}}}


_RESPONSES: dict[int | str, dict[str, Any]] = {
    426: described.answer("Another version of the protocol; `accept` names those that are spoken", described.Mistake)
}


@router.post(HELLO_PATH, response_model=HelloAnswer, responses=_RESPONSES, openapi_extra=_document(Hello))
def hello(*, raw: Raw, services: ServicesDep, actor: ATillWithFacts) -> Response:
    """Open a session: where the till's ledger ends here and there."""
    message = _read(Hello, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    return _answer(services.write(lambda conn, context: sessions.hello(conn, context, message), actor))


@router.post(PUSH_PATH, response_model=PushAnswer, responses=_RESPONSES, openapi_extra=_document(Push))
def push(*, raw: Raw, services: ServicesDep, actor: ATillWithFacts) -> Response:
    """Take entries in; only `acked` moves a till's cursor, and the answer comes when they are durable."""
    message = _read(Push, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    answer = services.write(lambda conn, context: ingest.push(conn, context, message), actor, point="before_ack")
    if isinstance(answer, Refusal) and answer.code is RefusalCode.NOT_ALLOWED:
        raise TillShut(actor.access)
    return _answer(answer)


@router.post(PULL_PATH, response_model=PullAnswer, responses=_RESPONSES, openapi_extra=_document(Pull))
def pull(*, raw: Raw, services: ServicesDep, actor: ATill) -> Response:
    """Give what changed after the cursor, as it stands now."""
    message = _read(Pull, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    return _answer(
        services.read(lambda conn, _: feed.page(conn, message.cursor, message.limit, till_id=message.till), actor)
    )


@router.post(SANITY_PATH, response_model=SanityAnswer, responses=_RESPONSES, openapi_extra=_document(Sanity))
def sanity(*, raw: Raw, services: ServicesDep, actor: ATill) -> Response:
    """Compare the sums of business days; a difference becomes a finding."""
    message = _read(Sanity, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    answer = services.read(lambda conn, context: sessions.compare(conn, context, message), actor)
    if isinstance(answer, SanityAnswer) and answer.differences:
        differences = answer.differences
        services.write(lambda conn, context: sessions.report(conn, context, message, differences=differences), actor)
    return _answer(answer)


@router.post(ENROL_PATH, response_model=EnrolAnswer, responses=_RESPONSES, openapi_extra=_document(Enrol))
def enrol(*, raw: Raw, services: ServicesDep, actor: ATill) -> Response:
    """Begin a new epoch: the ledger so far is left as it is, and nothing is pushed under it any more."""
    message = _read(Enrol, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    return _answer(services.write(lambda conn, context: epochs.answer(conn, context, message), actor))


@router.post(UNKNOWN_PATH, response_model=UnknownAnswer, responses=_RESPONSES, openapi_extra=_document(Unknown))
def unknown(*, raw: Raw, services: ServicesDep, actor: ATill) -> Response:
    """Tell which entries are not here, under whatever number: they are what is to be carried into the new epoch."""
    message = _read(Unknown, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    return _answer(services.read(lambda conn, _: epochs.unknown_entries(conn, message), actor))


@router.post(ADOPT_PATH, response_model=AdoptAnswer, responses=_RESPONSES, openapi_extra=_document(Adopt))
def adopt(*, raw: Raw, services: ServicesDep, actor: ATill) -> Response:
    """Take over rights that a till had before this database came back from a backup; else nothing happens."""
    message = _read(Adopt, raw, services=services, actor=actor)
    if isinstance(message, Response):
        return message
    return _answer(services.write(lambda conn, context: adopting.adopt(conn, context, message), actor))


def _read(model: type[MessageT], raw: bytes, *, services: Services, actor: Actor) -> MessageT | Response:
    """Parse a message; another version is 426, another till than the key's 403 and found, nonsense 422."""
    try:
        message = model.model_validate_json(raw)
    except ValidationError as wrong:
        if _version(raw) not in (None, PROTOCOL):
            return _unknown_protocol()
        # Never the input: it may hold what is nobody's business.
        raise RequestValidationError(wrong.errors(include_url=False, include_input=False)) from None
    if message.proto != PROTOCOL:
        return _unknown_protocol()
    if message.till != actor.till_id:
        services.write(lambda conn, ctx: devices.spoke_for(conn, ctx, message.till), actor)
        return JSONResponse({"error": "wrong_till"}, 403)
    return message


def _version(raw: bytes) -> int | None:
    """Return the version that a message claims, None where it claims none."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    version = data.get("proto") if isinstance(data, dict) else None
    return version if type(version) is int else None


def _unknown_protocol() -> Response:
    return JSONResponse({"error": "UNKNOWN_PROTOCOL", "accept": [PROTOCOL, PROTOCOL]}, 426)


def _answer(answer: BaseModel | Refusal) -> Response:
    if isinstance(answer, Refusal):
        return reply(answer)
    return Response(answer.model_dump_json(), media_type="application/json")
