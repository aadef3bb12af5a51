"""Make the databases of the bench: a chain, a campaign, members, and claims that were made before the sale."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine, func, insert, select, text, update

from server.db import schema
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import accounts, campaigns, catalog, grants, keys
from server.services.context import Context
from server.services.services import Services
from server.services.system import SystemClock, SystemIds

CAMPAIGN = "flash"
STORE_ID = "bench"
PROBE = "probe"
"""Has a coupon before any sale."""
BATCH = 500
DRAWN_MAX = 20_000
"""Earlier claims that go through the arbiter; more are copies of these."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Size a sale: claims made before it, units left in it, members who ask in it (each once)."""

    earlier: int  # >= 1
    units: int
    callers: int

    @property
    def early_members(self) -> list[str]:
        """Name those who have their coupon, without those who are copies of them."""
        return [PROBE, *(f"early{n}" for n in range(1, min(self.earlier, DRAWN_MAX)))]

    @property
    def copies(self) -> int:
        """Count how often all of them are copied."""
        assert self.earlier <= DRAWN_MAX or self.earlier % DRAWN_MAX == 0, "whole copies"
        return max(0, self.earlier // DRAWN_MAX - 1)

    @property
    def members(self) -> list[str]:
        """Name those who come to the sale."""
        return [f"m{n}" for n in range(self.callers)]


@dataclass(frozen=True, slots=True)
class Passes:
    """Hold the keys by which the sale is set up and claimed from."""

    headquarters: str
    app: str


def found(url: URL, folder: Path, plan: Plan) -> Passes:
    """Fill an empty database, and leave it; the key under which codes are digested goes into the folder."""
    services = open_services(url, folder=folder, clock=SystemClock(), ids=SystemIds())
    with closing(services.database):
        headquarters = provision(services, ChainPlan())
        assert headquarters is not None, "the database was empty"
        services.write(lambda conn, ctx: _set_up(conn, ctx, plan))
        grant_early(services, plan)
        if plan.copies:
            _copy_early(url, plan)
        app = services.write(lambda conn, ctx: keys.create(conn, ctx, scope="app", name="bench"))
    return Passes(headquarters, app.token)


def _set_up(conn: Connection, ctx: Context, plan: Plan) -> None:
    catalog.set_store(conn, STORE_ID, zone="Asia/Shanghai")
    members = [{"id": member, "home_store": STORE_ID} for member in (*plan.early_members, *plan.members)]
    for start in range(0, len(members), 5000):
        conn.execute(insert(schema.member), members[start : start + 5000])
    rule = {
        "id": CAMPAIGN,
        "benefit": {"type": "amount_off", "amount": "5.00"},
        "stock": plan.earlier + plan.units,
    }
    answer = campaigns.create(conn, ctx, rule)
    assert answer["outcome"] == "ok", answer


def grant_early(services: Services, plan: Plan) -> None:
    """Let those who came earlier have their coupons, through the arbiter like everyone."""
    early = plan.early_members
    for start in range(0, len(early), BATCH):
        wanted = [grants.Wanted(f"claim:{m}", CAMPAIGN, m, "app") for m in early[start : start + BATCH]]
        answers = services.write(lambda conn, ctx, wanted=wanted: grants.grant(conn, ctx, wanted))
        assert all(answer["outcome"] == "ok" for answer in answers), answers[0]


def _copy_early(url: URL, plan: Plan) -> None:
    """Write the rows of all who have their coupon so many times more, under other names, in the database itself.

    Through the arbiter five million would take half an hour. What is there then is what the arbiter would have left:
    an audit of it is clean.
    """
    engine = create_engine(url.set(drivername="postgresql+psycopg"))
    mine = {
        schema.member: ("id LIKE 'early%' OR id = :probe", {"id": "id"}),
        schema.coupon: ("true", {"id": "id", "member_id": "member_id", "code": "code", "code_digest": "code"}),
        schema.request: ("id LIKE 'claim:%'", {"id": "id", "answer": "answer->>'coupon'"}),
        schema.history: ("subject = 'coupon'", {"id": "", "subject_id": "subject_id"}),
        schema.feed: ("kind = 'coupon'", {"seq": "", "key": "key"}),
        schema.transfer: ("id LIKE 'grant:%'", {"id": "id"}),
    }
    with engine.begin() as conn:
        for table, (which, renamed) in mine.items():
            columns = [column.name for column in table.columns if renamed.get(column.name, column.name)]
            values = [_copied(name, renamed.get(name)) for name in columns]
            conn.execute(
                text(
                    f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {', '.join(values)}"
                    f" FROM {table.name} AS t, generate_series(1, :copies) AS n WHERE {which}"
                ),
                {"copies": plan.copies, **({"probe": PROBE} if ":probe" in which else {})},
            )
        account, more = schema.account, plan.copies * DRAWN_MAX
        conn.execute(
            update(account)
            .where(account.c.id == accounts.stock_id(CAMPAIGN))
            .values(available=account.c.available - more, spent=account.c.spent + more)
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text("VACUUM ANALYZE"))
    engine.dispose()


def _copied(name: str, source: str | None) -> str:
    """Return what a copy has in a column: the same, or the same and its number, in whatever the column holds."""
    if source is None:
        return f"t.{name}"
    numbered = f"(t.{source}) || '-' || n"
    if name == "code_digest":
        return f"sha256(convert_to({numbered}, 'UTF8'))"
    # An answer names the coupon.
    return f"replace(t.answer::text, t.{source}, {numbered})::json" if name == "answer" else numbered


def bodies(plan: Plan) -> bytes:
    """Return the claims of the sale, one JSON body a line."""
    line = '{{"request":"{0}","campaign":"{1}","member":"{0}"}}'
    return "\n".join(line.format(member, CAMPAIGN) for member in plan.members).encode()


def granted(conn: Connection) -> int:
    """Count the coupons of the campaign: what was sold, whatever anybody says."""
    mine = schema.coupon.c.campaign_id == CAMPAIGN
    return int(conn.execute(select(func.count()).select_from(schema.coupon).where(mine)).scalar_one())
