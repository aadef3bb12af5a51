"""Ask the server for a new epoch, and for what it does not have of the old ones (PROTOCOL 3.6)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

from app.domain.ports import Progress, Step, no_progress
from app.services.epochs import Begun, Mark, NewEpoch, Waiting
from app.services.ports import Busy, Offline
from app.services.till import Till
from app.store import recovery
from app.store.instance_lock import InstanceLock
from app.store.second_copy import SecondCopy
from sync.client import ServerClient
from sync.engine import SyncEngine
from sync.hello import Stop, SyncStopped
from sync.protocol import (
    ENROL_PATH,
    PROTOCOL,
    UNKNOWN_MAX_IDS,
    UNKNOWN_PATH,
    Enrol,
    EnrolAnswer,
    Unknown,
    UnknownAnswer,
)

MENDED = frozenset({Stop.EPOCH, Stop.ROWS_LOST, Stop.FORK, Stop.BROKEN_CHAIN})
"""What a new epoch mends; a till that headquarters has revoked stays out, and a damaged file is recovered first."""


class ServerRegistry:
    """Be a till's registry (`app.services.epochs.Registry`) over one client, by the key that it has."""

    def __init__(self, client: ServerClient, till_id: str, progress: Progress = no_progress) -> None:
        self._client = client
        self._till_id = till_id
        self._progress = progress

    def new_epoch(self, enrolment_id: str, *, epoch: int, last: Mark) -> NewEpoch:
        """Ask for a new epoch. Raises Offline and Busy; Misunderstood where this key has begun one already."""
        message = Enrol(proto=PROTOCOL, till=self._till_id, enrolment=enrolment_id, epoch=epoch, last=last)
        answer = self._client.exchange(ENROL_PATH, message, EnrolAnswer)
        waiting = tuple(Waiting(each.order, each.attempt, each.state, each.told) for each in answer.pending)
        return NewEpoch(
            answer.epoch,
            answer.tail,
            forked=answer.forked,
            booked_until_ms=answer.booked_until_ms,
            waiting=waiting,
        )

    def unknown(self, entry_ids: Sequence[str]) -> set[str]:
        """Ask what the server does not have, page by page."""
        found: set[str] = set()
        for start in range(0, len(entry_ids), UNKNOWN_MAX_IDS):
            page = list(entry_ids[start : start + UNKNOWN_MAX_IDS])
            answer = self._client.exchange(
                UNKNOWN_PATH, Unknown(proto=PROTOCOL, till=self._till_id, entries=page), UnknownAnswer
            )
            found.update(answer.unknown)
            self._progress(Step.COMPARE, start + len(page), len(entry_ids))
        return found


def rejoin(till: Till, engine: SyncEngine, client: ServerClient, *, progress: Progress = no_progress) -> Begun | None:
    """Let a till go on that has come with a new key: in a new epoch, where its ledger is not the server's any more.

    None = both are one, nothing is to be done. Raises Offline, Busy, and SyncStopped where a new key does not help.
    """
    with engine.watched(progress):
        try:
            engine.look()
        except SyncStopped as stopped:
            if stopped.stop not in MENDED:
                raise
            engine.pull_first()
            with engine.paused():
                return till.begin_epoch(ServerRegistry(client, till.till_id, progress), progress=progress)
    return None


Opened = Callable[[Path], AbstractContextManager[tuple[Till, SyncEngine, ServerClient]]]


def recover(
    path: Path,
    opened: Opened,
    *,
    who: tuple[str, str],
    copy: SecondCopy | None,
    new_id: str,
    progress: Progress = no_progress,
) -> Begun | None:
    """Recover a damaged or lost ledger of a till (`who`: till and store) from all that is left, into a new epoch.

    Until the server has opened that epoch nothing at `path` is changed; a try that broke off goes on where it was, and
    answers None where only the putting in place was left. `new_id` is for the enrolment; `opened` opens the till on a
    file. Raises LedgerLocked, Offline, Busy and what the store raises.
    """
    till_id, store_id = who
    with closing(InstanceLock(path)):
        known, begun = recovery.enrolment_of(path), None
        if known != "":
            saved = recovery.salvage(
                path, till_id=till_id, store_id=store_id, copy=copy, enrolment=known or new_id, progress=progress
            )
            with opened(recovery.working_file(path)) as (till, engine, client), engine.watched(progress):
                registry = ServerRegistry(client, till_id, progress)
                engine.pull_first()
                with engine.paused():
                    last = (saved.last_seq, "")
                    begun = till.begin_epoch(
                        registry, last=last, gaps=not saved.whole, beside=saved.beside, progress=progress
                    )
                with suppress(Offline, Busy):
                    # Goods and prices are the server's; a till that does not get them now gets them when it starts.
                    engine.run_once()
        recovery.put_in_place(path)
    return begun
