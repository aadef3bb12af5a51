"""Do what a scenario's steps say about coupons and campaigns: claim, storm, campaign, revoke, scan."""

import asyncio
from collections import Counter
from typing import Any

import httpx

from app.domain.refusals import Refusal
from app.services.ports import Busy, Offline
from server.scenario.comparing import Came
from server.scenario.server_part import request_for
from server.scenario.steps import Campaign, Claim, Revoke, Scan, Storm
from server.scenario.typing_modes import type_code
from server.scenario.values import NO_ANSWER, to_json
from server.scenario.world import World
from server.services import catalog

SOURCE = "app"
"""The same for every claim: the same request is the same claim, whichever way it comes in."""


def refusal_came(refusal: Refusal) -> Came:
    """Tell a refusal; its facts are for the explanation."""
    return {"outcome": refusal.code.value, "facts": dict(refusal.facts)}


def claim(world: World, args: Claim) -> Came:
    """Claim a coupon: straight at the server, or over a till's line with the key of the chain's own app.

    A till without a line gives it out itself, where it has leased some.
    """
    if args.till is not None:
        world.till(args.till).catch_up()
        if not world.till(args.till).head_office.online:
            return _given(world, args)
    body = {
        "request": args.request or f"claim-{world.ids.new()}",
        "campaign": args.campaign,
        "member": args.member,
        "source": SOURCE,
    }
    with world.server.fuse.lit():
        if args.till is None:
            answer = world.server.call("POST", "/v1/claims", key=world.keys.app, body=body)
        else:
            answer = world.till(args.till).app_client.post("/v1/claims", body)
    if isinstance(answer, Refusal):
        return refusal_came(answer)
    if args.name is not None:
        world.names.add(args.name, answer["coupon"], answer["code"])
    return {"outcome": "ok", "remaining": answer["remaining"]}


def _given(world: World, args: Claim) -> Came:
    request = args.request or f"claim-{world.ids.new()}"
    with world.acting(args.till) as part:
        given = part.till.give(request, args.campaign, args.member, source=SOURCE)
    if isinstance(given, Refusal):
        return refusal_came(given)
    if args.name is not None:
        world.names.add(args.name, given.coupon_id, given.code)
    return {"outcome": "ok"}


def storm(world: World, args: Storm) -> Came:
    """Let fresh members claim all at once, every request with an id of its own."""
    tag = f"storm-{world.ids.new()}"
    members = [f"{tag}-{number}" for number in range(args.members)]
    home = world.table.default_store
    world.server.services.write(
        lambda conn, ctx: [
            catalog.set_member(conn, ctx, member, tier="basic", home_store=home, label="") for member in members
        ]
    )
    asked = [
        request_for(
            "POST",
            "/v1/claims",
            key=world.keys.app,
            body={"request": f"{member}-{n}", "campaign": args.campaign, "member": member, "source": SOURCE},
        )
        for n in range(args.each)
        for member in members
    ]
    with world.server.fuse.lit():
        counts = world.server.loop.run(_all_at_once(world, asked, parallel=args.parallel))
    granted = counts.pop("ok", 0)
    return {"outcome": "ok", "granted": granted, "refused": dict(counts)}


async def _all_at_once(world: World, asked: list[httpx.Request], *, parallel: int) -> Counter[str]:
    """Send the requests, so many of them under way at once; count the outcomes."""
    gate = asyncio.Semaphore(parallel)

    async def one(request: httpx.Request) -> str:
        async with gate:
            try:
                answer = await world.server.ask(request)
            except httpx.TransportError:
                return NO_ANSWER
            return str(answer.json().get("outcome")) if answer.status_code != httpx.codes.INTERNAL_SERVER_ERROR else ""

    return Counter(await asyncio.gather(*(one(request) for request in asked)))


def campaign(world: World, args: Campaign) -> Came:
    """Let headquarters act."""
    path = f"/v1/campaigns/{args.id}"
    with world.server.fuse.lit():
        if args.action == "edit":
            answer = world.server.call("PATCH", path, key=world.keys.headquarters, body=to_json(args.changes))
        else:
            answer = world.server.call("POST", f"{path}/{args.action}", key=world.keys.headquarters, body={})
    return refusal_came(answer) if isinstance(answer, Refusal) else {"outcome": "ok"}


def revoke(world: World, args: Revoke) -> Came:
    """Let headquarters take a coupon back; a till that it is at home at gives it up behind its next sync."""
    path = f"/v1/coupons/{world.names.id(args.coupon)}/revoke"
    with world.server.fuse.lit():
        answer = world.server.call("POST", path, key=world.keys.headquarters, body={"reason": args.reason})
    return refusal_came(answer) if isinstance(answer, Refusal) else {"outcome": "ok", "state": answer["state"]}


def scan(world: World, args: Scan) -> Came:
    """Scan a code at a till."""
    till = world.till(args.till)
    till.catch_up()
    found = till.till.scan(type_code(world.names.code(args.code), args.typed))
    if found.refusal is not None:
        return refusal_came(found.refusal)
    kind = found.kind.value if found.kind else None
    return {"outcome": "ok", "kind": kind, "state": found.state, "sku": found.sku}


def trouble_came(trouble: Offline | Busy) -> Came:
    """Tell that the server could not be asked, or decided nothing."""
    facts: dict[str, Any] = {"reason": str(trouble)}
    return {"outcome": trouble.code.value if isinstance(trouble, Busy) else "needs_online", "facts": facts}
