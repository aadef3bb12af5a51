"""Bundle what use cases need, and run them: one transaction and one fresh Context each."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from app.domain.ports import Clock, Ids, Probe
from server.chain_key import ChainKey
from server.db.engine import Database
from server.services.context import SYSTEM, Actor, Context, load_chain
from server.services.keys import KeyCache
from server.services.nonces import Nonces
from server.services.pace import Pace
from server.services.refused_requests import ToldToday

if TYPE_CHECKING:
    from server.services.admission.admission import Admission

T = TypeVar("T")
UseCase = Callable[[Connection, Context], T]


def no_probe(point: str) -> None:
    """Pass a named point without effect."""


def no_guard(conn: Connection) -> None:
    """Let every write pass."""


@dataclass(frozen=True, slots=True)
class Services:
    """Hold the server's parts; `code_key` is the chain's secret under which codes are digested (32 bytes).

    `chain_key` signs what the server says to tills; `nonces` remembers which of their requests were here already.

    `guard` looks first within the transaction of every write and raises where it may not be made: a job's fence.
    `authority` is the certificate (PEM) that tills hold the server's to; "" where it is not for us to say.
    `admission` admits claims, and hears of every coupon that came another way; None where nobody claims.
    """

    database: Database
    clock: Clock
    ids: Ids
    code_key: bytes
    chain_key: ChainKey
    nonces: Nonces
    probe: Probe = no_probe
    guard: Callable[[Connection], None] = no_guard
    admission: "Admission | None" = None
    known_keys: KeyCache = field(default_factory=KeyCache)
    authority: str = ""
    pace: Pace = field(default_factory=Pace)
    refused_today: ToldToday = field(default_factory=ToldToday)

    def read(self, use_case: UseCase[T], actor: Actor = SYSTEM) -> T:
        """Run a use case that only reads, in one snapshot. Raises a DatabaseTrouble."""
        return self.database.read(lambda conn: use_case(conn, self._context(conn, actor)))

    def write(self, use_case: UseCase[T], actor: Actor = SYSTEM, *, point: str | None = None) -> T:
        """Run a use case in a transaction; return once it is durable. Raises a DatabaseTrouble.

        `point` names the probe of this write besides `after_commit`: both come when it is durable and not yet told.
        """

        def run(conn: Connection) -> tuple[T, Context]:
            self.guard(conn)
            context = self._context(conn, actor)
            return use_case(conn, context), context

        answer, context = self.database.write(run)
        if point is not None:
            self.probe(point)
        self.probe("after_commit")
        if self.admission is not None:
            self.admission.tell(context.taken)
            for campaign_id in context.changed:
                self.admission.changed(campaign_id)
        return answer

    def submit(self, use_case: UseCase[T], actor: Actor = SYSTEM) -> Future[T]:
        """Queue a use case; the future tells when it is durable. The probe, and telling what it took, is the caller's.

        Raises a DatabaseTrouble, at once or by the future.
        """

        def run(conn: Connection) -> T:
            self.guard(conn)
            return use_case(conn, self._context(conn, actor))

        return self.database.submit(run)

    def _context(self, conn: Connection, actor: Actor) -> Context:
        # The time is taken where the transaction runs, not where it queues: histories then run forward.
        return Context(self.clock.now(), self.ids, load_chain(conn), actor, self.code_key, pace=self.pace)
