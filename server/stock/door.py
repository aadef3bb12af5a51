"""Hold this process' way to one Redis: scripts for threads and for each event loop, and the look at who is there."""

import asyncio
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from server.stock.connection import Acquaintance, Address, aclose, ask_anew, connect, connect_async
from server.stock.embedded import EmbeddedRedis
from server.stock.pipeline import AsyncStock, BlockingStock
from server.stock.scripts import Keys
from server.stock.suitability import Look, look
from server.stock.trouble import ERRORS, StockDamaged, trouble_of

EVENTS_AT_ONCE = 500
STAGED_MS = 10 * 60 * 1000
"""How long staged members outlive the last that came: a process that dies while it loads leaves them behind."""


@dataclass(frozen=True, slots=True)
class Event:
    """Hold a reservation as its script wrote it down; `text` is what its taker added for the landing."""

    generation: int
    request: str
    member: str
    qty: int
    at_ms: int
    deadline_ms: int
    text: str


class Door:
    """Be the only thing of `server/stock` that the rest of the server holds; every call may raise a StockTrouble."""

    def __init__(self, address: Address, *, prefix: str = "", embedded: EmbeddedRedis | None = None) -> None:
        self.address, self.prefix = address, prefix
        self._embedded = embedded
        self._acquaintance = Acquaintance()
        self.unguarded = BlockingStock(lambda: connect(address, None))
        """For who builds counters anew: it looks for itself at whom it speaks to."""
        self.scripts = BlockingStock(lambda: connect(address, self._acquaintance))
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncStock] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def keys(self, campaign_id: str) -> Keys:
        """Name the keys of a campaign."""
        return Keys(campaign_id, self.prefix)

    @property
    def wants_look(self) -> bool:
        """Tell that a process was met that nobody has looked at."""
        return self._acquaintance.wants_look

    def knows(self, run_id: str) -> bool:
        """Tell whether a process is one of those that were let pass."""
        return self._acquaintance.knows(run_id)

    def look(self) -> Look:
        """Look who is there and what is wrong with them; lets nobody pass yet."""
        client = self.unguarded.client
        ask_anew(client)
        return look(client)

    def accept(self, seen: Look) -> None:
        """Let connections to exactly the processes that were seen pass."""
        self._acquaintance.accept(frozenset(seen.run_ids.values()))

    def run_id_of(self, seen: Look, campaign_id: str) -> str:
        """Return which of the processes that were seen holds the campaign."""
        if "" in seen.run_ids:
            return seen.run_ids[""]
        try:
            node = self.unguarded.client.get_node_from_key(self.keys(campaign_id).key("h"))
        except ERRORS as error:
            raise trouble_of(error) or error from error
        return seen.run_ids.get(node.name, "")

    def on_loop(self) -> AsyncStock:
        """Return the scripts for the loop that runs here."""
        loop = asyncio.get_running_loop()
        stock = self._by_loop.get(loop)
        if stock is None:
            stock = AsyncStock(connect_async(self.address, self._acquaintance))
            with self._lock:
                self._by_loop[loop] = stock
        return stock

    def stage(self, campaign_id: str, generation: int, held: dict[str, int]) -> None:
        """Load members with what they hold for a generation that is being built."""
        staged = self.keys(campaign_id).staged(generation)
        self._do(
            lambda client: (
                client.pipeline(transaction=False).hset(staged, mapping=held).pexpire(staged, STAGED_MS).execute()
            )
        )

    def unstage(self, campaign_id: str, generation: int) -> None:
        """Throw away what was loaded for a generation."""
        self._do(lambda client: client.unlink(self.keys(campaign_id).staged(generation)))

    def remove(self, campaign_id: str) -> None:
        """Throw away what a campaign kept besides its mark `h`."""
        self._do(lambda client: client.unlink(*self.keys(campaign_id).all[1:]))

    def events(self, campaign_id: str, *, after: str = "-") -> list[tuple[str, Event | None]]:
        """Return the oldest reservations that are open, a few hundred, after an entry's id; [] where nothing is.

        None stands for one that no script of ours wrote.
        """
        start = after if after == "-" else f"({after}"
        raw = self._do(lambda client: client.xrange(self.keys(campaign_id).key("s"), start, "+", EVENTS_AT_ONCE))
        return [(entry.decode(), _event_in(data)) for entry, data in raw]

    def sample_members(self, campaign_id: str, count: int) -> dict[str, int]:
        """Return some members, drawn by chance, with what Redis thinks they hold; raises StockDamaged as well."""
        raw = self._do(lambda client: client.hrandfield(self.keys(campaign_id).key("u"), count, True))
        pairs = raw if raw and isinstance(raw[0], list) else list(zip(raw[::2], raw[1::2], strict=True))
        try:
            return {member.decode(): int(held) for member, held in pairs}
        except ValueError as error:
            raise StockDamaged("a member holds no number") from error

    def _do(self, run: Any) -> Any:
        try:
            return run(self.unguarded.client)
        except ERRORS as error:
            raise trouble_of(error) or error from error

    async def aclose(self) -> None:
        """Close what belongs to the loop that runs here."""
        with self._lock:
            stock = self._by_loop.pop(asyncio.get_running_loop(), None)
        if stock is not None:
            await aclose(stock.client)

    def close(self) -> None:
        """Let go of the connections of threads, and end the bundled server if it is ours."""
        self.unguarded.close()
        self.scripts.close()
        if self._embedded is not None:
            self._embedded.stop()


def _event_in(data: Mapping[bytes, bytes]) -> Event | None:
    try:
        told = {key.decode(): value.decode() for key, value in data.items()}
        numbers = {name: int(told[name]) for name in ("qty", "at_ms", "deadline_ms")}
        return Event(int(told["gen"]), told["request"], told["member"], text=told["event"], **numbers)
    except (KeyError, ValueError):
        return None
