"""Keep the till's own settings and marks: who it is, how far it has been sent and acknowledged, what time it is."""

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from app.store.driver import run, run_each

CLOCK_TRUSTED_FOR = timedelta(hours=72)


@dataclass(frozen=True, slots=True)
class Meta:
    """Hold every value of the table; what was never written has its default.

    `acked_*`: the end of what the server has acknowledged (hash as hex, "" for number 0). `seen_*`: the tail that we
    announced last. `sent_seq`: the highest number that we ever began to send, stored BEFORE each push: up to here the
    server may know more than we do, so it alone decides refunds. `cursor`: how far the feed was applied. `incarnation`
    of the server, 0 = never met. `enrolment` is the id under which a new epoch was asked for, "" = none was.
    `epoch_since_ms`: our clock when this epoch began, or the last moment of what earlier ones tell where that is later;
    0 for the first. `last_sync_at_ms`: server's time at the end of the last sync, None = never. `rights_closed_on`: the
    date in the store on which its rights were given back for the night, "" = never. `clock_offset_ms`: server's clock
    less ours. `time_floor_ms`: no decision of this till is earlier than this.
    """

    till_id: str = ""
    store_id: str = ""
    epoch: int = 1
    boot: str = ""
    acked_seq: int = 0
    acked_hash: str = ""
    seen_seq: int = 0
    seen_hash: str = ""
    sent_seq: int = 0
    cursor: int = 0
    incarnation: int = 0
    enrolment: str = ""
    epoch_since_ms: int = 0
    last_sync_at_ms: int | None = None
    clock_offset_ms: int = 0
    time_floor_ms: int = 0
    rights_closed_on: str = ""

    @property
    def last_sync_at(self) -> datetime | None:
        """Return the instant of the last complete sync, None = never."""
        return None if self.last_sync_at_ms is None else instant(self.last_sync_at_ms)

    def corrected(self, now: datetime) -> datetime:
        """Return the till's best knowledge of the time, for deciding what is valid.

        The machine's clock, put right by what the server said last, and never before an instant that this till has
        already been told: a clock that goes back revives nothing (REQUIREMENTS D6).
        """
        return max(now + timedelta(milliseconds=self.clock_offset_ms), instant(self.time_floor_ms))

    def clock_doubt(self, now: datetime) -> str:
        """Say why this till's clock is not to be trusted, for people and for its entries; "" = it is fine.

        Nothing is decided by it. `never_checked`: no sync yet; `set_back`: it is behind what the server told;
        `long_unchecked`: the last comparison is more than `CLOCK_TRUSTED_FOR` ago, or so it seems.
        """
        if self.last_sync_at is None:
            return "never_checked"
        if now + timedelta(milliseconds=self.clock_offset_ms) < instant(self.time_floor_ms):
            return "set_back"
        return "long_unchecked" if self.corrected(now) - self.last_sync_at > CLOCK_TRUSTED_FOR else ""


_NAMES = frozenset(field.name for field in fields(Meta))


def load(conn: Connection) -> Meta:
    """Read everything; keys that this version does not know are left alone."""
    (text,) = run(conn, "SELECT json_group_object(key, json(value)) FROM meta").fetchone()
    return Meta(**{key: value for key, value in json.loads(text).items() if key in _NAMES})


def put(tx: Connection, **values: str | int | None) -> None:
    """Write values by their names in `Meta`; a name that is not there is our bug."""
    assert values.keys() <= _NAMES, f"no such setting: {values.keys() - _NAMES}"
    run_each(
        tx,
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [(key, json.dumps(value)) for key, value in values.items()],
    )


def instant(ms: int) -> datetime:
    """Return the instant of milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def instant_ms(at: datetime) -> int:
    """Return whole milliseconds since 1970."""
    return round(at.timestamp() * 1000)
