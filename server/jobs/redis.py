"""Keep Redis and the database together: land what dead processes began, compare, build anew (PROTOCOL 9, R1 and R2)."""

import structlog

from server import metrics
from server.jobs.report import JobReport
from server.services.services import Services
from server.stock.trouble import StockTrouble

log = structlog.get_logger("pawtill.jobs")


def drain_reservations(services: Services) -> JobReport:
    """Land reservations that nobody landed in time; whoever began one gets the same answer when asking again."""
    name = "redis_reservations"
    if services.admission is None:
        return JobReport(name)
    try:
        return JobReport(name, repaired=services.admission.drain())
    except StockTrouble as trouble:
        _put_off(name, trouble)
        return JobReport(name)


def compare_redis(services: Services) -> JobReport:
    """Compare every campaign on Redis with the database; what differs twice is built anew."""
    name = "redis_compare"
    if services.admission is None:
        return JobReport(name)
    try:
        compared = services.admission.compare(services)
    except StockTrouble as trouble:
        _put_off(name, trouble)
        return JobReport(name)
    return JobReport(name, repaired=compared.repaired, findings=compared.findings)


def _put_off(name: str, trouble: StockTrouble) -> None:
    """Redis that is away stops no other patrol."""
    metrics.redis_state("unsuitable" if trouble.word == "redis_unsuitable" else "down")
    log.warning("job put off", job=name, reason=trouble.word)
