"""Put together what a server process does besides answering: jobs, alerts, and the numbers that it shows."""

import os

from server import metrics
from server.http.running import Check, Running
from server.jobs.plan import Ends, plan
from server.jobs.scheduler import Scheduler
from server.scrape import Scrape
from server.services.services import Services
from server.services.timely import Heap
from server.settings import Settings
from server.stock.timely import SortedSet
from server.webhook import Webhook, silent


class Background:
    """Hold the scheduler of one process, the way out for its alerts, and its numbers.

    `running` is what the routes about running need of it. Timely messages go by Redis where `services.admission` has a
    door to one; else this process carries them itself.
    """

    def __init__(self, services: Services, settings: Settings) -> None:
        folder = settings.folder / "metrics" if settings.workers > 1 else None
        self._scrape = Scrape(services, folder=folder, worker=str(os.getpid()))
        services.database.observe = metrics.writer_group
        checks: dict[str, Check] = {}
        self.carrier: SortedSet | Heap = Heap()
        if services.admission is not None and services.admission.door is not None:
            door = services.admission.door
            checks["redis"] = services.admission.state
            self.carrier = SortedSet(door.address, prefix=door.prefix)
        self.running = Running(self._scrape, metrics_key=settings.metrics_key.get_secret_value(), checks=checks)
        secret = settings.alert_secret.get_secret_value()
        self._webhook = Webhook(settings.alert_url, secret, clock=services.clock) if settings.alert_url else None
        ends = Ends(self.carrier, tell=self._webhook or silent, publish=self._scrape.publish)
        jobs = plan(
            ends,
            stock_percent=settings.alert_stock_percent,
            # Connections spread over the processes, and each one counts what it is asked itself.
            hot_per_s=settings.alert_hot_per_s / settings.workers,
        )
        self._scheduler = Scheduler(services, jobs)

    def start(self) -> None:
        """Begin, in threads of its own."""
        self._scheduler.start()

    def stop(self) -> None:
        """End; what is under way is waited for."""
        self._scheduler.stop()
        self._scrape.withdraw()
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.carrier.close()
        if self._webhook is not None:
            self._webhook.close()
