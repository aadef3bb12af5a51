"""Show what a person must look at, and take what people decide about it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from server.http.answers import reply
from server.http.security import Headquarters, Office, ServicesDep
from server.http.values import Body, Id, Person, Reason
from server.services import findings, quarantine
from server.services.answers import ok
from server.services.findings import Word

router = APIRouter(prefix="/v1/findings", tags=["findings"])

FindingId = Annotated[int, Path(ge=1, le=2**53)]


class DecideIn(Body):
    """`remedy`: what is proposed will be done; `accept`: it stays as it is; `other`: what the reason says."""

    decision: Literal["remedy", "accept", "other"]
    by: Person
    reason: Reason


class SayIn(Body):
    """Who says so, and why."""

    by: Person
    reason: Reason


@router.get("")
def get_findings(
    *,
    services: ServicesDep,
    actor: Office,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: Literal["OPEN", "DECIDED", "CLOSED"] | None = None,
    kind: Annotated[Id | None, Query()] = None,
) -> JSONResponse:
    """List the newest findings, and count the open ones by kind."""

    def find(conn: Any, _ctx: Any) -> dict[str, Any]:
        listed = findings.newest(conn, limit=limit, state=state, kind=kind)
        return ok(findings=listed, open=findings.open_counts(conn))

    return reply(services.read(find, actor))


@router.get("/{finding_id}")
def get_finding(*, finding_id: FindingId, services: ServicesDep, actor: Office) -> JSONResponse:
    """Show a finding with the evidence of both sides, and who did what about it."""
    return reply(services.read(lambda conn, ctx: findings.shown(conn, ctx, finding_id), actor), path="finding")


@router.post("/{finding_id}/decide")
def post_decide(*, finding_id: FindingId, body: DecideIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Decide about a finding; the same decision of the same person again changes nothing."""
    word = Word(body.by, body.reason, body.decision)
    return reply(
        services.write(lambda conn, ctx: findings.decide(conn, ctx, finding_id, word=word), actor), path="finding"
    )


@router.post("/{finding_id}/close")
def post_close(*, finding_id: FindingId, body: SayIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Close a finding that was decided; one that is closed stays so."""
    word = Word(body.by, body.reason)
    return reply(
        services.write(lambda conn, ctx: findings.close(conn, ctx, finding_id, word=word), actor), path="finding"
    )


@router.post("/{finding_id}/judge")
def post_judge(*, finding_id: FindingId, body: SayIn, services: ServicesDep, actor: Headquarters) -> JSONResponse:
    """Judge the entry of a finding in quarantine again; where it still cannot be judged all is as before.

    `result` and `code` are the verdict, the finding is closed where there is one. Of what a revoked till told, the next
    500 entries are judged; ask again while there are some `left`.
    """
    word = Word(body.by, body.reason)
    return reply(
        services.write(lambda conn, ctx: quarantine.judge(conn, ctx, finding_id, word=word), actor), path="finding"
    )
