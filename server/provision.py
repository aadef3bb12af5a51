"""Make a chain and its first key for headquarters: what every call over HTTP needs before it can be made."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from app.domain.refusals import Refusal
from server.db import schema
from server.services import catalog, keys
from server.services.context import SYSTEM, Context, load_chain
from server.services.services import Services


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Describe a new chain; `cash_step_minor` 0 = no cash rounding, `lock_timeout_s` bounds a hold."""

    currency: str = "CNY"
    zone: str = "Asia/Shanghai"
    cash_step_minor: int = 0
    lock_timeout_s: int = 900


def provision(services: Services, plan: ChainPlan, *, keep: Callable[[str], None] | None = None) -> str | None:
    """Make the chain and return headquarters' first key; None where there is a chain already, which stays as it is.

    `keep` stores the key before the chain is there: a crash in between leaves a key that opens nothing, never a chain
    that nobody can open.
    """

    def make(conn: Connection) -> str | None:
        if conn.execute(select(schema.chain.c.id)).first() is not None:
            return None
        now = services.clock.now()
        problem = catalog.set_chain(
            conn,
            now,
            currency=plan.currency,
            zone=plan.zone,
            cash_step_minor=plan.cash_step_minor,
            lock_timeout_s=plan.lock_timeout_s,
        )
        assert not isinstance(problem, Refusal), "an empty database has no amounts in another currency"
        ctx = Context(now, services.ids, load_chain(conn), SYSTEM, services.code_key)
        token = keys.create(conn, ctx, scope="headquarters", name="first key").token
        if keep is not None:
            keep(token)
        return token

    return services.database.write(make)
