"""Scan at a till that knows 100,000 products and 1,000,000 coupons: half goods, half coupons, in random order.

`p99_1m_over_1k` compares with the same scans at a till that knows 1,000 coupons: what a thousand times the coupons
costs. Both tills take turns, scan by scan. Measured is `Till.scan`, from the text to the verdict.
"""

import random
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from app.services.api import ScanKind
from app.services.till import Till
from tests.bench.measure import percentile, take_turns
from tests.bench.real_till import open_bench_till
from tests.bench.till_data import Shop, make_shop

PRODUCTS, COUPONS, FEW_COUPONS = 100_000, 1_000_000, 1_000
WARM_UP = 200


def run(quick: bool) -> dict[str, float]:
    """Return `p50_ms`, `p99_ms`, `p99_1m_over_1k` and what they are made of."""
    rounds = 2_000 if quick else 10_000
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as folder, ExitStack() as stack:
        big = make_shop(Path(folder) / "big.db", products=PRODUCTS, coupons=COUPONS)
        small = make_shop(Path(folder) / "small.db", products=PRODUCTS, coupons=FEW_COUPONS)
        tills = [stack.enter_context(_Open(shop)) for shop in (big, small)]
        scans = [_scanner(till, shop) for till, shop in zip(tills, (big, small), strict=True)]
        take_turns(WARM_UP, *scans)
        many, few = take_turns(rounds, *scans)
    return {
        "p50_ms": percentile(many, 50),
        "p99_ms": percentile(many, 99),
        "p99_1m_over_1k": percentile(many, 99) / percentile(few, 99),
        "p99_1k_ms": percentile(few, 99),
        "products": PRODUCTS,
        "coupons": COUPONS,
        "scans": rounds,
    }


class _Open:
    """Open the till of a shop for a `with` block."""

    def __init__(self, shop: Shop) -> None:
        self._till = open_bench_till(shop)

    def __enter__(self) -> Till:
        return self._till

    def __exit__(self, *_: object) -> None:
        self._till.close()


def _scanner(till: Till, shop: Shop) -> Callable[[], None]:
    """Return a function that scans the next thing; the order is the same for every till."""
    chance = random.Random(7)

    def scan() -> None:
        goods = chance.random() < 0.5
        text = chance.choice(shop.barcodes if goods else shop.coupon_codes)
        answer = till.scan(text)
        assert answer.kind is (ScanKind.PRODUCT if goods else ScanKind.COUPON), answer

    return scan
