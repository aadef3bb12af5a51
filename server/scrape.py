"""Write the numbers out for Prometheus: those of every server process, and those of the database.

Several processes share one port, and a scrape reaches any of them. So each writes its own numbers into a folder every
few seconds, and whoever is asked adds the others' to its own, each under the label `worker`. Prometheus' own mode for
several processes keeps every number in mapped files; it was left aside, since there no series ever ends (labels of
campaigns would grow for ever) and each count costs more than the claim's own share of it.

Text format 0.0.4 (prometheus.io, "Exposition formats").
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from server import metrics
from server.db.errors import DatabaseTrouble
from server.lookout import Lookout
from server.services import gauges
from server.services.context import NotProvisioned
from server.services.gauges import Gauges
from server.services.services import Services
from server.stock.trouble import StockTrouble

STALE_S = 15.0
"""Numbers that were not written anew for so long belong to a process that is gone."""
FORGOTTEN_S = 3600.0
GAUGES_KEPT_S = 5.0
"""How long one look into the database serves every scrape: nobody loads it by asking often."""
KINDS_MAX = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Scrape:
    """Answer scrapes of one server process, within the patience of a lookout; safe from any thread.

    `folder` is where several processes meet, None = this is the only one; `worker` tells them apart.
    """

    def __init__(
        self,
        services: Services,
        *,
        folder: Path | None = None,
        worker: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._services, self._folder, self._worker, self._monotonic = services, folder, worker, monotonic
        self._lock = threading.Lock()
        self._kept: tuple[float, list[Metric]] | None = None
        self._database = Lookout(lambda: list(self._look()))
        self._redis = Lookout(lambda: list(self._reserved()))

    def text(self) -> bytes:
        """Return everything, as it stands now."""
        own = generate_latest(metrics.registry)
        if self._folder is not None:
            own = generate_latest(_Families(merge({**self._others(), self._worker: own.decode()})))
        return own + generate_latest(_Families(self._gauges()))

    def publish(self) -> None:
        """Write this process' numbers where the others find them, every few seconds."""
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            written = self._folder / f".{self._worker}.new"
            written.write_bytes(generate_latest(metrics.registry))
            written.replace(self._folder / f"{self._worker}.prom")

    def withdraw(self) -> None:
        """Take this process' numbers away, at its end."""
        if self._folder is not None:
            (self._folder / f"{self._worker}.prom").unlink(missing_ok=True)

    def _others(self) -> dict[str, str]:
        assert self._folder is not None, "there are others"
        texts: dict[str, str] = {}
        for path in sorted(self._folder.glob("*.prom")):
            if path.stem == self._worker:
                continue
            # It may end, and take its file away, while we look.
            with suppress(OSError):
                age_s = time.time() - path.stat().st_mtime
                if age_s <= STALE_S:
                    texts[path.stem] = path.read_text("utf-8")
                elif age_s > FORGOTTEN_S:
                    path.unlink()
        return texts

    def _gauges(self) -> list[Metric]:
        now_s = self._monotonic()
        with self._lock:
            if self._kept is not None and now_s - self._kept[0] < GAUGES_KEPT_S:
                return self._kept[1]
        looks = [(each, each.look()) for each in (self._database, self._redis)]
        for lookout, look in looks:
            wait([look], timeout=lookout.left_s())
        database, redis = (look.result() if look.done() else None for _, look in looks)
        found = (database if database is not None else [_database_up(0)]) + (redis or [])
        if database is not None:
            with self._lock:
                self._kept = (now_s, found)
        return found

    def _look(self) -> Iterator[Metric]:
        hot = metrics.hot.named()
        try:
            found = self._services.read(lambda conn, ctx: gauges.read(conn, ctx.now, hot=hot))
        except NotProvisioned:
            found = None
        except DatabaseTrouble:
            yield _database_up(0)
            return
        yield _database_up(1)
        if found is not None:
            yield from _families_of(found)

    def _reserved(self) -> Iterator[Metric]:
        """Ask Redis; without an answer there is no number, rather than a wrong one."""
        if self._services.admission is not None:
            with suppress(StockTrouble, DatabaseTrouble, NotProvisioned):
                units = metrics.fold(self._services.admission.reserved())
                yield _family("pawtill_reserved", "Taken in Redis and not landed yet.", units, label="campaign")


def _families_of(found: Gauges) -> Iterator[Metric]:
    stocks = found.stocks
    left = {each.campaign_id: each.available for each in stocks}
    yield _family(
        "pawtill_stock_available", "Left, in coupons; what Redis reserved is still in it.", left, label="campaign"
    )
    total = {each.campaign_id: each.total for each in stocks}
    yield _family("pawtill_stock_size", "Put in so far, in coupons.", total, label="campaign")
    granted = {each.campaign_id: each.granted for each in stocks}
    yield _family("pawtill_stock_granted", "Granted so far, in coupons.", granted, label="campaign")
    kinds = metrics.fold(found.findings, KINDS_MAX)
    yield _family("pawtill_findings_open", "Findings that wait for a person.", kinds, label="kind")
    waiting = {lag.topic: lag.waiting for lag in found.lags}
    yield _family("pawtill_outbox_waiting", "Messages past their time and not sent.", waiting, label="topic")
    oldest_s = {lag.topic: lag.oldest_s for lag in found.lags}
    yield _family("pawtill_outbox_lag_seconds", "How long the oldest of them has waited.", oldest_s, label="topic")
    yield _family("pawtill_orders_waiting", "Orders held, or of unknown payment.", found.waiting_orders, label="state")


def _family(name: str, documentation: str, values: Mapping[str, float], *, label: str) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=[label])
    for value_of, value in values.items():
        family.add_metric([value_of], value)
    return family


def _database_up(up: int) -> Metric:
    return GaugeMetricFamily("pawtill_database_up", "1 where the database answers, within 2.5 s.", value=up)


class _Collector(Protocol):
    def collect(self) -> Iterable[Metric]: ...


class _Families:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def merge(texts: Mapping[str, str]) -> Iterator[Metric]:
    """Put the numbers of several processes side by side, each under its label `worker`."""
    families: dict[str, Metric] = {}
    for worker, text in sorted(texts.items()):
        for family in text_string_to_metric_families(text):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                known.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)
    yield from families.values()
