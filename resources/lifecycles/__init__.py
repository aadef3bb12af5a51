"""Load life cycles, of coupons, orders, campaigns, ...: one TOML file each, verified as it is loaded."""

import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from app.domain.lifecycle import Lifecycle
from app.domain.states import VOCABULARIES


@cache
def load(name: str) -> Lifecycle:
    """Load the table that comes with Pawtill, by a name of `VOCABULARIES` ("coupon", ...); read once per process."""
    return read(name, files(__name__))


def read(name: str, folder: Traversable) -> Lifecycle:
    """Read `<name>.toml` in a folder (a chain's own, say) and verify it against what the code can fire and decide.

    Raises KeyError for a name that the code has no words for, FileNotFoundError, tomllib.TOMLDecodeError, or
    InvalidLifecycle with all that is wrong.
    """
    vocabulary = VOCABULARIES[name]
    return Lifecycle.from_table(tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8")), vocabulary)


def load_all() -> dict[str, Lifecycle]:
    """Load every life cycle, so that a bad table stops the start and not the first sale."""
    return {name: load(name) for name in VOCABULARIES}
