"""Look for the server: whether it answers, whether it can decide, how long that takes, how far the clocks are apart."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.domain.refusals import Refusal
from app.services.ports import Busy, Offline
from cli.doctor.check import Check, broken, fine, note
from sync.client import ServerClient
from sync.trust import pinned

_CONNECT_S, _ANSWER_S = 2.0, 5.0
_ROUNDS = 5
DRIFT_NOTED = timedelta(minutes=5)
"""Beyond this a till's receipts show a time that nobody believes; what is valid follows the server's clock anyway."""


def look(url: str, *, authority: str, expected: bool) -> Iterator[Check]:
    """Yield what there is to say about the server at `url`; everything that is asked needs no key.

    `authority` (PEM) is whom its certificate must be from, "" = a public one. `expected` False: nobody said that there
    is a server, so its silence is no fault.
    """
    try:
        trust = pinned(authority) if authority else None
        client = ServerClient(url, None, trust=trust, connect_timeout_s=_CONNECT_S, answer_timeout_s=_ANSWER_S)
    except (ValueError, TypeError) as error:
        yield broken("Server", f"{url} is no address: {error}")
        return
    with client:
        try:
            answer = client.get("/health")
        except (Offline, Busy) as error:
            silence = broken if expected else note
            yield silence("Server", f"{url} does not answer ({error})")
            return
        yield fine("Server", f"{url} answers")
        yield _round_trip(client)
        if not isinstance(answer, Refusal) and "now" in answer:
            yield drift(datetime.fromisoformat(answer["now"]), datetime.now(UTC))
        yield _ready(client)


def _round_trip(client: ServerClient) -> Check:
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        try:
            client.get("/health")
        except (Offline, Busy) as error:
            return broken("Round trip", f"the line broke while it was measured ({error})")
        times.append((time.perf_counter() - started) * 1000)
    return fine("Round trip", f"{min(times):.1f} ms at best of {_ROUNDS}, {max(times):.1f} ms at worst")


def drift(server_now: datetime, here: datetime) -> Check:
    """Compare the server's clock with this machine's; the answer's way makes it a few milliseconds unsure."""
    apart = here - server_now
    where = "ahead of" if apart > timedelta(0) else "behind"
    text = f"this machine is {abs(apart).total_seconds():.1f} s {where} the server"
    return note("Clock", text) if abs(apart) > DRIFT_NOTED else fine("Clock", text)


def _ready(client: ServerClient) -> Check:
    try:
        client.get("/ready")
    except (Offline, Busy) as error:
        return broken("Server's database", f"the server cannot decide now ({error})")
    return fine("Server's database", "reads and writes")
