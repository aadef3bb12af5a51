"""A shop whose parts are real processes: one server or several, its database, its Redis; each may be killed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import URL, Connection, insert

from server.code_key import FILE_NAME, load_code_key
from server.db import schema
from server.provision import ChainPlan, provision
from server.services import campaigns, catalog, issues, keys
from server.services.context import Context
from tests.faults.mortal_server import MortalServer

CAMPAIGN, TASK = "flash", "t1"
SPARE = 400
"""Members who come when the fault is over, and take what is left."""


@dataclass(frozen=True, slots=True)
class Sale:
    """Size a sale: each member asks `tries` times under request ids of its own, and may have `limit` coupons.

    `listed` members get one by a batch issue of the same campaign, which runs beside the claims.
    """

    stock: int = 260
    members: int = 150
    tries: int = 3
    limit: int = 2
    listed: int = 0
    arbiter: str = "redis"

    def asked(self) -> list[tuple[str, str]]:
        """Return the claims: (request, member), the tries of a member close together."""
        return [(f"m{n}-{k}", f"m{n}") for n in range(self.members) for k in range(self.tries)]

    def spare(self, start: int, count: int) -> list[tuple[str, str]]:
        """Return claims of members who have not asked before."""
        return [(f"spare{n}", f"spare{n}") for n in range(start, start + count)]


class Shop(MortalServer):
    """Hold one sale's servers and database. `url` None = SQLite in the folder; `settings` are PAWTILL_ variables.

    `weak` names the guards that its servers run without (`weakened.py`), for controls.
    """

    def __init__(
        self,
        folder: Path,
        sale: Sale,
        *,
        url: URL | None = None,
        settings: dict[str, str],
        weak: tuple[str, ...] = (),
    ) -> None:
        module = "tests.faults.weakened" if weak else "cli.main"
        super().__init__(folder, url=url, settings={"PAWTILL_TLS": "off", **settings}, module=module, weak=weak)
        self.sale = sale
        self.headquarters_key, self.app_key = self._set_up()

    # -------------------------------------------------------------- before the sale

    def _set_up(self) -> tuple[str, str]:
        if not (self.folder / FILE_NAME).exists():
            load_code_key(self.folder, database_exists=False)
        with self.services() as services:
            headquarters = provision(services, ChainPlan())
            assert headquarters is not None, "the database was empty"
            return headquarters, services.write(self._furnish)

    def _furnish(self, conn: Connection, ctx: Context) -> str:
        catalog.set_store(conn, "s1", zone="Asia/Shanghai")
        names = [f"m{n}" for n in range(self.sale.members)] + [f"spare{n}" for n in range(SPARE)]
        listed = [f"listed{n}" for n in range(self.sale.listed)]
        conn.execute(insert(schema.member), [{"id": name, "home_store": "s1"} for name in [*names, *listed]])
        benefit = {"type": "amount_off", "amount": "5.00"}
        rule: dict[str, Any] = {"id": CAMPAIGN, "benefit": benefit, "stock": self.sale.stock}
        rule |= {"per_member": self.sale.limit, "arbiter": self.sale.arbiter}
        answer = campaigns.create(conn, ctx, rule)
        assert answer["outcome"] == "ok", answer
        if listed:
            draft = issues.Draft(TASK, CAMPAIGN, chunk_size=5)
            assert issues.create(conn, ctx, draft, members=listed)["state"] == "RUNNING"
        return keys.create(conn, ctx, scope="app", name="app").token

    # -------------------------------------------------------------- asked as headquarters

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask until there is an answer that is not `busy`."""
        found: dict[str, Any] = {}

        def answered() -> bool:
            nonlocal found
            try:
                response = httpx.request(
                    method,
                    f"{self.address}{path}",
                    json=body,
                    headers={"Authorization": f"Bearer {self.headquarters_key}"},
                    trust_env=False,
                    timeout=15,
                )
            except httpx.HTTPError:
                return False
            if response.status_code >= 500:
                return False
            found = response.json()
            return True

        self.until(answered, f"{method} {path} is not answered")
        return found

    def stock(self) -> dict[str, int]:
        """Return the campaign's stock as it is shown."""
        shown: dict[str, int] = self.ask("GET", f"/v1/campaigns/{CAMPAIGN}")["stock"]
        return shown

    def resume_task(self) -> None:
        """Let a batch issue go on at once whose worker was killed, rather than after its lease."""
        if self.sale.listed:
            self.ask("POST", f"/v1/issues/{TASK}/resume", {})


@contextlib.contextmanager
def open_shop(shop: Shop) -> Iterator[Shop]:
    """Start its servers, and end what is left of them."""
    try:
        shop.start()
        yield shop
    finally:
        shop.stop()
