"""Say how many examples a test of laws tries: few in the suite, ten times as many where somebody asks for `deep`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

EXAMPLES, DEEP_EXAMPLES = 30, 300


def register_profiles() -> None:
    """Take the few; `--hypothesis-profile=deep` takes the many. A busy machine is no bug of ours: no deadline."""
    unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("pawtill", unhurried, max_examples=EXAMPLES)
    settings.register_profile("deep", unhurried, max_examples=DEEP_EXAMPLES)
    settings.load_profile("pawtill")


def share(of_all: float) -> int:
    """Return a part of the examples of this run, for a test that opens a database for each."""
    return max(1, round(settings().max_examples * of_all))
