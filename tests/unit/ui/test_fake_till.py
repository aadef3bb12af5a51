"""The till in memory answers the same calls as the real one; else tests of the window would prove little."""

from __future__ import annotations

import inspect

import pytest

from app.services.till import Till
from tests.fakes.till import FakeTill

# What no window uses.
NOT_FOR_WINDOWS = {"database", "head_office", "park", "till_id"}
NOT_FOR_WINDOWS |= {"begin_epoch", "close_day", "give", "lease", "renew_rights", "resume_leases"}
NOT_FOR_WINDOWS |= {"return_home", "take_home", "unlease"}


@pytest.mark.parametrize("name", sorted({name for name in vars(Till) if not name.startswith("_")} - NOT_FOR_WINDOWS))
def test_the_till_in_memory_has_the_real_ones_calls(name: str) -> None:
    if isinstance(vars(Till)[name], property):
        assert hasattr(FakeTill(), name)
        return
    real, fake = (inspect.signature(getattr(kind, name)) for kind in (Till, FakeTill))

    assert [(p.name, p.kind, p.default) for p in fake.parameters.values()] == [
        (p.name, p.kind, p.default) for p in real.parameters.values()
    ]
