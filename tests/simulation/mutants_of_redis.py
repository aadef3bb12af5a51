"""Plant faults between Redis and the database; hunted in seeds with Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import server.jobs
from app.domain.refusals import RefusalCode, refuse
from server.services.admission import landing
from server.services.admission.claiming import Claiming
from server.services.admission.generations import Generations
from server.services.answers import refused
from server.stock.scripts import No
from tests.simulation.planting import mutant, put


@mutant("counters that are lost are built anew", redis=True)
def _never_built_anew() -> Iterator[None]:
    with put((Generations, "rebuild", lambda self, campaign_id, reason: False)):
        yield


@mutant("Redis and the database are compared", redis=True)
def _never_compared() -> Iterator[None]:
    with put((server.jobs, "PATROLS", tuple(job for job in server.jobs.PATROLS if job.name != "redis_compare"))):
        yield


@mutant("a claim that landed is known again when its reservation lands once more", redis=True)
def _lands_anew() -> Iterator[None]:
    with put((landing, "request_id", lambda request: f"again:{request}")):
        yield


@mutant("a no of Redis is a hint: whose twin was granted hears of that (hole 3)", redis=True)
def _hints_are_final() -> Iterator[None]:
    real = Claiming._refuse

    async def refuse_at_once(self: Any, entry: Any, asked: Any, *, reply: Any, until_s: float) -> Any:
        codes = {No.SOLD_OUT: RefusalCode.OUT_OF_STOCK, No.LIMIT: RefusalCode.ALREADY_CLAIMED}
        if reply.why in codes:
            return refused(refuse(codes[reply.why], campaign=asked.campaign_id))
        return await real(self, entry, asked, reply=reply, until_s=until_s)

    with put((Claiming, "_refuse", refuse_at_once)):
        yield
