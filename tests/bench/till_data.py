"""Make a till's database of a given size, with codes to scan: as big as a chain, filled in seconds.

The rows are those that the feed would have brought. Coupons that nobody scans get random bytes as the digest of their
code: to the index they are the same, and a million HMACs would take longer than the bench.
"""

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.domain import codes
from app.store.database import TillDatabase

TILL_ID, STORE_ID = "B1", "bench"
CODE_KEY = bytes(range(32))
MEMBERS = 10_000
RULES = (
    {"benefit": {"type": "amount_off", "amount": "50.00"}, "min_spend": "199.00", "group": "food"},
    {"benefit": {"type": "percent_off", "percent": 15, "max_discount": "30.00"}, "group": "treats"},
    {"benefit": {"type": "fixed_price", "price": "0.01"}, "scope": {"include": {"skus": ["SKU-1"]}}, "group": "wash"},
)


@dataclass(frozen=True, slots=True)
class Shop:
    """Name what can be scanned in the database that was made."""

    path: Path
    barcodes: tuple[str, ...]
    coupon_codes: tuple[str, ...]


def make_shop(path: Path, *, products: int, coupons: int, sample: int = 2000) -> Shop:
    """Make the database; of each kind at most `sample` codes, spread over everything, are given out to be scanned."""
    TillDatabase.open(path, till_id=TILL_ID, store_id=STORE_ID).close()
    chance = random.Random(products + coupons)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-200000"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        _fill_chain(connection)
        barcodes = _fill_products(connection, products)
        coupon_codes = _fill_coupons(connection, coupons, chance=chance, sample=min(sample, coupons))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    return Shop(path, tuple(chance.sample(barcodes, min(sample, products))), coupon_codes)


def _fill_chain(connection: sqlite3.Connection) -> None:
    chain = {"currency": "CNY", "zone": "Asia/Shanghai", "cash_step_minor": 10, "lock_timeout_s": 900}
    connection.execute("INSERT INTO chain (key, record) VALUES ('chain', ?)", (json.dumps(chain),))
    connection.execute("INSERT INTO store (id, zone) VALUES (?, 'Asia/Shanghai')", (STORE_ID,))
    for number, rule in enumerate(RULES):
        name, snapshot = f"c{number}", f"c{number}/1"
        text = json.dumps({"name": f"Campaign {number}", "kind": "coupon", **rule})
        connection.execute("INSERT INTO snapshot (id, campaign_id, rule) VALUES (?, ?, ?)", (snapshot, name, text))
        connection.execute(
            "INSERT INTO campaign (id, kind, state, snapshot_id) VALUES (?, 'coupon', 'ACTIVE', ?)", (name, snapshot)
        )
    connection.executemany(
        "INSERT INTO member (id, tier, home_store, label, has_ordered, balance_minor) VALUES (?, 'basic', ?, ?, 1, 0)",
        ((f"M{n}", STORE_ID, f"138****{n:04d}") for n in range(MEMBERS)),
    )


def _fill_products(connection: sqlite3.Connection, count: int) -> list[str]:
    barcodes = [_gtin13(f"69{number:010d}") for number in range(count)]
    connection.executemany(
        "INSERT INTO product (sku, name, name_en, price_minor, category, brand, barcode, kind, by_weight) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 'goods', 0)",
        (
            (f"SKU-{n}", f"商品{n}", f"Product {n}", 500 + n % 20_000, f"cat{n % 40}", f"brand{n % 300}", "0" + barcode)
            for n, barcode in enumerate(barcodes)
        ),
    )
    return barcodes


def _gtin13(body: str) -> str:
    """Return 12 digits with their check digit (GS1 General Specifications, section 7.9)."""
    total = sum(int(digit) * (3 if i % 2 else 1) for i, digit in enumerate(body))
    return body + str(-total % 10)


def _fill_coupons(connection: sqlite3.Connection, count: int, *, chance: random.Random, sample: int) -> tuple[str, ...]:
    given = {
        codes.make_code(codes.MEMBER_COUPON, lambda n: "".join(chance.choices("0123456789", k=n)))
        for _ in range(sample)
    }
    digests = [codes.code_digest(CODE_KEY, code) for code in sorted(given)]
    digests += [chance.randbytes(32) for _ in range(count - len(digests))]
    # In the order of the digests, so that the index grows at its end: ten times faster to make, the same to search.
    digests.sort()
    connection.executemany(
        "INSERT INTO coupon (id, code_digest, campaign_id, snapshot_id, member_id, state) VALUES (?, ?, ?, ?, ?, ?)",
        (
            (f"{n:032x}", digest, f"c{n % 3}", f"c{n % 3}/1", f"M{n % MEMBERS}", "ISSUED")
            for n, digest in enumerate(digests)
        ),
    )
    return tuple(chance.sample(sorted(given), len(given)))
