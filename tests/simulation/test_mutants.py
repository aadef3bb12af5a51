"""Each guard that is taken out of the real code is missed within so many seeds; the harmless say why they are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.simulation.chain import Ground, open_ground
from tests.simulation.hunt import SEEDS_MAX, found_by
from tests.simulation.mutants import MUTANTS

EACH_TIME = ("claims_forget", "draws_uncounted", "returned_stays_home")


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with open_ground() as ground:
        yield ground


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in EACH_TIME)) for name in MUTANTS]
)
def test_a_guard_that_is_taken_out_is_missed(ground: Ground, name: str) -> None:
    mutant = MUTANTS[name]
    if mutant.harmless:
        pytest.skip(mutant.harmless)

    assert found_by(ground, mutant, seeds=SEEDS_MAX) is not None, mutant.why
