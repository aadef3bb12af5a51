"""End a restore: judge what waited for the tills to tell, and only then let anything be given out again."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from server.jobs.holds import CHUNK
from server.jobs.quarantine import undecided
from server.jobs.report import JobReport
from server.services import adopting, orders, quarantine, restoring
from server.services.context import Context
from server.services.services import Services

NAME = "restored"


def end_restore(services: Services) -> JobReport:
    """Judge everything that waits as soon as every till has told, and end the restore; done again, it is the same.

    What can be put in order is, in as many rounds as that takes: one entry lacks what another brings. What cannot is in
    conflict then. Sales go before refunds: a sale that is in conflict is booked all the same, and may be refunded.
    """
    if not services.read(restoring.have_all_told):
        return JobReport(NAME)
    while services.write(_time_out):
        pass
    repaired = 0
    for refunds_too in (False, True):
        while found := _round(services, quarantine.try_again):
            repaired += found
        _round(services, partial(_decide, refunds_too=refunds_too))
    services.write(restoring.end)
    return JobReport(NAME, repaired=repaired)


def _round(services: Services, judge: Callable[..., bool]) -> int:
    """Judge each undecided finding of quarantine once, in a transaction of its own; returns how many left it."""
    services.write(adopting.adopt_waiting)
    return sum(services.write(partial(judge, finding_id=each)) for each in undecided(services))


def _decide(conn: Connection, ctx: Context, *, finding_id: int, refunds_too: bool) -> bool:
    if not refunds_too and quarantine.is_refund(conn, finding_id):
        return False
    return quarantine.try_again(conn, replace(ctx, all_told=True), finding_id=finding_id)


def _time_out(conn: Connection, ctx: Context) -> int:
    """Let go of what orders hold that were not paid: their tills would have told."""
    return orders.time_out(conn, replace(ctx, all_told=True), limit=CHUNK)
