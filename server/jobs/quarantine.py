"""Try what is in quarantine again: a newer version may read it, and a bug that parked it may be gone."""

from collections.abc import Iterator
from functools import partial

from server.jobs.report import JobReport
from server.services import quarantine
from server.services.services import Services

NAME = "judge_again"
LOOKED_AT = 200


def judge_again(services: Services) -> JobReport:
    """Judge again, each in a transaction of its own, in the order in which they came."""
    repaired = sum(services.write(partial(quarantine.try_again, finding_id=one)) for one in undecided(services))
    return JobReport(NAME, repaired=repaired)


def undecided(services: Services) -> Iterator[int]:
    """Yield the undecided findings of entries that this version can read, in the order in which they came."""
    above: int | None = 0
    while above is not None:
        found, above = services.read(partial(quarantine.legible, above=above, limit=LOOKED_AT))
        yield from found
