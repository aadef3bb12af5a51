"""Sell one campaign's units to more callers than there are, in every way that shops do it, side by side.

One PostgreSQL (durable: fsync on), one machine, one run. Before each round every rival gets a fresh copy of the same
database, in which 20,000 coupons of the campaign are out, and two server processes of its own on uvicorn; a load
process of 1,024 callers, each waiting for its answer, claims until all were answered or time is up. Rivals
(`rivals.py`): row lock and COUNT, optimistic versions with retries, conditional UPDATE, and a no-op as the ceiling of
HTTP with this load.
Pawtill is the whole server: keys, eligibility, Redis, landing in the database, the answer after the commit.

Two more baselines are Pawtill's own parts alone: bare batched Core inserts of the same rows that the claims wrote
(batches of 200 claims, a durable commit each), and the reserve script straight to Redis in pipelines.

`durable_over_x` is the ratio of durable claims/s, Pawtill over x; medians of interleaved rounds. `oversold` sums the
coupons beyond the stock over all rounds and rivals. `flat_cost` is what a claim costs with five million earlier claims
over what it costs with one (a hundred thousand in a quick run).
"""

import tempfile
from pathlib import Path
from statistics import median

from tests.bench.measure import percentile
from tests.bench.sale import alone, world
from tests.bench.sale.ground import PAWTILL, Ground, Sale
from tests.bench.sale.rivals import METHODS

NOOP = "noop"
RIVALS = (PAWTILL, *METHODS, NOOP)


def run(quick: bool) -> dict[str, float]:
    """Return the ratios, and the rates and times that they are made of."""
    plan = world.Plan(earlier=20_000, units=5_000 if quick else 20_000, callers=6_000 if quick else 24_000)
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as name:
        ground = Ground(Path(name), limit_s=3.0 if quick else 8.0)
        sales, bare = _take_turns(ground, plan, rounds=2 if quick else 5)
        redis_per_s = alone.reserve_per_s(Path(name), reservations=2_000 if quick else 20_000)
        flat = _flat(ground, plan, earlier=100_000 if quick else 5_000_000)
        figures = _figures(sales, bare, redis_per_s)
        return figures | flat | {"fdatasync_p50_ms": alone.fdatasync_ms(Path(name))}


def _take_turns(ground: Ground, plan: world.Plan, rounds: int) -> tuple[dict[str, list[Sale]], list[float]]:
    """Let every rival sell once a round, the first by turns; bare inserts follow the sale whose rows they are."""
    found = ground.found("sale", plan)
    sales: dict[str, list[Sale]] = {rival: [] for rival in RIVALS}
    bare = []
    for turn in range(rounds):
        for i in range(len(RIVALS)):
            rival = RIVALS[(turn + i) % len(RIVALS)]
            with ground.copy(found) as url:
                sales[rival].append(ground.sell(rival, url, found))
                if rival == PAWTILL:
                    bare.append(ground.insert_bare(url, found))
    return sales, bare


def _flat(ground: Ground, plan: world.Plan, earlier: int) -> dict[str, float]:
    """Sell with no earlier claims and with very many, in turn."""
    sizes = {size: ground.found(f"flat{size}", world.Plan(size, plan.units, plan.callers)) for size in (1, earlier)}
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(3):
        for size, found in sizes.items():
            with ground.copy(found) as url:
                rates[size].append(ground.sell(PAWTILL, url, found).per_s)
    return {"flat_cost": median(rates[1]) / median(rates[earlier]), "flat_earlier": earlier}


def _figures(sales: dict[str, list[Sale]], bare: list[float], redis_per_s: float) -> dict[str, float]:
    rates = {rival: median(sale.per_s for sale in sold) for rival, sold in sales.items()}
    rates |= {"bare_insert": median(bare), "redis": redis_per_s}
    figures = {f"durable_over_{rival}": rates[PAWTILL] / rate for rival, rate in rates.items() if rival != PAWTILL}
    figures["oversold"] = sum(sale.oversold for sold in sales.values() for sale in sold)
    optimistic = sales["optimistic"]
    claims = sum(sale.granted for sale in optimistic)
    figures["retries_optimistic"] = sum(sale.retries for sale in optimistic) / claims if claims else 0.0
    figures |= {f"{rival}_per_s": rate for rival, rate in rates.items()}
    for rival, sold in sales.items():
        times = [time for sale in sold for time in sale.latencies_ms]
        figures[f"{rival}_p50_ms"], figures[f"{rival}_p99_ms"] = median(times), percentile(times, 99)
    return figures
