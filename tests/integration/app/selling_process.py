"""A till that sells in a loop in a process of its own, and may kill itself at a named point.

Arguments: folder, host, port, name of the loop, point ("" = never), how many times to pass it first. Says `asked ORDER`
before it sells and `shown ORDER` behind it, each line at once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from app.domain.refusals import Refusal
from app.services.opening import open_till
from app.services.system import SystemClock, SystemIds
from tests.fakes.head_office import Cable, FakeHeadOffice
from tests.fakes.memory_world import CODE_KEY
from tests.fakes.remote import RemoteServer
from tests.fakes.shop import basket
from tests.fakes.terminal import FakeTerminal

EARLY = "early"
"""The name of the loop that shows before it commits: the mistake that the test must notice."""


def main(folder: str, host: str, port: str, name: str, point: str, passes: str) -> None:
    left, early = int(passes), name == EARLY

    def probe(passed: str) -> None:
        nonlocal left
        if passed == point:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    server = RemoteServer((host, int(port)))
    till = open_till(
        Path(folder) / "till.db",
        till_id="T1",
        store_id="s1",
        clock=SystemClock(),
        ids=SystemIds(),
        code_key=CODE_KEY,
        connect=lambda database: FakeHeadOffice(server, database, Cable()),  # type: ignore[arg-type]
        payments=FakeTerminal(),
        probe=probe,
    )
    till.head_office.refresh()
    for number in range(10_000):
        order_id = f"{name}-{number}"
        print("asked", order_id, flush=True)
        # Every other order needs rights: one fen of stored value.
        opened = till.checkout(order_id, basket("A", member="m1"), stored_value_minor=number % 2)
        assert not isinstance(opened, Refusal), opened
        if early:
            print("shown", order_id, flush=True)
        paid = till.pay(order_id)
        assert not isinstance(paid, Refusal), paid
        till.receipt_shown(order_id)
        print("shown", order_id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
