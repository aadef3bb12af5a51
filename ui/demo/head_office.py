"""Look at the server from outside, as headquarters and the chain's app do: the story's own eyes, by the public API."""

from dataclasses import dataclass

from app.domain.refusals import Refusal
from sync.client import Json, ServerClient


@dataclass(frozen=True, slots=True)
class Claimed:
    """Name a coupon in somebody's hand."""

    id: str
    code: str
    member_id: str
    campaign_id: str


class HeadOfficeEyes:
    """Ask the server directly, past the cable of the till."""

    def __init__(self, headquarters: ServerClient, app: ServerClient) -> None:
        self._headquarters, self._app = headquarters, app

    def claim(self, campaign_id: str, member_id: str, request: str) -> Claimed | Refusal:
        """Claim a coupon on the member's phone."""
        body = {"request": request, "campaign": campaign_id, "member": member_id}
        answer = self._app.post("/v1/claims", body)
        if isinstance(answer, Refusal):
            return answer
        return Claimed(answer["coupon"], answer["code"], member_id, campaign_id)

    def coupon_state(self, coupon_id: str) -> str:
        """Return the coupon's state."""
        return str(self._must(self._headquarters.get(f"/v1/coupons/{coupon_id}"))["state"])

    def order(self, order_id: str) -> Json | None:
        """Return an order as the server has it; None where it has never heard of it."""
        answer = self._headquarters.get(f"/v1/orders/{order_id}")
        return None if isinstance(answer, Refusal) else answer

    def order_state(self, order_id: str) -> str:
        """Return the order's state, "unknown" where the server has never heard of it."""
        order = self.order(order_id)
        return str(order["state"]) if order is not None else "unknown"

    def payments(self, order_id: str) -> int:
        """Count how often the order was paid, by its history."""
        events = self._must(self._headquarters.get(f"/v1/orders/{order_id}/history"))["events"]
        return sum(event["to"] == "PAID" for event in events)

    def best_price(self, store_id: str, member_id: str, lines: list[Json], *, cards: list[Json]) -> str:
        """Return what the server finds a basket costs at best, as text in the chain's currency."""
        body = {"store": store_id, "member": member_id, "lines": lines, "cards": cards, "best": True}
        return str(self._must(self._app.post("/v1/quotes", body))["payable"])

    def findings(self) -> dict[str, int]:
        """Count the open findings by kind."""
        return dict(self._must(self._headquarters.get("/v1/findings"))["open"])

    @staticmethod
    def _must(answer: Json | Refusal) -> Json:
        assert not isinstance(answer, Refusal), f"the server refused the story's question: {answer}"
        return answer
