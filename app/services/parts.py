"""Hold what every use case of the till works with, wired once by `opening.open_till`."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rule_json import read_rule
from app.domain.rules import Rule
from app.services.ports import Busy, Clock, HeadOffice, Ids, Offline, PaymentPort, Probe
from app.store.database import TillDatabase
from app.store.errors import StoreError


class RuleBook:
    """Read each snapshot's rule once: a snapshot never changes, and a rule is read at every scan."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule | Refusal] = {}

    def read(self, snapshot_id: str, text: str, currency: Currency) -> Rule | Refusal:
        """Return the rule, or `invalid_campaign` where it has something that this version does not know."""
        known = self._rules.get(snapshot_id)
        if known is None:
            known = self._rules[snapshot_id] = read_rule(json.loads(text), currency)
        return known


@dataclass(slots=True)
class Parts:
    """Bundle the till's database, its ports and its secrets.

    `code_key` is the chain's key for the digests of coupon codes. `operator` is who is signed in, `language` ("zh" or
    "en") that of product names. `ordering` is held by the use case that changes orders, so that two never work on one
    order; reading does not need it. `kept` is what `gathering` read of the last pull.
    """

    database: TillDatabase
    clock: Clock
    ids: Ids
    head_office: HeadOffice
    payments: PaymentPort
    code_key: bytes
    probe: Probe
    store_id: str
    rules: RuleBook = field(default_factory=RuleBook)
    operator: str = ""
    language: str = "zh"
    ordering: threading.Lock = field(default_factory=threading.Lock)
    kept: object = None

    @property
    def till_id(self) -> str:
        """Return who we are."""
        return self.database.ledger.till_id

    def now(self) -> datetime:
        """Return the machine's time, not corrected: what entries say."""
        return self.clock.now()

    @contextmanager
    def recording(self) -> Iterator[Connection]:
        """Run a transaction that appends an entry, passing the points at which a test may let the till die.

        Where the use case finds that there is nothing to append, nothing is passed.
        """
        with self.database.write() as tx:
            yield tx
            appended = self.database.ledger.appended is not None
            if appended:
                self.probe("before_commit")
        if appended:
            self.probe("after_commit")

    def push_first(self, **facts: object) -> Refusal | None:
        """Push what is pending, so that the server knows what went before the question that follows.

        Returns why the question cannot be put now (`needs_online`, `busy`, with these facts), None = it can.
        """
        if not self.head_office.online:
            return refuse(RefusalCode.NEEDS_ONLINE, **facts)
        with self.database.read() as conn:
            pending, _ = self.database.ledger.counts(conn)
        if not pending:
            return None
        try:
            self.head_office.flush()
        except Offline:
            return refuse(RefusalCode.NEEDS_ONLINE, **facts)
        except Busy as busy:
            return refuse(busy.code, retry_after_s=busy.retry_after_s, **facts)
        return None

    def push_soon(self) -> None:
        """Push what is pending if the server can be reached; what it does not get now it gets with the next sync.

        Nor does it matter whether the answer can be noted (a full disk): what is to be pushed is saved already, and who
        has done it must not hear that it was not.
        """
        if self.head_office.online:
            try:
                self.head_office.flush()
            except (Offline, Busy, StoreError):
                return

    def pull_now(self) -> None:
        """Pull what changed if the server can be reached; else the copy stays as it is."""
        if self.head_office.online:
            try:
                self.head_office.refresh()
            except (Offline, Busy, StoreError):
                return
