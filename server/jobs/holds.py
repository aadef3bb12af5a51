"""Give back what orders hold that were not paid in time."""

from server.jobs.report import JobReport
from server.services import orders
from server.services.services import Services

NAME = "hold_timeouts"
CHUNK = 200


def time_out_holds(services: Services) -> JobReport:
    """Cancel every order that is HELD past its time; one whose payment is UNKNOWN waits for an answer, not a clock."""
    done = 0
    while ended := services.write(lambda conn, context: orders.time_out(conn, context, limit=CHUNK)):
        done += ended
    return JobReport(NAME, done=done)
