"""Hold what the routes about running itself need: whom to ask, and who may."""

from collections.abc import Callable, Mapping

from server.lookout import Lookout
from server.scrape import Scrape

Check = Callable[[], str]
"""Return "ok", or one word for what is wrong with a part; it may hang where the part does."""


class Running:
    """Hold who writes the metrics out, the key that they need ("" = this machine alone), and checks of parts by name.

    The checks are of parts without which the server still serves its tills: a part that is not ok makes it `degraded`.
    """

    def __init__(self, scrape: Scrape, *, metrics_key: str = "", checks: Mapping[str, Check] | None = None) -> None:
        self.metrics_key = metrics_key
        self.text = Lookout(scrape.text)
        self.checks = {name: Lookout(check) for name, check in (checks or {}).items()}
