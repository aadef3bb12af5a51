"""Give coupons that nobody claimed: to one member for a reason, and to whoever registers (REQUIREMENTS A1).

Both go through the one arbiter, so a gift has the same stock, limits and refusals as a claim.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from app.domain.refusals import Refusal, RefusalCode, refuse
from server.db import schema
from server.db.bulk import Present
from server.services import catalog
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.grants import Wanted, grant

GIFT, REGISTRATION = "gift", "registration"
_ANSWERED = Present(schema.request.c.id)


def give(conn: Connection, ctx: Context, member_id: str, *, campaign_id: str, request: str, reason: str) -> Answer:
    """Give the member one coupon of the campaign, once for each request; answers as a claim is answered."""
    assert reason.strip(), "a gift has a reason"
    return grant(conn, ctx, [Wanted(f"{GIFT}:{request}", campaign_id, member_id, GIFT, reason)])[0]


def register(
    conn: Connection,
    ctx: Context,
    member_id: str,
    *,
    tier: str,
    home_store: str,
    label: str,
    campaign_ids: Sequence[str] = (),
) -> Answer:
    """Set a member, and give one who is new a coupon of each campaign, in the same transaction.

    Answers with `gifts`, by campaign what a claim would be told; a gift that is refused makes nobody less a member.
    The same call again gets the same gifts; a campaign that the first call did not name is `not_allowed`, since its
    gift is for those who register.
    """
    member = schema.member.c.id
    new = conn.execute(select(member).where(member == member_id)).first() is None
    problem = catalog.set_member(conn, ctx, member_id, tier=tier, home_store=home_store, label=label)
    if isinstance(problem, Refusal):
        return refused(problem)
    wanted = [
        Wanted(f"{REGISTRATION}:{member_id}/{campaign_id}", campaign_id, member_id, REGISTRATION)
        for campaign_id in dict.fromkeys(campaign_ids)
    ]
    requests = {each.request for each in wanted}
    given = requests if new else _ANSWERED.among(conn, requests)
    answers = grant(conn, ctx, [each for each in wanted if each.request in given])
    gifts = {each.campaign_id: refused(_too_late(member_id)) for each in wanted if each.request not in given}
    gifts |= dict(zip([each.campaign_id for each in wanted if each.request in given], answers, strict=True))
    return ok(member=member_id, gifts=gifts)


def _too_late(member_id: str) -> Refusal:
    return refuse(RefusalCode.NOT_ALLOWED, member=member_id, reason="has registered before")
