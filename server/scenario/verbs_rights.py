"""Do what a scenario's steps say about rights, and about tills that lose them: lease, strand, revoke_till, judge."""

from dataclasses import asdict

from app.domain.refusals import Refusal
from app.domain.rights import stock_id, uses_id, value_id
from app.services.till import Till
from server.scenario.comparing import Came
from server.scenario.steps import Approve, CloseDay, Judge, Lease, Lost, Renew, RevokeTill, Unlease
from server.scenario.verbs_coupons import refusal_came
from server.scenario.world import World

REASON = "decided by a scenario"


def lease(world: World, args: Lease) -> Came:
    """Lend rights to a till, which asks for them itself."""
    with world.acting(args.till) as part:
        if args.coupon is not None:
            home = part.till.take_home(world.names.id(args.coupon))
            return refusal_came(home) if isinstance(home, Refusal) else {"outcome": "ok", "units": 1}
        if args.member is not None:
            amount = world.currency.parse(args.amount or "")
            if isinstance(amount, Refusal):
                return refusal_came(amount)
        else:
            amount = args.units or args.uses or 0
        lent = part.till.lease(_account(args), amount)
        return refusal_came(lent) if isinstance(lent, Refusal) else {"outcome": "ok", "units": lent.amount}


def unlease(world: World, args: Unlease) -> Came:
    """Let a till give rights back."""
    with world.acting(args.till) as part:
        refusal = _give_back(world, part.till, args)
    return refusal_came(refusal) if refusal is not None else {"outcome": "ok"}


def _give_back(world: World, till: Till, args: Unlease) -> Refusal | None:
    return till.return_home(world.names.id(args.coupon)) if args.coupon else till.unlease(_account(args))


def _account(args: Lease | Unlease) -> str:
    if args.campaign is not None:
        return stock_id(args.campaign)
    return uses_id(args.card) if args.card is not None else value_id(args.member or "")


def renew(world: World, args: Renew) -> Came:
    """Let a till look after its rights."""
    with world.acting(args.till) as part:
        done = part.till.renew_rights()
    return {"outcome": "ok", **asdict(done)}


def approve(world: World, args: Approve) -> Came:
    """Have a manager let an order use a coupon that the till has no right to."""
    with world.acting(args.till) as part:
        coupon_id = world.names.id(args.coupon)
        done = part.till.approve_risk(args.order, coupon_id, by=args.by, pin=args.pin, reason=args.reason)
    return refusal_came(done) if isinstance(done, Refusal) else {"outcome": "ok"}


def close_day(world: World, args: CloseDay) -> Came:
    """Let a till give everything back."""
    with world.acting(args.till) as part:
        done = part.till.close_day()
    return {"outcome": "ok", **asdict(done)}


def reclaim(world: World, args: Lost) -> Came:
    """Let headquarters take everything back from a till that it declares lost."""
    return _decide(world, args, "reclaim")


def strand(world: World, args: Lost) -> Came:
    """Let headquarters set aside what a till has that it declares lost."""
    return _decide(world, args, "strand")


def revoke_till(world: World, args: RevokeTill) -> Came:
    """Let headquarters take a till out of service."""
    return _decide(world, args, "revoke")


def judge(world: World, args: Judge) -> Came:
    """Let headquarters have judged what a revoked till told."""
    key, till_id = world.keys.headquarters, world.till(args.till).id
    word = {"by": "headquarters", "reason": REASON}
    with world.server.fuse.lit():
        listed = world.server.call("GET", "/v1/findings?state=OPEN&kind=revoked_till", key=key, body=None)
        assert not isinstance(listed, Refusal), "headquarters may list findings"
        for each in listed["findings"]:
            if each["detail"]["till"] == till_id:
                world.server.call("POST", f"/v1/findings/{each['id']}/judge", key=key, body=word)
    return {"outcome": "ok"}


def _decide(world: World, args: Lost | RevokeTill, what: str) -> Came:
    path = f"/v1/tills/{world.till(args.till).id}/{what}"
    with world.server.fuse.lit():
        answer = world.server.call("POST", path, key=world.keys.headquarters, body={"reason": REASON})
    return refusal_came(answer) if isinstance(answer, Refusal) else {"outcome": "ok"}
