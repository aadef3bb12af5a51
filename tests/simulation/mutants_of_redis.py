"""Plant faults between Redis and the database, and in what a till believes; the first hunted in seeds with Redis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import server.jobs
from app.domain.refusals import RefusalCode, refuse
from server.services.admission import landing
from server.services.admission.admission import Admission
from server.services.admission.claiming import Claiming
from server.services.admission.generations import Generations
from server.services.admission.reconciling import Reconciling
from server.services.answers import refused
from server.stock.scripts import No
from sync.identity import Identity
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


@mutant("what a dead process reserved is landed by another", redis=True)
def _dead_claims_stay() -> Iterator[None]:
    with put((Admission, "drain", lambda self: 0)):
        yield


@mutant("a campaign that leaves Redis takes its reservations along", redis=True)
def _left_reserved() -> Iterator[None]:
    with put((Generations, "_land_everything", lambda self, campaign_id: None)):
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


@mutant("members who are counted wrong are a drift, also where the stock agrees (hole 9)", redis=True)
def _members_drift() -> Iterator[None]:
    real = Reconciling._measure

    def measure(self: Any, campaign_id: str) -> Any:
        drift = real(self, campaign_id)
        return None if drift is None else replace(drift, members={})

    with put((Reconciling, "_measure", measure)):
        yield


@mutant("a till believes no answer that the server did not sign for it", disasters=False)
def _anything_is_believed() -> Iterator[None]:
    with put((Identity, "believes", lambda self, status_code, headers, body, *, request: True)):
        yield
