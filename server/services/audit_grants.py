"""State the invariants of what was granted as queries: claims, coupons and batch issues say the same.

As in `audit_checks`, each query returns the rows that break its invariant, with their `subject` and the evidence.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Select, Text, and_, exists, func, literal, not_, or_, select

from app.domain.states import IssueState
from server.db.portable import json_field
from server.db.schema import coupon, history, issue_chunk, issue_task, request


def grant_checks() -> Iterator[tuple[str, Select[Any]]]:
    """Yield the kind of each violation with the query that finds it."""
    yield "claim_without_coupon", _claim_without_coupon()
    yield "coupon_without_claim", _coupon_without_claim()
    yield "coupon_without_grant", _coupon_without_grant()
    yield "issue_counts", _issue_counts()
    yield "issue_chunk", _issue_chunk()
    yield "issue_coupons", _issue_coupons()
    yield "issue_unfinished", _issue_unfinished()


def _told() -> Select[Any]:
    """Return the coupon that each granted request was told: `request_id`, `coupon_id`."""
    told = json_field(request.c.answer, "coupon", Text())
    return select(request.c.id.label("request_id"), told.label("coupon_id")).where(told.is_not(None))


def _claim_without_coupon() -> Select[Any]:
    """Whoever was told of a coupon has it, and nobody was told of another's."""
    told = _told().subquery()
    claims = (
        select(told.c.coupon_id, func.min(told.c.request_id).label("request_id"), func.count().label("claims"))
        .group_by(told.c.coupon_id)
        .subquery()
    )
    return (
        select(claims.c.request_id.label("subject"), claims.c.coupon_id, claims.c.claims)
        .outerjoin(coupon, coupon.c.id == claims.c.coupon_id)
        .where(or_(coupon.c.id.is_(None), claims.c.claims > 1))
    )


def _coupon_without_claim() -> Select[Any]:
    """No coupon comes from anywhere but a request that was granted: stock is taken nowhere else."""
    told = _told().subquery()
    # EXCEPT sorts each side once; an anti-join to what stands in JSON has no index, and SQLite walks all for each row.
    missing = select(coupon.c.id).except_(select(told.c.coupon_id)).subquery()
    return select(coupon.c.id.label("subject"), coupon.c.campaign_id, coupon.c.member_id, coupon.c.source).join(
        missing, missing.c.id == coupon.c.id
    )


def _coupon_without_grant() -> Select[Any]:
    """The history of every coupon begins with its grant."""
    begun = exists().where(
        history.c.subject == "coupon", history.c.subject_id == coupon.c.id, history.c.event == "grant"
    )
    return select(coupon.c.id.label("subject"), coupon.c.source).where(not_(begun))


def _issue_counts() -> Select[Any]:
    """A task's counts are the sums of its chunks."""
    sums = (
        select(
            issue_chunk.c.task_id,
            func.sum(issue_chunk.c.size).label("size"),
            func.sum(issue_chunk.c.granted).label("granted"),
            func.sum(issue_chunk.c.failed).label("failed"),
        )
        .group_by(issue_chunk.c.task_id)
        .subquery()
    )
    size, granted, failed = (func.coalesce(sums.c[name], 0) for name in ("size", "granted", "failed"))
    return (
        select(
            issue_task.c.id.label("subject"),
            issue_task.c.total,
            size.label("chunks_total"),
            issue_task.c.granted,
            granted.label("chunks_granted"),
            issue_task.c.failed,
            failed.label("chunks_failed"),
        )
        .outerjoin(sums, sums.c.task_id == issue_task.c.id)
        .where(or_(issue_task.c.total != size, issue_task.c.granted != granted, issue_task.c.failed != failed))
    )


def _issue_chunk() -> Select[Any]:
    """A chunk that is done has an outcome for each of its rows; one that is open has granted nothing."""
    chunk = issue_chunk.c
    done = chunk.granted + chunk.failed
    return select(
        (chunk.task_id + literal("/") + chunk.number.cast(Text)).label("subject"),
        chunk.state,
        chunk.size,
        chunk.granted,
        chunk.failed,
    ).where(or_(and_(chunk.state == "DONE", done != chunk.size), and_(chunk.state == "OPEN", chunk.granted != 0)))


def _issue_coupons() -> Select[Any]:
    """A task has granted the coupons of its campaign that name it as their source."""
    prefix = literal("issue:")
    made = (
        select(coupon.c.source, coupon.c.campaign_id, func.count().label("coupons"))
        .where(coupon.c.source.startswith("issue:"))
        .group_by(coupon.c.source, coupon.c.campaign_id)
        .subquery()
    )
    mine = and_(made.c.source == prefix + issue_task.c.id, made.c.campaign_id == issue_task.c.campaign_id)
    coupons = func.coalesce(made.c.coupons, 0)
    return (
        select(issue_task.c.id.label("subject"), issue_task.c.granted, coupons.label("coupons"))
        .outerjoin(made, mine)
        .where(issue_task.c.granted != coupons)
    )


def _issue_unfinished() -> Select[Any]:
    """What is done is done: every row has its outcome."""
    done = issue_task.c.granted + issue_task.c.failed
    return select(issue_task.c.id.label("subject"), issue_task.c.total, done.label("done")).where(
        issue_task.c.state == IssueState.DONE, done != issue_task.c.total
    )
