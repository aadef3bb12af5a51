"""Compare the server with itself (REQUIREMENTS G1): what does not add up becomes a finding, with its evidence.

What has one right answer is not told but done, by the patrol that does it anyhow: a hold past its time is given back, a
coupon expires, a message is sent again. What is left for here is what a person must look at.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Select

from server.jobs.report import JobReport
from server.services import books_check, findings, outbox, stuck
from server.services.context import Context
from server.services.services import Services
from server.services.stuck import Found

Find = Callable[[Connection, Context], list[Found]]

FORGET_AT_ONCE = 500


def check_messages(services: Services) -> JobReport:
    """Tell of messages that do not leave; sending them again is what the relay does anyhow (PROTOCOL 9, R3)."""
    return _settle_all(services, "check_messages", {"outbox_stuck": stuck.stuck_messages})


def check_orders(services: Services) -> JobReport:
    """Tell of orders that stand still (R4)."""
    finders: dict[str, Find] = {"payment_unknown": stuck.unknown_payments, "hold_overdue": stuck.overdue_holds}
    return _settle_all(services, "check_orders", finders)


def check_tills(services: Services) -> JobReport:
    """Tell of silent tills, of entries that were announced and never came (R9), and of what lost tills have (R13)."""
    finders: dict[str, Find] = {
        "tail_pending": stuck.pending_tails,
        "silent_till": stuck.silent_tills,
        "rights_stranded": stuck.stranded_rights,
    }
    return _settle_all(services, "check_tills", finders)


def check_books(services: Services) -> JobReport:
    """Ask the books what the audit asks (R6); each question has a snapshot of its own, so none is held for long."""
    finders = {kind: _asking(question) for kind, question in books_check.questions()}
    return _settle_all(services, "check_books", finders)


def _asking(question: Select[Any]) -> Find:
    return lambda conn, _: books_check.ask(conn, question)


def forget_messages(services: Services) -> JobReport:
    """Delete messages that were sent long ago, a few hundred in each transaction; none waits for a wrong clock."""
    done, repaired = 0, services.write(lambda conn, ctx: outbox.pull_back(conn, ctx.now))
    while gone := services.write(lambda conn, ctx: outbox.forget_sent(conn, ctx.now, limit=FORGET_AT_ONCE)):
        done += gone
    return JobReport("forget_messages", done=done, repaired=repaired)


def _settle_all(services: Services, job: str, finders: Mapping[str, Find]) -> JobReport:
    opened = {kind: _settle(services, kind, find) for kind, find in finders.items()}
    return JobReport(job, findings={kind: count for kind, count in opened.items() if count})


def _settle(services: Services, kind: str, find: Find) -> int:
    """Look, and write only where what is found is not what is known; returns how many findings were opened."""
    found = services.read(find)
    known = services.read(lambda conn, _: findings.open_keys(conn, kind))
    if {each.key for each in found} == known:
        return 0
    return services.write(lambda conn, ctx: stuck.settle(conn, ctx, kind, found=found))
