"""Ask the server straight, as the chain's app and as headquarters do: each caller from a thread of its own."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import httpx

from app.domain.refusals import Refusal
from app.services.ports import Offline
from server.scenario.server_part import Unasked
from server.simulation.office import Office
from server.simulation.plan import Event
from server.simulation.truth import Broken
from tests.chaos.counter import Place
from tests.chaos.memory import WrittenTruth
from tests.chaos.world import Ground
from tests.faults.mortal_server import MortalServer

WEIGHTS = {"claim": 30, "top_up": 5, "office": 3, "plenty": 1}
ANSWER_S = 8.0
PACE_S = 0.4
"""Between two calls of one caller, on average."""
OF_CALLER = 100_000_000
"""Numbers that are one caller's: what they name is never named again."""
LATER = frozenset({429, 503})


class Desk(Place):
    """Be what callers see of the chain: the server, wherever it is now."""

    def __init__(self, ground: Ground, truth: WrittenTruth, server: MortalServer, keys: tuple[str, str]) -> None:
        super().__init__(ground, truth, diary=lambda line: None)
        self._server, self._keys = server, keys
        self._http = httpx.Client(verify=server.trust() or True, timeout=ANSWER_S, trust_env=False)

    def ask_app(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask as the chain's app; raises Offline for no answer."""
        return self._ask(method, path, body, key=self._keys[0])

    def ask_office(self, method: str, path: str, body: Any) -> dict[str, Any] | Refusal:
        """Ask as headquarters; raises Offline for no answer."""
        return self._ask(method, path, body, key=self._keys[1])

    def run_jobs(self) -> None:
        """Do nothing: the server's jobs run by themselves."""

    def _ask(self, method: str, path: str, body: Any, *, key: str) -> dict[str, Any] | Refusal:
        if self._server.port is None:
            raise Offline("closed")
        try:
            headers = {"authorization": f"Bearer {key}"}
            answer = self._http.request(method, f"{self._server.address}{path}", headers=headers, json=body)
            data = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Offline(type(error).__name__) from None
        if answer.status_code in LATER:
            raise Offline("busy")
        if answer.is_success:
            return dict(data)
        if "outcome" not in data:
            raise Unasked(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return Refusal.from_json({"code": data["outcome"], "facts": data.get("facts", {})})

    def close(self) -> None:
        """Close its lines."""
        self._http.close()


class Caller(Office):
    """Call until told to stop; every wish is written down before it is sent."""

    truth: WrittenTruth

    def __init__(self, desk: Desk, name: str, number: int) -> None:
        super().__init__(desk)
        self._desk, self._name, self._number = desk, name, number * OF_CALLER
        self._by_redis = {each.id for each in desk.table.campaign if each.arbiter == "redis"}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._call, name=name, daemon=True)
        self.bugs: list[str] = []

    def start(self) -> None:
        """Begin to call."""
        self._thread.start()

    def stop(self) -> None:
        """Stop calling."""
        self._stopping.set()
        self._thread.join(60)

    def ask_claim(self, request: str) -> None:
        """Claim under an id."""
        self.truth.journal.add("claims", request=request, claim=self.claims[request])
        super().ask_claim(request)

    def is_hint(self, request: str) -> bool:
        """Tell whether a no to this claim may become a yes: what Redis refuses is not kept (PROTOCOL 3.4)."""
        return self.claims[request]["campaign"] in self._by_redis

    def ask_top_up(self, request: str) -> None:
        """Top up under an id."""
        self.truth.journal.add("tops up", request=request, top_up=self.top_ups[request])
        super().ask_top_up(request)

    @property
    def seen(self) -> Counter[str]:
        """Return how its calls ended."""
        return self._desk.seen

    def finish(self) -> list[str]:
        """Ask again whatever was asked, for when all is healed; return what is wrong with the answers."""
        deadline_s = time.monotonic() + 60
        while self.top_ups and time.monotonic() < deadline_s:
            for request in list(self.top_ups):
                self.ask_top_up(request)
        wrong = [f"{self._name}: {request} was never answered" for request in self.top_ups]
        for request in self.claims:
            try:
                self.ask_claim(request)
            except Broken as broken:
                wrong.append(f"{self._name}: {broken}")
        self._desk.close()
        return wrong

    def _call(self) -> None:
        number = self._number
        chance = random.Random(f"caller {self._number}")
        while not self._stopping.is_set():
            number += 1
            self.truth.follow()
            what = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            try:
                if what == "plenty":
                    self._plenty(chance)
                else:
                    self.act(Event(number, 0, what, 0, chance.getrandbits(32)))
            except Broken as broken:
                self.truth.journal.add("broken", who=self._name, text=str(broken))
            except Exception as bug:
                self.bugs.append(f"{self._name}: {what}: {type(bug).__name__}: {bug}")
            self._stopping.wait(chance.expovariate(1 / PACE_S))

    def _plenty(self, chance: random.Random) -> None:
        """Let a campaign go on that headquarters made small."""
        campaign = chance.choice(self.desk.table.campaign)
        self._order("PATCH", f"/v1/campaigns/{campaign.id}", {"stock": 5000, "per_member": 2000})
        self._order("POST", f"/v1/campaigns/{campaign.id}/resume", {})
