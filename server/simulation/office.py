"""Be everybody who asks the server straight: customers in the chain's app, headquarters, its own jobs."""

import random
from typing import Any

from app.domain.refusals import Refusal, RefusalCode
from app.services.ports import Offline
from server.simulation import shop
from server.simulation.plan import Event
from server.simulation.stage import Desk, Part
from server.simulation.truth import Promise, hold

THINGS = ("life", "life", "stock", "total", "per member", "budget", "benefit", "price", "zone", "coins", "revoke")
ZONES = ("Asia/Shanghai", "America/New_York", "Pacific/Kiritimati")
Json = dict[str, Any]


class Office:
    """Act at the server of a chain. `claims` and `top_ups` are the requests that were made, by their ids."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.truth = desk, desk.truth
        self.claims: dict[str, Json] = {}
        self.top_ups: dict[str, tuple[str, str, int]] = {}
        """Requests that have no answer yet: of whom, how much in words and in minor units."""
        self.hinted: set[str] = {each.id for each in desk.table.campaign if each.arbiter == "redis"}
        """Campaigns that were ever on Redis: a no there may be out of date."""
        self._answers: dict[str, tuple[Json | Refusal, int]] = {}
        """What the first answer to a claim was, and when it came."""
        self.issues: dict[str, Json] = {}
        self.issued: dict[str, set[str]] = {}
        """What each batch issue that the server knows has given, as the members see it."""
        self._topped_up: dict[str, tuple[tuple[str, str, int], int]] = {}
        """What was topped up, and when the answer came."""

    def act(self, event: Event) -> None:
        """Do one thing, at this instant."""
        rng = random.Random(event.seed)
        match event.what:
            case "claim":
                self._claim(rng, event)
            case "top_up":
                self._top_up(rng, event)
            case "office":
                self._headquarters(rng)
            case "issue":
                self._issue(rng, event)
            case "jobs":
                self.jobs()

    def _order(self, method: str, path: str, body: Any) -> Json | Refusal | None:
        """Send an order of headquarters; None = no answer came."""
        try:
            return self.desk.ask_office(method, path, body)
        except Offline:
            return None

    # -------------------------------------------------------------- customers

    def _claim(self, rng: random.Random, event: Event) -> None:
        """Claim in the app, now and then under the id of an earlier claim."""
        if self.claims and rng.random() < 0.25:
            request = rng.choice(list(self.claims)[-20:])
        else:
            request = f"q{event.number}"
            campaigns = [each.id for each in self.desk.table.campaign if each.rule.get("kind") != "automatic"]
            campaign, member = rng.choice(campaigns), rng.choice(shop.MEMBERS)
            self.claims[request] = {"request": request, "campaign": campaign, "member": member, "source": "app"}
        self.ask_claim(request)

    def ask_claim(self, request: str) -> None:
        """Ask under an id; the customer has the coupon when the answer is there."""
        body = self.claims[request]
        try:
            answer = self.desk.ask_app("POST", "/v1/claims", body)
        except Offline:
            self.desk.note("app", "claim", "no answer")
            return
        self.desk.note("app", "claim", answer.code.value if isinstance(answer, Refusal) else "ok")
        granted = request in self._answers and not isinstance(self._answers[request][0], Refusal)
        is_hint = self.is_hint(request) and not granted
        if isinstance(answer, Refusal) and (answer.code is RefusalCode.BUSY or is_hint):
            return
        first, _ = self._answers.setdefault(request, (answer, self.desk.now_ms))
        hold(first == answer, "I10", f"{request} was answered {first}, then {answer}")
        if not isinstance(answer, Refusal):
            rule = next(each.rule for each in self.desk.table.campaign if each.id == body["campaign"])
            bearer = bool(rule.get("bearer"))
            promise = Promise(answer["coupon"], body["campaign"], body["member"], bearer, answer["code"])
            self.truth.promise(promise, now_ms=self.desk.now_ms)

    def is_hint(self, request: str) -> bool:
        """Tell whether a no to this claim may become a yes: never, where the database alone decides."""
        return self.claims[request]["campaign"] in self.hinted

    def switch(self, campaign: str, arbiter: str) -> None:
        """Let a campaign's claims be admitted by Redis, or not any more."""
        self.hinted.add(campaign)
        self._order("PATCH", f"/v1/campaigns/{campaign}", {"arbiter": arbiter})

    def _top_up(self, rng: random.Random, event: Event) -> None:
        minor = rng.choice([1000, 5000])
        self.top_ups[f"u{event.number}"] = (rng.choice(shop.MEMBERS), f"{minor // 100}.00", minor)
        self.ask_top_up(f"u{event.number}")

    def ask_top_up(self, request: str) -> None:
        """Top up under an id until there is an answer; the money was paid in before."""
        member, amount, minor = self.top_ups[request]
        answer = self._order("POST", f"/v1/members/{member}/top-ups", {"request": request, "amount": amount})
        self.desk.note("office", "top_up", "no answer" if answer is None else "ok")
        if answer is not None and not isinstance(answer, Refusal):
            if request not in self._topped_up:
                self.truth.pay_in(f"value:{member}", minor)
            self._topped_up[request] = (self.top_ups.pop(request), self.desk.now_ms)

    def set_back(self, since_ms: int) -> None:
        """Know of the server's loss: claims may get another answer, and money that was paid in is told again."""
        forgotten = {request for request, (_, at_ms) in self._answers.items() if at_ms >= since_ms}
        self._answers = {request: told for request, told in self._answers.items() if request not in forgotten}
        again = {request: of for request, (of, at_ms) in self._topped_up.items() if at_ms >= since_ms}
        self.top_ups |= again
        for request in again:
            self.ask_top_up(request)

    # -------------------------------------------------------------- headquarters

    def _headquarters(self, rng: random.Random) -> None:
        campaign = rng.choice(self.desk.table.campaign)
        path, choose = f"/v1/campaigns/{campaign.id}", rng.choice
        what = choose(THINGS)
        self.truth.edited.add(campaign.id)
        match what:
            case "life":
                step = choose(["pause", "resume", "resume", "resume", "end"]) if rng.random() < 0.2 else "resume"
                self._order("POST", f"{path}/{step}", {})
            case "stock":
                self._order("POST", f"{path}/stock", {"by": choose([-2, 1, 5])})
            case "total":
                self._order("PATCH", path, {"stock": choose([0, 1, 3, 10])})
            case "per member":
                self._order("PATCH", path, {"per_member": choose([1, 2, 5])})
            case "budget":
                # Also of a campaign that had none, whose discounts are on their way already.
                self._order("PATCH", path, {"budget": choose(["1.00", "5.00", "20.00", "500.00"])})
            case "benefit":
                self._order("PATCH", path, {"benefit": choose(shop.BENEFITS)})
            case "price":
                self._order("POST", "/v1/products", [{"sku": "A", "price": choose(shop.PRICES)}])
            case "zone":
                self._order("PUT", f"/v1/stores/{choose(['s1', 's2'])}", {"zone": choose(ZONES)})
            case "coins":
                coins = {"cash_rounding": choose(["0.00", "0.05", "1.00"]), "lock_timeout_s": 30}
                self._order("PUT", "/v1/chain", {"currency": "CNY", "zone": "Asia/Shanghai", **coins})
            case "revoke":
                self._revoke(rng)
        self.desk.note("office", "headquarters", what)

    def _issue(self, rng: random.Random, event: Event) -> None:
        """Give a coupon to each of many members, some of whom stand on the list twice; jobs work it off."""
        campaigns = [each.id for each in self.desk.table.campaign if each.rule.get("kind") != "automatic"]
        members = [rng.choice(shop.MEMBERS) for _ in range(rng.randint(1, 6))]
        task = f"b{event.number}"
        content = {"campaign": rng.choice(campaigns), "members": members, "chunk": rng.choice([1, 2, 200])}
        self.issues[task] = {"task": task, **content}
        self.ask_issue(task)

    def ask_issue(self, task: str) -> None:
        """Ask for a batch issue under its id, which may be known already."""
        answer = self._order("POST", "/v1/issues", self.issues[task])
        how = "no answer" if answer is None else answer.code.value if isinstance(answer, Refusal) else "ok"
        self.desk.note("office", "issue", how)
        if answer is not None and not isinstance(answer, Refusal):
            self.issued.setdefault(task, set())

    def _look_into_wallets(self) -> None:
        """Let the app show members what they were given in a batch."""
        for member in shop.MEMBERS:
            try:
                wallet = self.desk.ask_app("GET", f"/v1/members/{member}/coupons", None)
            except Offline:
                return
            assert not isinstance(wallet, Refusal), f"{member} is known"
            for each in wallet["coupons"]:
                coupon, task = each["coupon"], each["source"].removeprefix("issue:")
                seen = self.issued.setdefault(task, set()) if task in self.issues else {coupon}
                if coupon not in seen:
                    seen.add(coupon)
                    promise = Promise(coupon, each["campaign"], member, each["bearer"], each["code"])
                    self.truth.promise(promise, now_ms=self.desk.now_ms)
                    self.desk.note("app", "given in a batch", "seen")

    def count_issued(self) -> None:
        """Hold that a batch issue is done, or waits for its campaign, and says how many coupons it gave."""
        for task, coupons in self.issued.items():
            told = self._order("GET", f"/v1/issues/{task}", None)
            assert told is not None and not isinstance(told, Refusal), "nothing is wrong with the server any more"
            over = told["state"] == "DONE" and told["done"] == told["total"] == len(self.issues[task]["members"])
            hold(over or told["waiting_for"], "I10", f"the batch issue {task} is not done: {told}")
            hold(told["granted"] == len(coupons), "I10", f"{task} gave {told['granted']}, and {len(coupons)} are there")

    def _revoke(self, rng: random.Random) -> None:
        if self.truth.promised:
            name = rng.choice(list(self.truth.promised))
            answer = self._order("POST", f"/v1/coupons/{name}/revoke", {"reason": "a test"})
            if answer is None:
                self.truth.perhaps_revoke(name)
            elif not isinstance(answer, Refusal):
                self.truth.revoke(name, self.desk.now_ms)

    def reclaim(self, part: Part) -> None:
        """Declare a till lost, and take back what it may spend."""
        self.truth.disaster(part.id).reclaimed = True
        answer = self._order("POST", f"/v1/tills/{part.id}/reclaim", {"reason": "lost"})
        self.desk.note("office", "reclaim", "no answer" if answer is None else "ok")

    def strand(self, part: Part) -> None:
        """Declare a till lost, and set aside what it may spend."""
        self.truth.stranded.add(part.id)
        answer = self._order("POST", f"/v1/tills/{part.id}/strand", {"reason": "silent"})
        self.desk.note("office", "strand", "no answer" if answer is None else "ok")

    def found(self, part: Part) -> None:
        """Declare a till found again, lost or not."""
        answer = self._order("POST", f"/v1/tills/{part.id}/found", {"reason": "it speaks"})
        self.desk.note("office", "found", "no answer" if answer is None else "ok")

    def suspend(self, part: Part) -> None:
        """Let a till speak no more until it is resumed."""
        answer = self._order("POST", f"/v1/tills/{part.id}/suspend", {"reason": "a test"})
        self.desk.note("office", "suspend", "no answer" if answer is None else "ok")

    def resume(self, part: Part) -> None:
        """Let a till speak again."""
        self._order("POST", f"/v1/tills/{part.id}/resume", None)

    def end_waiting(self) -> None:
        """Wait no longer, after a restore, for tills whose ledger is not the server's: they will never tell."""
        told = self._order("GET", "/v1/restore", None)
        assert told is not None and not isinstance(told, Refusal), "nothing is wrong with the server any more"
        for till_id in told["waiting_for"]:
            lost = self.truth.disaster_of(till_id).since_ms is not None
            hold(lost, "I16", f"{till_id} has told all, and the server waits for it")
            self._order("POST", f"/v1/tills/{till_id}/write-off", {"reason": "it does not come back"})
            self.desk.note("office", "write_off", "ok")

    def jobs(self) -> None:
        """Let the server walk its patrols, and work off what is to be issued."""
        self.desk.run_jobs()
        if self.issues:
            self._look_into_wallets()
