"""Prove what a sale left behind: at the server, in the database, and by the audit as a command."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from server.db import schema
from server.services import accounts
from server.services.context import Context
from tests.faults.callers import Crowd, Heard
from tests.faults.shop import CAMPAIGN, TASK, Shop

PATIENCE_S = 150.0


@dataclass(slots=True)
class Outcome:
    """Hold the sums of a sale; all but `granted` ought to be 0.

    `lost` counts grants that were told and are not there (or are another coupon), `doubled` coupons beyond what a
    request, a member or the stock may have, `untold` coupons of which the claimant was told the contrary, `stranded`
    units that nobody can get. `broken` counts answers that no server should give (5xx but 503). `healed_s`: how long
    after the last claim everything that was left could be had; `slowest_s`: the longest that an answer took.
    """

    granted: int = 0
    lost: int = 0
    doubled: int = 0
    untold: int = 0
    stranded: int = 0
    broken: int = 0
    healed_s: float = 0.0
    slowest_s: float = 0.0
    audit: str = ""
    troubles: Counter[str] = field(default_factory=Counter)

    @property
    def clean(self) -> bool:
        """Tell whether every promise was kept."""
        return not (self.lost or self.doubled or self.untold or self.stranded or self.broken or self.audit)


def prove(shop: Shop, heard: Heard) -> Outcome:
    """Ask about every claim again, take what is left, stop the server, and compare with the database."""
    found = Outcome(troubles=heard.troubles, slowest_s=heard.slowest_s)
    found.broken = sum(count for word, count in heard.troubles.items() if word.isdecimal() and "500" <= word != "503")
    asked = dict(shop.sale.asked())
    crowd = Crowd(lambda: shop.port, shop.app_key, CAMPAIGN)
    again = crowd.ask([(request, asked[request]) for request in heard.granted()], patience_s=PATIENCE_S)
    for request in heard.granted():
        # One coupon, and the same however often it was told.
        found.lost += again.outcomes[request] != "ok"
        found.doubled += len(heard.coupons[request] | again.coupons[request]) - 1
    spare = _take_what_is_left(shop, found)
    shop.stop()
    told = {coupon for each in (heard, *spare) for coupons in each.coupons.values() for coupon in coupons}
    with shop.services() as services:
        services.read(lambda conn, ctx: _compare(conn, ctx, told=told, shop=shop, found=found))
    found.audit = shop.audit()
    return found


def _take_what_is_left(shop: Shop, found: Outcome) -> list[Heard]:
    """Claim for members who have nothing until nothing is left; what stays out of reach is stranded."""
    heard: list[Heard] = []
    began_s, came = time.monotonic(), 0
    shop.resume_task()
    if shop.sale.listed:
        shop.until(lambda: shop.ask("GET", f"/v1/issues/{TASK}")["state"] == "DONE", "the batch never ends")
    while True:
        stock = shop.stock()
        left = stock["available"] + stock["reserved"]
        if left <= 0 or time.monotonic() - began_s > PATIENCE_S:
            break
        # Members who were refused come again under a new request: at first perhaps nothing is to be had.
        claims = [(f"{request}-{came}", member) for request, member in shop.sale.spare(0, left)]
        crowd = Crowd(lambda: shop.port, shop.app_key, CAMPAIGN)
        heard.append(crowd.ask(claims, patience_s=PATIENCE_S))
        came += 1
        if not heard[-1].granted():
            time.sleep(0.2)
    found.healed_s = time.monotonic() - began_s
    found.stranded = max(left, 0)
    return heard


def _compare(conn: Connection, _ctx: Context, *, told: set[str], shop: Shop, found: Outcome) -> None:
    coupon, sale = schema.coupon, shop.sale
    rows = conn.execute(select(coupon).where(coupon.c.campaign_id == CAMPAIGN)).all()
    held = Counter(row.member_id for row in rows)
    account = accounts.read(conn, [accounts.stock_id(CAMPAIGN)])[accounts.stock_id(CAMPAIGN)]
    found.granted = len(rows)
    found.lost += len(told - {row.id for row in rows})
    found.doubled += sum(max(0, count - sale.limit) for count in held.values())
    found.doubled += max(0, len(rows) - sale.stock) + abs(len(rows) - account.spent)
    found.untold = len({row.id for row in rows if row.source == "app"} - told)
