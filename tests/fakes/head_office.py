"""One till's line to the server in memory, as `sync.head_office` is to the real one, and the cable between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.ports import UnderWay
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.ports import (
    Busy,
    HoldGranted,
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
from app.store import feed, meta
from app.store.database import TillDatabase
from tests.fakes.memory_server import FakeServer

Json = dict[str, Any]


@dataclass
class Cable:
    """What lies between: `plugged` False cuts it; `lose` answers get lost after the server has acted; `busy` times the
    server says so instead."""

    plugged: bool = True
    lose: int = 0
    busy: int = 0

    def carry(self, ask: Callable[[], Any]) -> Any:
        if not self.plugged:
            raise Offline("unplugged")
        if self.busy:
            self.busy -= 1
            raise Busy(7.0)
        answer = ask()
        if self.lose:
            self.lose -= 1
            raise Offline("lost")
        return answer


class FakeHeadOffice:
    """One till's line to a `FakeServer`."""

    def __init__(self, server: FakeServer, database: TillDatabase, cable: Cable) -> None:
        self.server, self.database, self.cable = server, database, cable
        self.online = False
        self.offline_since: datetime | None = None
        self.trouble: LineTrouble | None = None
        self.under_way: UnderWay | None = None

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            answer = self.cable.carry(ask)
        except Offline:
            if self.online or self.offline_since is None:
                self.offline_since = self.server.clock.now()
            self.online = False
            raise
        self.online, self.offline_since = True, None
        return answer

    def hold(self, request: HoldRequest) -> HoldGranted | Refusal:
        answer: HoldGranted | Refusal = self._call(lambda: self.server.hold(request))
        return answer

    def refund(self, request: RefundRequest) -> RefundGranted | Refusal:
        answer: RefundGranted | Refusal = self._call(lambda: self.server.refund(request))
        return answer

    def lease(self, request: LeaseRequest) -> LeaseGranted | Refusal:
        till_id = self.database.ledger.till_id
        answer: LeaseGranted | Refusal = self._call(lambda: self.server.lend(till_id, request))
        return answer

    def take_home(self, request_id: str, coupon_id: str) -> HomeGranted | Refusal:
        till_id = self.database.ledger.till_id
        answer: HomeGranted | Refusal = self._call(lambda: self.server.take_home(till_id, coupon_id))
        return answer

    def bring_home(self, request_id: str) -> tuple[tuple[str, int], ...] | Refusal:
        till_id = self.database.ledger.till_id
        answer: tuple[tuple[str, int], ...] = self._call(lambda: self.server.bring_home(till_id))
        return answer

    def order(self, order_id: str) -> SoldOrderView | Refusal:
        answer: SoldOrderView | Refusal = self._call(lambda: self._view(order_id))
        return answer

    def _view(self, order_id: str) -> SoldOrderView | Refusal:
        order = self.server.orders.get(order_id)
        if order is None:
            return refuse(RefusalCode.UNKNOWN_CODE, kind="order", id=order_id)
        return SoldOrderView(
            order.id,
            order.state,
            order.attempt,
            lines=tuple(order.lines),
            quote=order.quote,
            tenders=tuple(order.tenders),
            refunds=tuple(order.refunds),
        )

    def flush(self) -> None:
        ledger = self.database.ledger
        while True:
            with self.database.write() as tx:
                known = meta.load(tx)
                entries = ledger.since(tx, known.acked_seq, limit=200)
                if entries:
                    meta.put(tx, sent_seq=max(known.sent_seq, entries[-1].seq))
            if not entries:
                return
            sent = list(entries)
            results = self._call(lambda: [self.server.take_in(ledger.till_id, entry) for entry in sent])  # noqa: B023
            with self.database.write() as tx:
                ledger.settle(tx, sent[-1].seq, [each for each in results if each.state != "ACKNOWLEDGED"])
                meta.put(tx, acked_seq=sent[-1].seq, acked_hash=sent[-1].hash.hex())

    def refresh(self) -> None:
        with self.database.read() as conn:
            cursor = meta.load(conn).cursor
        changes = self._call(lambda: self.server.changes[cursor:])
        now_ms = meta.instant_ms(self.server.clock.now())
        with self.database.write() as tx:
            feed.apply(tx, changes, cursor + len(changes))
            meta.put(tx, last_sync_at_ms=now_ms, time_floor_ms=now_ms)
