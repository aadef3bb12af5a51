"""Open the real till of a bench: every part is that of a shop, only the server is out of reach."""

from datetime import datetime

from app.domain.refusals import Refusal
from app.services.opening import open_till
from app.services.ports import (
    HoldGranted,
    HoldRequest,
    Offline,
    RefundGranted,
    RefundRequest,
    SoldOrderView,
)
from app.services.system import SystemClock, SystemIds
from app.services.till import Till
from cli.no_terminal import NoTerminal
from tests.bench.till_data import CODE_KEY, STORE_ID, TILL_ID, Shop


class OutOfReach:
    """Be a head office that cannot be reached."""

    online = False
    offline_since: datetime | None = None

    def hold(self, request: HoldRequest) -> HoldGranted | Refusal:
        raise Offline("unreachable")

    def refund(self, request: RefundRequest) -> RefundGranted | Refusal:
        raise Offline("unreachable")

    def order(self, order_id: str) -> SoldOrderView | Refusal:
        raise Offline("unreachable")

    def flush(self) -> None:
        raise Offline("unreachable")

    def refresh(self) -> None:
        raise Offline("unreachable")


def open_bench_till(shop: Shop) -> Till:
    """Open the till on a database that `make_shop` made; whoever opens it closes it."""
    till = open_till(
        shop.path,
        till_id=TILL_ID,
        store_id=STORE_ID,
        clock=SystemClock(),
        ids=SystemIds(),
        code_key=CODE_KEY,
        connect=lambda database: OutOfReach(),
        payments=NoTerminal(),
    )
    till.operator = "bench"
    return till
