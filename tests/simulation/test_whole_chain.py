"""The whole chain keeps its promises with its server on PostgreSQL too, whatever happens: stories with weather.

On SQLite the simulator plays them (`test_simulator.py`), with power cuts and disks of its own, which a server of
PostgreSQL has not here.
"""

from __future__ import annotations

import pytest

from server.scenario.world import Workshop
from tests.simulation.story import play

SEEDS, EACH_TIME = range(16), 1
STEPS = 100


@pytest.mark.parametrize("workshop", ["postgres"], indirect=True)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= EACH_TIME)) for n in SEEDS])
def test_every_promise_is_kept_whatever_happens(workshop: Workshop, seed: int) -> None:
    play(workshop, seed, steps=STEPS)
