"""Measure two parts alone: the reserve script straight to Redis, and one durable write to the disk."""

import os
import time
from contextlib import closing
from pathlib import Path

from server.stock import scripts
from server.stock.connection import connect
from server.stock.embedded import EmbeddedRedis
from server.stock.pipeline import BATCH_MAX, BlockingStock
from server.stock.scripts import Keys, Reservation
from tests.bench.measure import median, time_ms
from tests.integration.stock.sale import open_sale

GENERATION = 1
PAGE = b"\0" * 8192
WRITES = 200


def reserve_per_s(folder: Path, reservations: int) -> float:
    """Reserve in pipelines from one connection to the bundled server, as it is set up for a shop."""
    redis = EmbeddedRedis(folder / "alone")
    assert redis.start(), "the bundled server answers"
    try:
        with closing(connect(redis.address, None)) as client:
            stock = BlockingStock(client)
            keys = Keys("alone")
            open_sale(stock, keys=keys, generation=GENERATION, total=reservations)
            now_ms = time.time_ns() // 1_000_000
            calls = [
                scripts.reserve(keys, GENERATION, Reservation(f"r{n}", f"m{n}", "0f", now_ms, now_ms + 10_000, "{}"))
                for n in range(reservations)
            ]
            took_ms = time_ms(
                lambda: [stock.run_all(calls[at : at + BATCH_MAX]) for at in range(0, len(calls), BATCH_MAX)]
            )
    finally:
        redis.stop()
    return reservations / took_ms * 1000


def fdatasync_ms(folder: Path) -> float:
    """Append a page and wait for the disk, many times; the median tells what state the disk is in."""
    with (folder / "pages").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(PAGE)
            os.fdatasync(file.fileno())

        return median([time_ms(write) for _ in range(WRITES)])
