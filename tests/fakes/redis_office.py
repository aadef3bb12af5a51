"""A headquarters whose hot campaigns are admitted by a real Redis."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from sqlalchemy import Connection, select

from server.db import schema
from server.services.admission.admission import Admission, with_admission
from server.services.admission.claiming import LANDING_MS
from server.services.admission.landing import fingerprint, write_event
from server.stock.connection import Address
from server.stock.door import Door
from server.stock.scripts import Fault, Reservation, Reserved, Standing, inspect, reserve
from tests.fakes.headquarters import Headquarters

_numbers = itertools.count(1)


class RedisOffice:
    """Speak to a headquarters as the chain's app, many at once, and look at its Redis."""

    def __init__(self, headquarters: Headquarters, address: Address | None) -> None:
        self.headquarters = headquarters
        self.prefix = f"office{next(_numbers)}:"
        self.door = Door(address, prefix=self.prefix) if address is not None else None
        headquarters.services = with_admission(headquarters.services, self.door)
        headquarters.app.state.services = headquarters.services
        self.app_key = headquarters.new_key("app")
        self.admission.begin()

    @property
    def services(self) -> Any:
        return self.headquarters.services

    @property
    def admission(self) -> Admission:
        found = self.headquarters.services.admission
        assert found is not None
        return found

    def close(self) -> None:
        self.headquarters._loop.run(self.admission.aclose())
        self.admission.close()

    def claim(self, request: str, *, member: str = "m1", campaign: str = "c1", **more: Any) -> dict[str, Any]:
        """Claim, and return the answer."""
        return dict(self.send([(request, member)], campaign=campaign, **more)[0].json())

    def send(
        self, asked: Sequence[tuple[str, str]], *, campaign: str = "c1", prefer: str = "", together: int = 50
    ) -> list[httpx.Response]:
        """Send claims (request, member), so many of them under way at once."""

        async def all_of_them() -> list[httpx.Response]:
            gate = asyncio.Semaphore(together)
            return await asyncio.gather(*(one(gate, *each) for each in asked))

        async def one(gate: asyncio.Semaphore, request: str, member: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {self.app_key}"} | ({"Prefer": prefer} if prefer else {})
            body = {"request": request, "campaign": campaign, "member": member}
            wanted = httpx.Request("POST", "http://headquarters/v1/claims", json=body, headers=headers)
            async with gate:
                answer = await httpx.ASGITransport(self.headquarters.app).handle_async_request(wanted)
                return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

        return list(self.headquarters._loop.run(all_of_them()))

    def outcomes(self, asked: Sequence[tuple[str, str]], **more: Any) -> Counter[str]:
        """Count the outcomes of claims."""
        return Counter(str(each.json()["outcome"]) for each in self.send(asked, **more))

    def reserve(
        self, request: str = "r1", *, member: str = "m1", campaign: str = "c1", now_ms: int | None = None
    ) -> str:
        """Reserve as a process does that dies right behind it, by its clock (None = ours); returns the token."""
        assert self.door is not None
        began_ms = self.now_ms if now_ms is None else now_ms
        asked = Reservation(
            request,
            member,
            fingerprint=fingerprint("app"),
            now_ms=began_ms,
            deadline_ms=began_ms + LANDING_MS,
            event=write_event("app"),
        )
        call = reserve(self.door.keys(campaign), self.standing(campaign).generation, asked)
        answer = self.door.unguarded.run(call)
        assert isinstance(answer, Reserved), answer
        return answer.token

    def told(self, request: str) -> dict[str, Any]:
        """Ask what became of a claim until it is there; the server's loop runs only while it is asked."""
        for _ in range(1000):
            answer = self.headquarters.call("GET", f"/v1/claims/{request}", key=self.app_key)
            if answer["outcome"] != "pending":
                return answer
        raise AssertionError("it stays pending")

    def settle(self) -> None:
        """Let what goes on in the background come to its end."""
        self.admission._repairs.submit(lambda: None).result(30)

    def standing(self, campaign: str = "c1") -> Standing:
        """Return how the campaign stands in Redis, which must be well."""
        assert self.door is not None
        found = self.door.unguarded.run(inspect(self.door.keys(campaign), now_ms=self.now_ms))
        assert isinstance(found, Standing), found
        return found

    def fault(self, campaign: str = "c1") -> Fault | None:
        """Return what is wrong with the campaign in Redis."""
        assert self.door is not None
        found = self.door.unguarded.run(inspect(self.door.keys(campaign), now_ms=self.now_ms))
        return found if isinstance(found, Fault) else None

    @property
    def now_ms(self) -> int:
        return round(self.headquarters.clock.now().timestamp() * 1000)

    def stock(self, campaign: str = "c1") -> Mapping[str, int]:
        return self.headquarters.stock(campaign)

    def held(self, campaign: str = "c1") -> Counter[str]:
        """Count the coupons of each member in the database."""

        def count(conn: Connection) -> Counter[str]:
            coupon = schema.coupon
            return Counter(conn.execute(select(coupon.c.member_id).where(coupon.c.campaign_id == campaign)).scalars())

        return self.headquarters.database.read(count)

    def assert_sound(self, campaign: str = "c1", *, limit: int = 1) -> None:
        """Check that Redis and the database say the same, nobody has too much, and the audit is clean."""
        from server.services.audit import audit

        standing, stock, held = self.standing(campaign), self.stock(campaign), self.held(campaign)
        assert standing.units == 0
        assert standing.available == stock["available"]
        assert stock["granted"] == held.total() <= stock["total"]
        assert max(held.values(), default=0) <= limit
        assert standing.member_count == len(held)
        report = self.headquarters.services.read(audit)
        assert report.clean, [str(each) for each in report.violations]
