"""Push 200 ledger entries over HTTP, against bare inserts of the same rows.

A real till sells 200 orders of one to three lines without reaching its server, then pushes them to a real one, a
process of its own (uvicorn on loopback), in one request where they stay within its 512 KiB. Measured is the whole push:
reading the ledger, JSON, HTTP, signatures, verifying the chain, judging every sale, the durable commit, the answer,
the till's own durable commit of what was acknowledged.

The baseline writes every row, of every table, that the server has written for those entries (counted, table by table),
with SQLAlchemy Core in one transaction, into a copy of the same database with the same pragmas: no HTTP, no checks.
Rows that were changed and not added (the till's cursor) are left out of it, which makes it faster. They take turns;
`over_bare_insert` is the ratio of the medians.
"""

import random
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from app.domain.basket import MILLI
from app.services.api import BasketLine, BasketRequest, OpenOrder, PaidOrder
from app.services.secrets import DeviceKey, Secrets
from app.services.till import Till
from cli.no_terminal import NoTerminal
from cli.server_process import PLAIN, ServerProcess
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import catalog, devices
from server.services.context import Context
from server.services.system import SystemClock, SystemIds
from tests.bench.books import Books, Rows
from tests.bench.measure import median, time_ms
from ui.running_till import Enrolment, Joined, RunningTill, open_running_till

ENTRIES, PRODUCTS = 200, 1_000
WARM_UP = 1
TILL_ID, STORE_ID, KEY_ID = "S1", "bench", "K1"


def run(quick: bool) -> dict[str, float]:
    """Return `over_bare_insert` and what it is made of."""
    rounds = WARM_UP + (2 if quick else 40)
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as name:
        folder = Path(name)
        granted = found_chain(folder / "server")
        with ServerProcess(folder / "server", PLAIN) as server:
            joined = Joined(server.url, TILL_ID, STORE_ID)
            till = open_running_till(folder / "till.db", Enrolment(joined, granted), payments=NoTerminal())
            with till, closing(Books(folder / "server" / "server.db", folder / "bare.db")) as books:
                till.engine.run_once()
                pushes, inserts, rows = _take_turns(till, books, rounds)
    pushes, inserts = pushes[WARM_UP:], inserts[WARM_UP:]
    return {
        "over_bare_insert": median(pushes) / median(inserts),
        "push_p50_ms": median(pushes),
        "bare_p50_ms": median(inserts),
        "entries_per_s": ENTRIES / median(pushes) * 1000,
        "entries": ENTRIES,
        "rows": sum(map(len, rows.values())),
        "tables": len(rows),
        "pushes": len(pushes),
    }


def found_chain(data_dir: Path) -> Secrets:
    """Found a chain with a store, an enrolled till and goods; return the till's secrets."""
    private = Ed25519PrivateKey.generate()
    services = open_services(data_dir / "server.db", clock=SystemClock(), ids=SystemIds())
    with closing(services.database):
        provision(services, ChainPlan(cash_step_minor=10))

        def found(conn: Connection, ctx: Context) -> None:
            catalog.set_store(conn, STORE_ID, zone="Asia/Shanghai")
            goods = [catalog.Product(f"SKU-{n}", f"{5 + n % 200}.90", f"商品{n}") for n in range(PRODUCTS)]
            assert catalog.set_products(conn, ctx, goods) == PRODUCTS
            assert catalog.set_till(conn, ctx, TILL_ID, store_id=STORE_ID) is None
            public_key = private.public_key().public_bytes_raw()
            devices.take_in(conn, ctx, TILL_ID, key_id=KEY_ID, public_key=public_key, certificate="")

        services.write(found)
        answer_key = services.chain_key.answers.public_key().public_bytes_raw()
        return Secrets(services.code_key, DeviceKey(KEY_ID, private.private_bytes_raw(), answer_key, ""))


def _take_turns(running: RunningTill, books: Books, rounds: int) -> tuple[list[float], list[float], Rows]:
    """Push and insert in turn; every other round the insert, of the push before, goes first."""
    chance, pushes, inserts = random.Random(3), list[float](), list[float]()
    sell(running.till, ENTRIES, chance)
    _push(running)
    for turn in range(rounds):
        rows = books.new_rows()
        sell(running.till, ENTRIES, chance)
        if turn % 2:
            pushes.append(time_ms(partial(_push, running)))
        inserts.append(time_ms(partial(books.insert, rows)))
        if not turn % 2:
            pushes.append(time_ms(partial(_push, running)))
    return pushes, inserts, rows


def sell(till: Till, count: int, chance: random.Random | None = None) -> None:
    """Sell so many orders of one to three lines."""
    chance = chance or random.Random(3)
    for _ in range(count):
        lines = tuple(
            BasketLine(f"SKU-{chance.randrange(PRODUCTS)}", MILLI * chance.randint(1, 3))
            for _ in range(chance.randint(1, 3))
        )
        order_id = till.new_order_id()
        assert isinstance(till.checkout(order_id, BasketRequest(lines=lines)), OpenOrder)
        assert isinstance(till.pay(order_id), PaidOrder)


def _push(running: RunningTill) -> None:
    pushed = running.engine.push_now()
    assert (pushed.counted, pushed.conflicts) == (ENTRIES, 0), pushed
