"""Let the server have a bug that some entries meet: they wait for the version without it, and block nothing (F27)."""

import zlib
from typing import Any

from sqlalchemy import Connection

from server.services.context import Context
from server.services.judging import judge
from server.services.verdicts import Told, Verdict
from sync import protocol

KINDS = frozenset({protocol.LEASE_CLOSE, protocol.COUPON_RETURN})
"""What gives a right back: nothing that comes later is wrong because it waits."""
MEETS = 8
"""One entry of so many meets the bug, each time that it is judged."""


class Bug:
    """Judge as the server does, with a bug until it is `mended`."""

    def __init__(self) -> None:
        self.mended = False

    def judge(self, conn: Connection, context: Context, told: Told, *, body: Any) -> Verdict:
        """Judge an entry; raises RuntimeError for one that meets the bug."""
        if not self.mended and told.kind in KINDS and zlib.crc32(told.entry_id.encode()) % MEETS == 0:
            raise RuntimeError(f"a bug that {told.kind} {told.entry_id} meets")
        return judge(conn, context, told, body=body)
