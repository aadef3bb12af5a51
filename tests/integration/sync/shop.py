"""The real server, one till's real file, and a line between them; orders are written as the till writes them."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select

from app.domain.basket import Line
from app.domain.facts import OrderFacts, Place
from app.domain.money import Currency
from app.domain.pricing import price
from app.domain.quote_json import write_line, write_quote
from app.services.ports import HoldGranted, HoldLine, HoldRequest, no_probe
from app.store.database import TillDatabase
from app.store.ledger import Stamp
from server.db import schema
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.head_office import ServerHeadOffice
from sync.identity import Identity
from tests.fakes.enrolled import NewTill
from tests.fakes.headquarters import Headquarters
from tests.fakes.transport import AsgiLine, FaultyTransport

PRICE_MINOR = 10_000
SHANGHAI = ZoneInfo("Asia/Shanghai")


def _mark(path: Path) -> Path:
    """Return the file beside the ledger that says how far it went."""
    return path.with_name(path.name + ".lock")


class Shop:
    """Hold both ends; one product A for 100.00, a member m1, a campaign c1 of 10.00 off."""

    def __init__(self, folder: Path, *, enrolled: bool = False) -> None:
        self.office_side = Headquarters(folder)
        self.office_side.furnish()
        self.office_side.call("POST", "/v1/products", [{"sku": "A", "price": "100.00"}], status=200)
        self.office_side.campaign("c1", per_member=100)
        self._app_key = self.office_side.new_key("app")
        self._ids = itertools.count(1)
        self._wire = AsgiLine(self.office_side.app)
        self.line = FaultyTransport(self._wire)
        self._key: str | Identity = (
            NewTill(self.office_side, self.line).enrol() if enrolled else self.office_side.new_key("till")
        )
        self._path, self._backup = folder / "t1.db", folder / "t1.backup.db"
        self._open(no_probe)

    def _open(self, probe: Callable[[str], None]) -> None:
        self.db = TillDatabase.open(self._path, till_id="t1", store_id="s1")
        client = ServerClient("http://server.test", self._key, transport=self.line)
        self.engine = SyncEngine(self.db, client, clock=self.office_side.clock, probe=probe)
        self.office = ServerHeadOffice(client, self.engine)

    def with_key(self, key: str) -> ServerHeadOffice:
        """Return a line of this till to the same server, with another key."""
        client = ServerClient("http://server.test", key, transport=self._wire)
        return ServerHeadOffice(client, SyncEngine(self.db, client, clock=self.office_side.clock))

    def restart(self, probe: Callable[[str], None] = no_probe) -> None:
        self.db.close()
        self._open(probe)

    def keep_a_copy(self) -> None:
        """Back the till's whole folder up, as whoever looks after the machine does."""
        with closing(sqlite3.connect(self._path)) as live, closing(sqlite3.connect(self._backup)) as copy:
            live.backup(copy)
        shutil.copy(_mark(self._path), _mark(self._backup))

    def go_back_to_the_copy(self) -> None:
        """Restore the backup under the till, and start it again."""
        self.db.close()
        for end in ("-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)
        shutil.copy(self._backup, self._path)
        shutil.copy(_mark(self._backup), _mark(self._path))
        self._open(no_probe)

    def close(self) -> None:
        self.db.close()
        self._wire.close()
        self.office_side.close()

    # -------------------------------------------------------------- at the server

    def claim(self) -> str:
        """Give m1 a coupon and return its id."""
        body = {"request": f"q{next(self._ids)}", "campaign": "c1", "member": "m1"}
        return str(self.office_side.call("POST", "/v1/claims", body, key=self._app_key, status=201)["coupon"])

    def coupon(self, coupon_id: str) -> str:
        return str(self.office_side.call("GET", f"/v1/coupons/{coupon_id}", status=200)["state"])

    def order(self, order_id: str) -> Mapping[str, Any]:
        return self.office_side.call("GET", f"/v1/orders/{order_id}", status=200)

    def findings(self) -> list[str]:
        kinds = select(schema.finding.c.kind).order_by(schema.finding.c.id)
        return self.office_side.database.read(lambda conn: list(conn.execute(kinds).scalars()))

    def server_entries(self) -> list[tuple[int, str]]:
        entry = schema.ledger_entry.c
        marks = select(entry.seq, entry.hash).order_by(entry.seq)
        return self.office_side.database.read(lambda conn: [(row.seq, row.hash.hex()) for row in conn.execute(marks)])

    # -------------------------------------------------------------- at the till

    def append(self, kind: str, order_id: str, *, attempt: int = 1, **data: Any) -> None:
        now = self.office_side.clock.now()
        body = {
            "order": order_id,
            "attempt": attempt,
            "at": now.isoformat(),
            "store": "s1",
            "till": "t1",
            "operator": "ann",
            **data,
        }
        with self.db.write() as tx:
            self.db.ledger.append(tx, kind, body, stamp=Stamp(f"e{next(self._ids):08d}", now, "ann"))

    def sell(self, order_id: str, *, sku: str = "A") -> None:
        """Sell one A without any right."""
        line = Line(number=1, sku=sku, price_minor=PRICE_MINOR, qty_milli=1000)
        facts = OrderFacts(order_id, (line,), Place("s1", SHANGHAI), self.office_side.clock.now())
        self._append_sale(order_id, write_quote(price(facts), Currency.of("CNY")), held=False, sku=sku)

    def sell_held(self, order_id: str, granted: HoldGranted) -> None:
        """Sell what was held."""
        self._append_sale(order_id, granted.quote, held=True, attempt=granted.attempt)

    def _append_sale(
        self, order_id: str, quote: Mapping[str, Any], *, held: bool, attempt: int = 1, sku: str = "A"
    ) -> None:
        self.append(
            "sale",
            order_id,
            attempt=attempt,
            held=held,
            member=quote["member"],
            lines=[write_line(Line(number=1, sku=sku, price_minor=PRICE_MINOR, qty_milli=1000))],
            quote=quote,
            tenders=[{"type": "cash", "amount_minor": quote["payable_minor"]}],
            change_minor=0,
            receipt=f"t1-1-{order_id}",
        )

    def give_up(self, order_id: str, attempt: int = 1) -> None:
        """Record that a hold got no answer."""
        self.append("cancel", order_id, attempt=attempt, reason="no_answer")

    def hold_request(self, order_id: str, use: Sequence[str], *, attempt: int = 1) -> HoldRequest:
        return HoldRequest(
            order_id=order_id,
            attempt=attempt,
            store_id="s1",
            member_id="m1",
            lines=(HoldLine(1, "A", 1000),),
            use=tuple(use),
            covers=(),
            stored_value_minor=0,
            promotions=True,
            payable_minor=PRICE_MINOR - 1000 * len(use),
        )

    def outbox(self) -> list[tuple[str, str]]:
        with self.db.read() as conn:
            rows = conn.exec_driver_sql("SELECT state, code FROM outbox ORDER BY seq")
            return [(row[0], row[1]) for row in rows]

    def till_entries(self) -> list[tuple[int, str]]:
        with self.db.read() as conn:
            return [(entry.seq, entry.hash.hex()) for entry in self.db.ledger.since(conn, 0, limit=10_000)]

    def coupon_here(self, coupon_id: str) -> str | None:
        with self.db.read() as conn:
            state = conn.exec_driver_sql("SELECT state FROM coupon WHERE id = ?", (coupon_id,)).scalar()
            return None if state is None else str(state)
