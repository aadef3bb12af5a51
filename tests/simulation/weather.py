"""Everything outside of the program that may go wrong: lines, disks, terminals; all of it drawn from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

import sync.push
from app.domain.tenders import TenderType
from app.services.ports import NoAnswer, NotPaid, Paid, PaymentAnswer
from app.store.database import TillDatabase
from app.store.errors import DiskFull, LedgerBusy
from server.scenario.crash import ProcessDied

PORTALS = (b"<html>log in</html>", b"{}", b"[]", b'{"status":"ok"}', b"", b"null")


@dataclass
class Weather:
    """Say how often each thing goes wrong, as chances from 0 to 1; `heal` ends all of it."""

    line: float = 0.0
    death: float = 0.0
    disk: float = 0.0
    between: float = 0.0

    @classmethod
    def draw(cls, rng: random.Random) -> Weather:
        worse = rng.choice([0.0, 0.03, 0.1])
        return cls(worse, worse, rng.choice([0.0, 0.0, 0.02, 0.1]), rng.choice([0.0, 0.02, 0.1]))

    def heal(self) -> None:
        self.line = self.death = self.disk = self.between = 0.0


class Cable(httpx.BaseTransport):
    """Carry a till's requests to the server: some get lost, some answers do, some arrive twice, or much later.

    `meanwhile` lets the others act before the request arrives and before the answer is back.
    """

    def __init__(
        self, wire: httpx.BaseTransport, weather: Weather, rng: random.Random, meanwhile: Callable[[], None]
    ) -> None:
        self._wire, self._weather, self._rng, self._meanwhile = wire, weather, rng, meanwhile
        self._late: list[Callable[[], httpx.Request]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        again = _copier(request)
        self._meanwhile()
        if self._bad():
            self._late.append(again)
        early = self._instead(request) if self._bad() else None
        if early is not None:
            return early
        answer = self._wire.handle_request(request)
        self._meanwhile()
        if self._bad():
            self._wire.handle_request(again())
        if self._bad():
            raise httpx.ReadTimeout("the answer got lost", request=request)
        return answer

    def deliver_late(self) -> None:
        """Let one of the copies arrive that the line had kept back."""
        if self._late:
            request = self._late.pop(self._rng.randrange(len(self._late)))()
            try:
                self._wire.handle_request(request)
            except httpx.TransportError:
                return

    @property
    def late(self) -> int:
        return len(self._late)

    def _bad(self) -> bool:
        return self._rng.random() < self._weather.line

    def _instead(self, request: httpx.Request) -> httpx.Response:
        what = self._rng.random()
        if what < 0.6:
            raise httpx.ConnectError("the request got lost", request=request)
        if what < 0.8:
            facts = {"outcome": "busy", "facts": {"retry_after_s": 3}}
            return httpx.Response(503, headers={"retry-after": "3"}, json=facts, request=request)
        kind = self._rng.choice(["text/html", "application/json"])
        return httpx.Response(
            self._rng.choice([200, 302, 404, 500, 502]),
            content=self._rng.choice(PORTALS),
            headers={"content-type": kind},
            request=request,
        )


def _copier(request: httpx.Request) -> Callable[[], httpx.Request]:
    method, url, headers, content = request.method, str(request.url), dict(request.headers), request.content
    return lambda: httpx.Request(method, url, headers=headers, content=content)


@dataclass(frozen=True)
class Charge:
    """Remember one charge: for which order, how much, in which way, and whether the money was taken."""

    order_id: str
    kind: str
    minor: int
    taken: bool


class Terminal:
    """Take money by card and wallet, and know the truth about it. `order_id` is whose payment is under way."""

    def __init__(self, weather: Weather, rng: random.Random, meanwhile: Callable[[], None]) -> None:
        self._weather, self._rng, self._meanwhile = weather, rng, meanwhile
        self.charges: dict[str, Charge] = {}
        self.order_id = ""

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        assert payment_id not in self.charges, "nothing is charged twice"
        taken = self._rng.random() < 0.7
        self.charges[payment_id] = Charge(self.order_id, kind.value, amount_minor, taken)
        self._meanwhile()
        if self._rng.random() < self._weather.death:
            raise ProcessDied("while the terminal works")
        return self._answer(payment_id)

    def query(self, payment_id: str) -> PaymentAnswer:
        return self._answer(payment_id) if payment_id in self.charges else NotPaid("never seen")

    def _answer(self, payment_id: str) -> PaymentAnswer:
        if self._rng.random() < 2 * self._weather.line:
            return NoAnswer()
        return Paid() if self.charges[payment_id].taken else NotPaid("declined")


@contextmanager
def bad_disks(weather: Weather, rng: random.Random) -> Iterator[None]:
    """Let writes to a till's file fail now and then, before they begin or at their end; nothing is kept of those."""
    write = TillDatabase.write

    @contextmanager
    def failing(self: TillDatabase) -> Iterator[object]:
        if rng.random() < weather.disk:
            raise DiskFull(self.path, "no room")
        with write(self) as tx:
            yield tx
            if rng.random() < weather.disk:
                raise LedgerBusy(self.path, "another program has it")

    TillDatabase.write = failing  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        TillDatabase.write = write  # type: ignore[method-assign]


@contextmanager
def short_pushes(rng: random.Random) -> Iterator[None]:
    """Let a push carry few entries in some stories, so that it ends between a sale and what follows of it."""
    most = sync.push.PUSH_MAX_ENTRIES
    sync.push.PUSH_MAX_ENTRIES = rng.choice([most, most, 1, 2, 3])
    try:
        yield
    finally:
        sync.push.PUSH_MAX_ENTRIES = most
