"""Hold what the routes about running itself need: whom to ask, and who may."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from server.scrape import Scrape

Check = Callable[[], str]
"""Return "ok", or one word for what is wrong with a part; at once, from what is known, for it is asked often."""


@dataclass(frozen=True, slots=True)
class Running:
    """Hold who writes the metrics out, the key that they need ("" = this machine alone), and checks of parts by name.

    The checks are of parts without which the server still serves its tills: a part that is not ok makes it `degraded`.
    """

    scrape: Scrape
    metrics_key: str = ""
    checks: Mapping[str, Check] = field(default_factory=dict)
