"""Be headquarters: pause and edit campaigns, change prices, coins and zones, top up, revoke, at any moment."""

from __future__ import annotations

import itertools
import random
from typing import Any

from app.domain.refusals import Refusal
from app.services.ports import Offline
from server.scenario.world import World
from tests.simulation import shop
from tests.simulation.books import Books

THINGS = ("life", "stock", "total", "per member", "budget", "benefit", "price", "zone", "coins", "top up", "revoke")
ZONES = ("Asia/Shanghai", "America/New_York", "Pacific/Kiritimati")


class Office:
    """Give one order at a time over the server's HTTP interface."""

    def __init__(self, world: World, rng: random.Random, books: Books) -> None:
        self._world, self._rng, self._books = world, rng, books
        self._requests = itertools.count(1)

    def act(self) -> str:
        """Do one thing; returns what."""
        campaign = self._rng.choice(self._world.table.campaign)
        path, choose = f"/v1/campaigns/{campaign.id}", self._rng.choice
        what = choose(THINGS)
        match what:
            case "life":
                self._order("POST", f"{path}/{choose(['pause', 'resume', 'resume', 'end'])}", {})
            case "stock":
                self._order("POST", f"{path}/stock", {"by": choose([-2, 1, 5])})
            case "total":
                self._order("PATCH", path, {"stock": choose([0, 1, 3, 10])})
            case "per member":
                self._order("PATCH", path, {"per_member": choose([1, 2, 5])})
            case "budget":
                # Also of a campaign that had none, whose discounts are on their way already.
                self._order("PATCH", path, {"budget": choose(["1.00", "5.00", "20.00", "50.00"])})
            case "benefit":
                self._order("PATCH", path, {"benefit": choose(shop.BENEFITS)})
            case "price":
                self._order("POST", "/v1/products", [{"sku": "A", "price": choose(shop.PRICES)}])
            case "zone":
                self._order("PUT", f"/v1/stores/{choose(['s1', 's2'])}", {"zone": choose(ZONES)})
            case "coins":
                coins = {"cash_rounding": choose(["0.00", "0.05", "1.00"]), "lock_timeout_s": 30}
                self._order("PUT", "/v1/chain", {"currency": "CNY", "zone": "Asia/Shanghai", **coins})
            case "top up":
                top_up = {"request": f"u{next(self._requests)}", "amount": "10.00"}
                self._order("POST", f"/v1/members/{choose(shop.MEMBERS)}/top-ups", top_up)
            case "revoke":
                self._revoke()
        return what

    def _order(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal | None:
        """Send the order; None = no answer came."""
        try:
            return self._world.server.call(method, path, key=self._world.keys.headquarters, body=body)
        except Offline:
            return None

    def _revoke(self) -> None:
        if self._books.promised:
            name = self._rng.choice(list(self._books.promised))
            answer = self._order("POST", f"/v1/coupons/{name}/revoke", {"reason": "a test"})
            if answer is None:
                self._books.perhaps_revoked.add(name)
            elif not isinstance(answer, Refusal):
                self._books.revoked.add(name)
