"""Turn answers, refusals and troubles into responses, in one place.

A business answer has `outcome` ("ok" or a refusal's code). What is wrong with the request itself has `error` instead,
so that a caller never takes a typing mistake for a decision.
"""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.refusals import Refusal, RefusalCode, refuse
from server.db.errors import DatabaseBusy, DatabaseTrouble
from server.http.security import NoKey, NotEnrolled, TillShut, WrongScope
from server.services.answers import Answer, refused
from server.services.context import NotProvisioned
from server.stock.trouble import StockTrouble


class AnswerResponse(JSONResponse):
    """Render as the framework's does, in a third of the time: every claim of a flood waits for it."""

    def render(self, content: Any) -> bytes:
        """Return the bytes."""
        return to_json(content)


METHOD_UNKNOWN, TOO_LARGE, BUSY = 405, 413, 503
ENROL = (
    "A till's key opens nothing any more: enrol the till with a code (pawtill enrolment-code, pawtill enrol). "
    "收银机密钥不再有效，请用登记码登记本机（pawtill enrolment-code，pawtill enrol）。"
)
_STATUS = {RefusalCode.BUSY.value: BUSY, RefusalCode.RATE_LIMITED.value: 429}
RETRY_AFTER_TROUBLE_S = 30
"""How long a caller waits where a person has to act first (a full disk)."""


def reply(answer: Answer | Refusal, *, status: int = 200, path: str | None = None) -> JSONResponse:
    """Return the response: `status` for ok, 409 for a refusal, 503 or 429 with Retry-After where to ask again.

    `path` names the kind of thing that the path names: that it is unknown is 404.
    """
    if isinstance(answer, Refusal):
        answer = refused(answer)
    outcome = answer["outcome"]
    if outcome == "ok":
        return AnswerResponse(answer, status)
    facts = answer.get("facts", {})
    if path is not None and outcome == RefusalCode.UNKNOWN_CODE and facts.get("kind") == path:
        return AnswerResponse(answer, 404)
    retry_after_s = facts.get("retry_after_s")
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s is not None else None
    return AnswerResponse(answer, _STATUS.get(outcome, 409), headers=headers)


def reply_trouble(error: DatabaseTrouble) -> JSONResponse:
    """Return the response where nothing could be decided: busy, with the time after which to ask again."""
    retry_after_s = error.retry_after_s if isinstance(error, DatabaseBusy) else RETRY_AFTER_TROUBLE_S
    return reply(refuse(RefusalCode.BUSY, reason=error.word, retry_after_s=retry_after_s))


def install(app: FastAPI) -> None:
    """Tell the application how each exception is answered."""

    @app.exception_handler(DatabaseTrouble)
    async def trouble(_request: Request, error: DatabaseTrouble) -> JSONResponse:
        return reply_trouble(error)

    @app.exception_handler(StockTrouble)
    async def stock_trouble(_request: Request, error: StockTrouble) -> JSONResponse:
        return reply(refuse(RefusalCode.BUSY, reason=error.word, retry_after_s=1))

    @app.exception_handler(NotProvisioned)
    async def not_provisioned(_request: Request, _error: NotProvisioned) -> JSONResponse:
        facts = {"reason": "not_provisioned", "retry_after_s": RETRY_AFTER_TROUBLE_S}
        return reply(Refusal(RefusalCode.BUSY, facts))

    @app.exception_handler(NoKey)
    async def no_key(_request: Request, _error: NoKey) -> JSONResponse:
        return JSONResponse({"error": "no_key"}, 401, headers={"WWW-Authenticate": "Bearer"})

    @app.exception_handler(NotEnrolled)
    async def not_enrolled(_request: Request, _error: NotEnrolled) -> JSONResponse:
        return JSONResponse({"error": "not_enrolled", "message": ENROL}, 401, headers={"WWW-Authenticate": "Signature"})

    @app.exception_handler(WrongScope)
    async def wrong_scope(_request: Request, error: WrongScope) -> JSONResponse:
        return JSONResponse({"error": "wrong_scope", "scopes": list(error.scopes)}, 403)

    @app.exception_handler(TillShut)
    async def till_shut(_request: Request, error: TillShut) -> JSONResponse:
        return JSONResponse({"error": error.word}, 403)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        # Where and why, never the input: it may hold a code or a key.
        fields = [
            {"field": ".".join(map(str, each["loc"]))[:200], "reason": each["msg"]} for each in error.errors()[:20]
        ]
        return JSONResponse({"error": "invalid_request", "fields": fields}, 422)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        status = error.status_code
        word = {404: "no_such_path", METHOD_UNKNOWN: "no_such_method", TOO_LARGE: "too_large"}.get(status)
        headers = {"Allow": ", ".join(_methods(request))} if status == METHOD_UNKNOWN else error.headers
        return JSONResponse({"error": word or "bad_request"}, status, headers=headers)


def _methods(request: Request) -> list[str]:
    """Return every method that the path has: the framework names those of one route, and a path may have several.

    Where a name stands in the place of a parameter (`/lookup`, `/{coupon_id}`), the path is the one that says the name.
    """
    fits = [each for each in iter_route_contexts(request.app.routes) if each.matches(request.scope)[0] != Match.NONE]
    fewest = min(str(each.path).count("{") for each in fits)
    return sorted({name for each in fits if str(each.path).count("{") == fewest for name in each.methods or ()})


class TooLargeInJson:
    """Say in our words that a body is too large: where its length was announced the framework says it as plain text.

    `note` hears of each such request behind its answer, in a thread.
    """

    def __init__(self, app: ASGIApp, note: Callable[[Scope], object]) -> None:
        self._app, self._note = app, note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is answered, but for the words of a 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        too_large = False

        async def tell(message: Message) -> None:
            nonlocal too_large
            if message["type"] == "http.response.start" and message["status"] == TOO_LARGE:
                too_large = True
                await JSONResponse({"error": "too_large"}, TOO_LARGE)(scope, receive, send)
            elif not too_large:
                await send(message)

        await self._app(scope, receive, tell)
        if too_large:
            await run_in_threadpool(self._note, scope)
