"""Try what is in quarantine again: a newer version may read it, and a bug that parked it may be gone."""

from functools import partial

from server.jobs.report import JobReport
from server.services import quarantine
from server.services.services import Services

NAME = "judge_again"
LOOKED_AT = 200


def judge_again(services: Services) -> JobReport:
    """Judge again, each in a transaction of its own, in the order in which they came."""
    repaired, above = 0, 0
    while True:
        found, last = services.read(partial(quarantine.legible, above=above, limit=LOOKED_AT))
        repaired += sum(services.write(partial(quarantine.try_again, finding_id=one)) for one in found)
        if last is None:
            return JobReport(NAME, repaired=repaired)
        above = last
