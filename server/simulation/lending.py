"""Move rights between a till and the server as its people and its own upkeep do: leases, homes, coupons given out."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields

from app.domain.refusals import Refusal
from app.services.api import GivenCoupon
from server.simulation import shop
from server.simulation.plan import Event
from server.simulation.stage import Part, Stage, print_receipt
from server.simulation.truth import AskedGift, Promise, hold


@dataclass(frozen=True, slots=True)
class OwnRights:
    """List what a till may spend by itself: campaigns' stock, value by member (minor units), cards' uses, coupons."""

    campaigns: list[str]
    members: Mapping[str, int]
    cards: list[str]
    coupons: list[str]

    @property
    def any(self) -> bool:
        """Tell whether there is something that a sale may draw on."""
        return bool(self.members or self.cards or self.coupons)


class Lending:
    """Act on the rights of every till of a chain."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.truth = stage, stage.truth
        self._taken: list[tuple[str, str]] = []
        """Coupons that a till was told to be the home of, each with that till."""

    def at_home_elsewhere(self, part: Part) -> list[str]:
        """List the coupons that went home to another till lately."""
        return [coupon_id for coupon_id, till_id in self._taken[-4:] if till_id != part.id]

    def own_rights(self, part: Part) -> OwnRights:
        """Look what a till may spend by itself, as its cashier does who wants to sell without a line."""
        with part.database.read() as conn:
            leases = conn.exec_driver_sql(
                "SELECT account_id, sum(qty - used - held) FROM lease "
                "WHERE state = 'OPEN' AND used + held < qty GROUP BY 1 ORDER BY 1"
            ).fetchall()
            coupons = conn.exec_driver_sql("SELECT coupon_id FROM home WHERE state = 'HOME' ORDER BY 1").fetchall()
        by_kind: dict[str, dict[str, int]] = {"stock": {}, "value": {}, "uses": {}, "budget": {}}
        for account_id, left in leases:
            kind, _, owner = account_id.partition(":")
            by_kind[kind][owner] = left
        stock, value, uses = (by_kind[kind] for kind in ("stock", "value", "uses"))
        return OwnRights(list(stock), value, list(uses), [row[0] for row in coupons])

    def _give(self, part: Part, rng: random.Random, event: Event) -> None:
        """Give a coupon out at the counter, or ask again for one whose code nobody has seen."""
        waiting = self.wanted_gifts(part)
        if waiting and rng.random() < 0.5:
            self.ask_gift(part, rng.choice(waiting))
            return
        campaigns = [each.id for each in self.stage.table.campaign if each.rule.get("kind") != "automatic"]
        lent = self.own_rights(part).campaigns
        campaign = rng.choice(lent if lent and rng.random() < 0.8 else campaigns)
        self.truth.want(f"g{event.number}", AskedGift(part.id, campaign, rng.choice(shop.MEMBERS)))
        self.ask_gift(part, f"g{event.number}")

    def wanted_gifts(self, part: Part) -> list[str]:
        """List the requests of coupons that have no answer at this till."""
        return [request for request, gift in self.truth.gifts.items() if gift.till_id == part.id]

    def ask_gift(self, part: Part, request: str) -> None:
        """Ask the till for a coupon under an id; the customer has it when the answer is there."""
        gift = self.truth.gifts[request]
        campaign, member = gift.campaign_id, gift.member_id
        done = part.till.give(request, campaign, member)
        if not isinstance(done, GivenCoupon):
            self.stage.note(part.id, "give", done.code.value)
            self.truth.answered(request)
            return
        self.stage.note(part.id, "give", "ok")
        if part.line.rng.random() < 0.1:
            again = part.till.give(request, campaign, member)
            hold(again == done, "I10", f"{request} was answered {done}, and then {again}")
        bearer = bool(next(each.rule for each in self.stage.table.campaign if each.id == campaign).get("bearer"))
        promise = Promise(done.coupon_id, campaign, member, bearer, done.code)
        self.truth.promise(promise, till_id=part.id, now_ms=self.stage.now_ms)
        self.truth.answered(request)

    def _account(self, rng: random.Random) -> tuple[str, int]:
        campaigns = self.stage.table.campaign
        match rng.choice(["stock", "stock", "value", "value", "uses", "uses", "budget"]):
            case "stock":
                return f"stock:{rng.choice(campaigns).id}", rng.choice([1, 3, 10])
            case "value":
                return f"value:{rng.choice(shop.MEMBERS)}", rng.choice([2000, 10000, 20000])
            case "uses":
                return f"uses:{rng.choice(shop.CARDS)[0]}", rng.choice([1, 2, 5])
        budgets = [each.id for each in campaigns if "budget" in each.rule] or [campaigns[0].id]
        return f"budget:{rng.choice(budgets)}", rng.choice([300, 2000])

    def _lease(self, part: Part, rng: random.Random, _event: Event) -> None:
        account_id, amount = self._account(rng)
        done = part.till.lease(account_id, amount)
        kind = account_id.partition(":")[0]
        self.stage.note(part.id, f"lease {kind}", done.code.value if isinstance(done, Refusal) else "granted")

    def _unlease(self, part: Part, rng: random.Random, _event: Event) -> None:
        with part.database.read() as conn:
            rows = conn.exec_driver_sql(
                "SELECT DISTINCT account_id FROM lease WHERE state = 'OPEN' ORDER BY 1"
            ).fetchall()
        if rows:
            done = part.till.unlease(rng.choice(rows)[0])
            self.stage.note(part.id, "unlease", "ok" if done is None else done.code.value)

    def _resume(self, part: Part, _rng: random.Random, _event: Event) -> None:
        for done in part.till.resume_leases():
            self.stage.note(part.id, "resume", done.code.value if isinstance(done, Refusal) else "granted")
        for refund in part.till.resume_refunds():
            self.truth.refund(refund, part.id)
            print_receipt(part, refund)

    def _renew(self, part: Part, _rng: random.Random, _event: Event) -> None:
        """Let the till look after its rights by itself, as it does behind each session."""
        done = part.till.renew_rights()
        for what in (each.name for each in fields(done)):
            if getattr(done, what):
                self.stage.note(part.id, "renew", what)

    def _close_day(self, part: Part, _rng: random.Random, _event: Event) -> None:
        done = part.till.close_day()
        how = [each.name for each in fields(done) if getattr(done, each.name)]
        self.stage.note(part.id, "close_day", " ".join(how) or "nothing")

    def _take_home(self, part: Part, rng: random.Random, _event: Event) -> None:
        if self.truth.promised:
            coupon_id = rng.choice(list(self.truth.promised)[-40:])
            done = part.till.take_home(coupon_id)
            if not isinstance(done, Refusal):
                self._taken.append((coupon_id, part.id))
            self.stage.note(part.id, "take_home", done.code.value if isinstance(done, Refusal) else "ok")

    def _return_home(self, part: Part, rng: random.Random, _event: Event) -> None:
        with part.database.read() as conn:
            rows = conn.exec_driver_sql("SELECT coupon_id FROM home WHERE state = 'HOME' ORDER BY 1").fetchall()
        if rows:
            done = part.till.return_home(rng.choice(rows)[0])
            self.stage.note(part.id, "return_home", "ok" if done is None else done.code.value)
