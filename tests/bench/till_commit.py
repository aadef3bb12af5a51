"""Finish a sale at the till, against one bare durable commit of the same rows.

Measured is the whole of `Till.pay` for an order of five lines, paid in cash: reading the order, pricing it again with
the facts of that moment, the ledger entry with its hash, the outbox, the order, the durable commit, the receipt.
The bare commit writes the very rows that the sale has just written (entry, outbox, order), by three prepared statements
of the sqlite3 module in one `BEGIN IMMEDIATE ... COMMIT` with the same pragmas, in a file of its own on the same disk.
They take turns, sale by sale. `over_bare_commit` is the ratio of the medians.
"""

import random
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from app.domain.basket import MILLI
from app.services.api import BasketLine, BasketRequest, OpenOrder, PaidOrder
from app.services.till import Till
from app.store.database import TillDatabase
from tests.bench.measure import median, percentile, time_ms
from tests.bench.real_till import open_bench_till
from tests.bench.till_data import STORE_ID, TILL_ID, make_shop

LINES = 5
WARM_UP = 30
PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "wal_autocheckpoint=500",
    "foreign_keys=ON",
    "recursive_triggers=ON",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "mmap_size=0",
)


def run(quick: bool) -> dict[str, float]:
    """Return `over_bare_commit` and what it is made of."""
    rounds = 400 if quick else 2_000
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as name:
        shop = make_shop(Path(name) / "till.db", products=1_000, coupons=0)
        with closing(open_bench_till(shop)) as till, closing(_Bare(shop.path, Path(name) / "bare.db")) as bare:
            sales, commits = _take_turns(till, bare, WARM_UP + rounds)
    sales, commits = sales[WARM_UP:], commits[WARM_UP:]
    return {
        "over_bare_commit": median(sales) / median(commits),
        "sale_p50_ms": median(sales),
        "sale_p99_ms": percentile(sales, 99),
        "bare_p50_ms": median(commits),
        "bare_p99_ms": percentile(commits, 99),
        "sales": rounds,
    }


def _take_turns(till: Till, bare: "_Bare", rounds: int) -> tuple[list[float], list[float]]:
    """Sell and commit in turn; every other round the bare commit, of the sale before, goes first."""
    chance, sales, commits = random.Random(5), list[float](), list[float]()
    order_id = _check_out(till, chance)
    _pay(till, order_id)
    for turn in range(rounds):
        rows = bare.rows_of(order_id)
        order_id = _check_out(till, chance)
        if turn % 2:
            sales.append(time_ms(partial(_pay, till, order_id)))
        commits.append(time_ms(partial(bare.commit, rows)))
        if not turn % 2:
            sales.append(time_ms(partial(_pay, till, order_id)))
    return sales, commits


def _check_out(till: Till, chance: random.Random) -> str:
    lines = tuple(BasketLine(f"SKU-{chance.randrange(1_000)}", MILLI * chance.randint(1, 3)) for _ in range(LINES))
    order_id = till.new_order_id()
    assert isinstance(till.checkout(order_id, BasketRequest(lines=lines)), OpenOrder)
    return order_id


def _pay(till: Till, order_id: str) -> None:
    assert isinstance(till.pay(order_id), PaidOrder)


class _Bare:
    """Write rows of a till into a file of the same tables, by the sqlite3 module alone."""

    def __init__(self, source: Path, path: Path) -> None:
        TillDatabase.open(path, till_id=TILL_ID, store_id=STORE_ID).close()
        self._source = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
        self._target = sqlite3.connect(path, isolation_level=None)
        for pragma in PRAGMAS:
            self._target.execute(f"PRAGMA {pragma}").close()
        self._inserts = {name: self._insert(name) for name in ("entry", "outbox", "orders")}

    def _insert(self, table: str) -> str:
        columns = [row[1] for row in self._target.execute(f"PRAGMA table_info({table})")]
        return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"

    def rows_of(self, order_id: str) -> dict[str, tuple[Any, ...]]:
        """Return the rows that a sale wrote."""
        order = self._source.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone()
        seq = self._source.execute("SELECT entry_seq FROM orders WHERE id = ?", (order_id,)).fetchone()[0]
        entry = self._source.execute("SELECT * FROM entry WHERE seq = ?", (seq,)).fetchone()
        outbox = self._source.execute("SELECT * FROM outbox WHERE seq = ?", (seq,)).fetchone()
        return {"entry": entry, "outbox": outbox, "orders": order}

    def commit(self, rows: dict[str, tuple[Any, ...]]) -> None:
        """Write them in one durable transaction."""
        self._target.execute("BEGIN IMMEDIATE")
        for table, row in rows.items():
            self._target.execute(self._inserts[table], row)
        self._target.execute("COMMIT")

    def close(self) -> None:
        """Close both files."""
        self._source.close()
        self._target.close()
