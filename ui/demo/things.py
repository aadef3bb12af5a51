"""List what lies on the demo's counter: goods, cards and coupons to scan, and the plug of the cable beside them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ui.words import Name


class Cable(Protocol):
    """Be the cable between till and server."""

    @property
    def is_cut(self) -> bool:
        """Tell whether it is pulled."""
        ...

    def cut(self) -> None:
        """Pull it."""
        ...

    def mend(self) -> None:
        """Plug it in again."""
        ...


@dataclass(frozen=True, slots=True)
class Thing:
    """Name one thing to scan; `code` is what a scanner reads from it."""

    name: Name
    code: str


@dataclass(frozen=True, slots=True)
class Group:
    """Gather things under a heading; `title_key` names its words."""

    title_key: str
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True)
class DemoCounter:
    """Hold everything on the demo's counter.

    `wake` lets the background sync look at the line now: a pulled plug is noticed by whoever uses the line next, which
    may be 15 seconds later.
    """

    groups: tuple[Group, ...]
    cable: Cable
    wake: Callable[[], None]
