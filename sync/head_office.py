"""Ask the server what only the server may decide: rights for an order, returns, orders of other tills.

The four outcomes of a lost answer, and why none of them takes or gives a right twice. Every question carries an id that
was made and stored before it was asked (order and attempt; request), and the server keeps its first answer.

1. The request was lost: the server never heard of it. A hold: the till records `no_answer` with its attempt; the server
   writes that attempt off, and nothing else was there. A refund: asked again by the same id, decided then.
2. The answer was lost: the server has decided. A hold: the till's `no_answer` gives the rights back at the next push. A
   refund: asked again by the same id, the first answer comes again and nothing is given back twice.
3. The request arrived twice: the same order, attempt and content again get the first answer, also a refusal.
4. The request arrives late, when the till has long given it up: the attempt is written off already (`no_answer` came
   first), or a later attempt lives, and the server refuses the late one. A refund was asked again by its id meanwhile,
   so the late one gets that answer, which nobody reads.

A lease is asked for until there is an answer, as a refund is: the server keeps a refusal too, else a late copy of the
request would lend to a till that has given up. A coupon's home needs no id on disk: the feed tells it, by a version.

Before anything is asked, the server is told what it should know (`push_before_asking`): an order that was cancelled a
moment ago gives its coupon back before the next order asks for it.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from app.domain.basket import Cover
from app.domain.ports import UnderWay
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.ports import (
    HoldGranted,
    HoldLine,
    HoldRequest,
    HomeGranted,
    LeaseGranted,
    LeaseRequest,
    LineTrouble,
    Offline,
    RefundGranted,
    RefundRequest,
    SoldOrderView,
)
from sync.client import Json, ServerClient
from sync.engine import SyncEngine

T = TypeVar("T")

_FOR_A_PERSON = frozenset(LineTrouble)


class ServerHeadOffice:
    """Be the till's head office (`app.services.ports.HeadOffice`) over one client and one engine."""

    def __init__(self, client: ServerClient, engine: SyncEngine) -> None:
        self._client = client
        self._engine = engine

    @property
    def online(self) -> bool:
        """Tell whether the last contact succeeded. Never waits."""
        return self._engine.status.online

    @property
    def offline_since(self) -> datetime | None:
        """Tell since when no contact succeeds; None while online, or where there never was one in this run."""
        return self._engine.status.offline_since

    @property
    def trouble(self) -> LineTrouble | None:
        """Tell what keeps this till from syncing until a person sees to it; None also where the line is just down."""
        reason = self._engine.status.reason
        return LineTrouble(reason) if reason in _FOR_A_PERSON else None

    @property
    def under_way(self) -> UnderWay | None:
        """Tell how far a sync is that needs more than one request for a step, None where none is under way."""
        return self._engine.under_way

    def hold(self, request: HoldRequest) -> HoldGranted | Refusal:
        """Ask for the rights of an order, all or none. Raises Offline (held or not, who knows) and Busy (not yet)."""
        self._engine.push_before_asking()
        with self._engine.contact():
            answer = self._client.post(f"/v1/orders/{_segment(request.order_id)}/hold", _hold_body(request))
            return answer if isinstance(answer, Refusal) else _understood(_hold_granted, answer)

    def refund(self, request: RefundRequest) -> RefundGranted | Refusal:
        """Ask for the decision over a return. Raises Offline and Busy; ask again by the same id then.

        Not asked at all while we hold entries that the server has not seen, perhaps the very order: its "unknown" would
        be the answer to this request for good.
        """
        if not _may_be_id(request.order_id):
            return _no_order(request.order_id)
        if not self._engine.push_before_asking():
            raise Offline("not_all_pushed")
        with self._engine.contact():
            answer = self._client.post("/v1/refunds", _refund_body(request))
            return answer if isinstance(answer, Refusal) else _understood(_refund_granted, answer)

    def order(self, order_id: str) -> SoldOrderView | Refusal:
        """Look an order up; `unknown_code` where the server has never heard of it. Raises Offline and Busy."""
        if not _may_be_id(order_id):
            return _no_order(order_id)
        knows_all = self._engine.push_before_asking()
        with self._engine.contact():
            answer = self._client.get(f"/v1/orders/{_segment(order_id)}")
            if isinstance(answer, Refusal):
                if answer.code is RefusalCode.UNKNOWN_CODE and not knows_all:
                    raise Offline("not_all_pushed")
                return answer
            return _understood(_sold_order, answer)

    def lease(self, request: LeaseRequest) -> LeaseGranted | Refusal:
        """Ask for a lease. Raises Offline and Busy; ask again by the same id then."""
        kind, _, owner = request.account_id.partition(":")
        body: Json = {"lease": request.lease_id, "kind": kind, "of": owner, "amount": request.amount}
        if request.size != "asked":
            body["size"] = request.size
        with self._engine.contact():
            answer = self._client.post("/v1/leases", body)
            return answer if isinstance(answer, Refusal) else _understood(_lease_granted, answer)

    def take_home(self, request_id: str, coupon_id: str) -> HomeGranted | Refusal:
        """Ask to be a coupon's home. Raises Offline (perhaps we are; the feed will tell) and Busy."""
        with self._engine.contact():
            answer = self._client.post("/v1/homes", {"request": request_id, "coupon": coupon_id})
            return answer if isinstance(answer, Refusal) else _understood(_home_granted, answer)

    def bring_home(self, request_id: str) -> tuple[tuple[str, int], ...] | Refusal:
        """Ask for coupons of this store's members. Raises Offline (perhaps they come; the feed will tell) and Busy."""
        with self._engine.contact():
            answer = self._client.post("/v1/homes/of-members", {"request": request_id})
            return answer if isinstance(answer, Refusal) else _understood(_homes_granted, answer)

    def flush(self) -> None:
        """Push everything that is pending, now; return when the server has acknowledged it."""
        self._engine.push_now()

    def refresh(self) -> None:
        """Pull everything that changed, now; return when the till's copy has it."""
        self._engine.pull_now()


_ID = re.compile(r"(?!\.{1,2}$)[^\s/\x00-\x1f\x7f]{1,64}")
"""What an id may look like on the wire; a path cannot carry a slash, nor "." and ".."."""


def _may_be_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _no_order(order_id: str) -> Refusal:
    """Refuse what a person typed and what no order can be called, without troubling the server."""
    return refuse(RefusalCode.UNKNOWN_CODE, kind="order", id=order_id[:64])


def _segment(text: str) -> str:
    """Return an id as one segment of a path, whatever characters it has."""
    return quote(text, safe="")


def _understood(read: Callable[[Json], T], answer: Json) -> T:
    """Read an answer; one without what it must have is not ours, so nothing may be concluded from it."""
    try:
        return read(answer)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Offline("foreign_answer") from None


def _hold_body(request: HoldRequest) -> Json:
    return {
        "attempt": request.attempt,
        "store": request.store_id,
        "member": request.member_id,
        "lines": [_hold_line(line) for line in request.lines],
        "use": list(request.use),
        "cards": [_cover(cover) for cover in request.covers],
        "stored_value_minor": request.stored_value_minor,
        "promotions": request.promotions,
        "payable_minor": request.payable_minor,
    }


def _hold_line(line: HoldLine) -> Json:
    return {"number": line.number, "sku": line.sku, "qty_milli": line.qty_milli}


def _cover(cover: Cover) -> Json:
    return {"card": cover.card_id, "line": cover.line}


def _refund_body(request: RefundRequest) -> Json:
    lines = None if request.lines is None else [_refund_line(line) for line in request.lines]
    return {"request": request.request_id, "order": request.order_id, "lines": lines}


def _refund_line(line: RefundLine) -> Json:
    return {"number": line.number, "qty_milli": line.qty_milli}


def _hold_granted(answer: Json) -> HoldGranted:
    held_until_at = datetime.fromisoformat(answer["held_until_at"])
    if held_until_at.tzinfo is None:
        raise ValueError("an instant knows its offset")
    return HoldGranted(int(answer["attempt"]), held_until_at, _table(answer["quote"]))


def _refund_granted(answer: Json) -> RefundGranted:
    uses = {str(card): int(left) for card, left in answer["uses_after"].items()}
    return RefundGranted(_table(answer["refund"]), str(answer["state"]), uses)


def _lease_granted(answer: Json) -> LeaseGranted:
    amount = int(answer["amount"])
    if amount < 1:
        raise ValueError("a lease lends something")
    coupons = tuple((str(each["coupon"]), str(each["code"])) for each in _tables(answer["coupons"]))
    return LeaseGranted(amount, coupons)


def _home_granted(answer: Json) -> HomeGranted:
    return HomeGranted(int(answer["version"]))


def _homes_granted(answer: Json) -> tuple[tuple[str, int], ...]:
    return tuple((str(each["id"]), int(each["version"])) for each in _tables(answer["homes"]))


def _sold_order(answer: Json) -> SoldOrderView:
    return SoldOrderView(
        order_id=str(answer["order"]),
        state=str(answer["state"]),
        attempt=int(answer["attempt"]),
        lines=_tables(answer["lines"]),
        quote=_table(answer["quote"]),
        tenders=_tables(answer["tenders"]),
        refunds=_tables(answer["refunds"]),
    )


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("a table was expected")
    return value


def _tables(values: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(values, list):
        raise TypeError("a list was expected")
    return tuple(_table(value) for value in values)
