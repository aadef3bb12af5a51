"""Find the best of 50 coupons on 50 lines, exact (`generate_baskets` describes the baskets).

The goal is p99 < 50 ms for `SHOP`: 25 campaigns in 5 groups, so an order takes coupons of up to 5 campaigns.
`p50_over_price` compares with pricing the same baskets once with all coupons scanned. `free_...` is the hard end: every
campaign has a group of its own and may be combined with all others. There a search may take long; it is stopped after
`PATIENCE_S`, as a till does, and counted in `free_inexact`.
"""

import time
from collections.abc import Sequence

from app.domain.best import Best, best_combination
from app.domain.facts import OrderFacts
from app.domain.pricing import price
from tests.bench.generate_baskets import Shape, make_basket
from tests.bench.measure import percentile, take_turns

SHOP = Shape("shop")
FREE = Shape("free", groups=0)
PATIENCE_S = 2.0


def run(quick: bool) -> dict[str, float]:
    """Return times of exact searches in milliseconds and how many were stopped before they were exact."""
    shop, shop_inexact, over_price = _measure([make_basket(seed, SHOP) for seed in range(100 if quick else 1000)])
    free, free_inexact, _ = _measure([make_basket(seed, FREE) for seed in range(10 if quick else 100)])
    return {
        "p50_ms": percentile(shop, 50),
        "p99_ms": percentile(shop, 99),
        "max_ms": max(shop),
        "cases": len(shop),
        "inexact": shop_inexact,
        "p50_over_price": over_price,
        "free_p50_ms": percentile(free, 50),
        "free_max_ms": max(free),
        "free_cases": len(free),
        "free_inexact": free_inexact,
    }


def _measure(baskets: Sequence[OrderFacts]) -> tuple[list[float], int, float]:
    """Return each search's milliseconds, how many were stopped, and how often the median search is one pricing."""
    best_ms: list[float] = []
    price_ms: list[float] = []
    inexact_count = 0
    for facts in baskets:
        found: list[Best] = []
        searched, priced = take_turns(1, lambda f=facts, out=found: out.append(_search(f)), lambda f=facts: price(f))
        best_ms += searched
        price_ms += priced
        inexact_count += not found[0].exact
    return best_ms, inexact_count, percentile(best_ms, 50) / percentile(price_ms, 50)


def _search(facts: OrderFacts) -> Best:
    until = time.perf_counter() + PATIENCE_S
    return best_combination(facts, keep_going=lambda _: time.perf_counter() < until)
