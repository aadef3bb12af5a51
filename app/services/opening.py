"""Wire a till together: the one place where its database, its ports and its secrets meet."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from app.services import restart
from app.services.parts import Parts
from app.services.ports import Clock, HeadOffice, Ids, PaymentPort, Probe, no_probe
from app.services.till import Till
from app.store.database import BUSY_TIMEOUT_MS, Disk, TillDatabase


def open_till(
    path: Path,
    *,
    till_id: str,
    store_id: str,
    clock: Clock,
    ids: Ids,
    code_key: bytes,
    connect: Callable[[TillDatabase], HeadOffice],
    payments: PaymentPort,
    probe: Probe = no_probe,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    disk: Disk = sqlite3.Connection,
) -> Till:
    """Open a till on its file (made where it is not there yet) and give back holds that nobody waits for any more.

    `connect` makes the head office on the open database. Raises what `TillDatabase.open` raises; a damaged file opens,
    see `Till.status().damaged`. Who opens a till closes it.
    """
    database = TillDatabase.open(path, till_id=till_id, store_id=store_id, busy_timeout_ms=busy_timeout_ms, disk=disk)
    try:
        parts = Parts(
            database=database,
            clock=clock,
            ids=ids,
            head_office=connect(database),
            payments=payments,
            code_key=code_key,
            probe=probe,
            store_id=store_id,
        )
        if not database.damaged:
            restart.give_back(parts)
    except BaseException:
        database.close()
        raise
    return Till(parts)
