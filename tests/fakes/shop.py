"""A shop for tests: one till on a real file, a head office in memory, a terminal, and a clock that stands."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from app.domain.basket import Cover
from app.domain.tenders import Tender, TenderType
from app.services.api import BasketLine, BasketRequest, OpenOrder, PaidOrder
from app.services.opening import open_till
from app.services.ports import Busy, Offline, no_probe
from app.services.till import Till
from app.store.database import TillDatabase
from tests.fakes.clock import SetClock
from tests.fakes.head_office import Cable, FakeHeadOffice
from tests.fakes.memory_server import FakeServer
from tests.fakes.memory_world import CODE_KEY, NOON, FakeIds
from tests.fakes.terminal import FakeTerminal

K1, K2 = "9000000000000017", "9000000000000025"
"""Codes of coupons, with their check digits (Damm)."""


def cash(minor: int) -> Tender:
    return Tender(TenderType.CASH, minor)


def card(minor: int) -> Tender:
    return Tender(TenderType.CARD, minor)


def wallet(minor: int) -> Tender:
    return Tender(TenderType.WALLET, minor)


def value(minor: int) -> Tender:
    return Tender(TenderType.STORED_VALUE, minor)


def basket(*skus: str | tuple[str, int], **keys: Any) -> BasketRequest:
    """Make a basket of skus, one unit each, or (sku, thousandths)."""
    pairs = [(sku, 1000) if isinstance(sku, str) else sku for sku in skus]
    covers = tuple(Cover(*each) for each in keys.pop("covers", ()))
    lines = tuple(BasketLine(sku, milli) for sku, milli in pairs)
    return BasketRequest(keys.pop("member", None), lines, tuple(keys.pop("use", ())), covers, **keys)


class Shop:
    """Sell A at 100.00, B at 60.00, GUM at 0.02 and TEA by weight at 33.30 a kilogram."""

    def __init__(self, folder: Path, *, till_id: str = "T1", ids: str = "a") -> None:
        self.path = folder / "till.db"
        self.till_id = till_id
        self.clock = SetClock(NOON)
        self.server = FakeServer(self.clock)
        self.cable = Cable()
        self.terminal = FakeTerminal()
        self.ids = FakeIds(ids)
        self.probe: Any = no_probe
        self.server.product("A", 10_000, category="food", barcode="04006381333931")
        self.server.product("B", 6_000)
        self.server.product("GUM", 2)
        self.server.product("TEA", 3_330, by_weight=True)
        self.server.member("m1", balance_minor=5_000)
        self.till: Till = self.open()

    def coupon(self, coupon_id: str = "k1", code: str = K1, *, member: str | None = "m1", **rule: Any) -> None:
        """Give out a coupon of a campaign of its own, 10.00 off by default."""
        campaign = f"c-{coupon_id}"
        self.server.campaign(campaign, **{"benefit": {"type": "amount_off", "amount": "10.00"}, **rule})
        self.server.coupon(coupon_id, code, campaign, member=member)

    def _connect(self, database: TillDatabase) -> FakeHeadOffice:
        return FakeHeadOffice(self.server, database, self.cable)

    def _pass(self, point: str) -> None:
        self.probe(point)

    def open(self, **keys: Any) -> Till:
        """Open the till and bring it up to date, where the cable allows."""
        till = open_till(
            self.path,
            till_id=self.till_id,
            store_id="s1",
            clock=self.clock,
            ids=self.ids,
            code_key=CODE_KEY,
            connect=self._connect,
            payments=self.terminal,
            probe=self._pass,
            **keys,
        )
        till.operator = "amy"
        if self.cable.plugged and not till.database.damaged:
            till.head_office.refresh()
        self.till = till
        return till

    def restart(self, **keys: Any) -> Till:
        """Close and open again, as after a crash (SQLite keeps what was committed, and only that)."""
        self.till.close()
        return self.open(**keys)

    def close(self) -> None:
        self.till.close()

    def unplug(self) -> None:
        """Cut the cable, and let the till notice."""
        self.cable.plugged = False
        self.notice()

    def plug(self) -> None:
        self.cable.plugged = True
        self.notice()

    def notice(self) -> None:
        """Let the till try its line, as the sync does every few seconds."""
        with suppress(Offline, Busy):
            self.till.head_office.refresh()

    def sell(self, order_id: str, *skus: str | tuple[str, int], **keys: Any) -> PaidOrder:
        """Check a basket out and pay it; the test fails where either is refused."""
        tenders = keys.pop("tenders", None)
        stored = keys.pop("stored_value_minor", 0)
        opened = self.till.checkout(order_id, basket(*skus, **keys), stored_value_minor=stored)
        assert isinstance(opened, OpenOrder), opened
        paid = self.till.pay(order_id, tenders)
        assert isinstance(paid, PaidOrder), paid
        return paid

    def kinds(self) -> list[str]:
        """List the kinds of the ledger's entries."""
        with self.till.database.read() as conn:
            return [entry.kind for entry, _ in self.till.database.ledger.every(conn)]

    def verify(self) -> list[str]:
        with self.till.database.read() as conn:
            return self.till.database.ledger.verify(conn)
