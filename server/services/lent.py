"""Book what a till used of the rights that it had: leases and homes that its sale names (PROTOCOL 1.3, 1.4).

Whatever it had a right to is in order. A right that headquarters has taken back meanwhile was used late: it happened,
so what is there is taken, the rest is an overdraft, and both stand in a finding.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from app.domain.rights import Rights
from server.db.bulk import Lookup
from server.db.schema import coupon
from server.services import accounts, feed_records, leases, rights
from server.services.adopting import adopt_named
from server.services.entries import DrawsBody
from server.services.rights import Attempt, Excess, LostRace, Record
from server.services.verdicts import Told

_HOMES = Lookup(select(coupon.c.id, coupon.c.home, coupon.c.version), coupon.c.id)
NOTHING: DrawsBody = {"leases": [], "coupons": []}


@dataclass(frozen=True, slots=True)
class Lent:
    """Hold what was booked.

    `covered` needs no hold. `late` are coupons whose home had been taken back: they are still to be drawn.
    """

    covered: Rights
    late: frozenset[str]
    touched: tuple[Record, ...]
    excess: tuple[Excess, ...]


def draw(conn: Connection, told: Told, attempt: Attempt, *, named: DrawsBody | None, used: Rights) -> Lent:
    """Book what a sale names of leases and homes, as far as it `used` that; what it names beyond is a mismatch."""
    named = named or NOTHING
    booked = _Booked(conn, attempt, dict(used.amounts))
    for each in named["leases"]:
        booked.draw(leases.of_told(conn, told, each["lease"]), each["lease"], each["amount"])
    versions = {each["coupon"]: each["version"] for each in named["coupons"] if each["coupon"] in used.coupons}
    at_home = _use_at_home(conn, told, attempt, versions=versions)
    amounts = {name: used.amounts[name] - left for name, left in booked.left.items() if left < used.amounts[name]}
    return Lent(
        covered=Rights(at_home, amounts),
        late=frozenset(versions) - at_home,
        touched=(*((feed_records.COUPON, name) for name in sorted(at_home)), *booked.touched),
        excess=tuple(booked.excess()),
    )


class _Booked:
    """Draw on leases one by one; `left` is what the sale used of each account and no lease has covered yet."""

    def __init__(self, conn: Connection, attempt: Attempt, left: dict[str, int]) -> None:
        self._conn, self._attempt, self.left = conn, attempt, left
        self.touched: list[Record] = []
        self._wrong: Counter[tuple[str, str]] = Counter()

    def draw(self, row: Row[Any] | None, lease_id: str, amount: int) -> None:
        """Spend `amount` of a lease, as far as it goes and the sale has used that."""
        left = 0 if row is None else self.left.get(row.account_id, 0)
        taken = min(amount, left, lent_left(row))
        if taken < amount:
            self._wrong["lease_mismatch", lease_id] += amount - taken
        if row is None or not taken:
            return
        attempt = self._attempt
        use = Use(f"{attempt.order_id}:{attempt.number}", attempt.now, attempt.order_id, attempt.number)
        for each in spend(self._conn, row, taken, use=use):
            self._wrong[each.kind, each.subject] += each.amount
        self.left[row.account_id] -= taken
        self.touched += [(feed_records.LEASE, lease_id), *rights.account_records([row.account_id])]

    def excess(self) -> Iterable[Excess]:
        """Return what was not in order, one for each kind and subject."""
        return (Excess(kind, subject, amount) for (kind, subject), amount in sorted(self._wrong.items()))


@dataclass(frozen=True, slots=True)
class Use:
    """Say what spends of a lease: `name` tells it from every other use of the same lease."""

    name: str
    now: datetime
    order_id: str | None = None
    attempt: int | None = None


def lent_left(row: Row[Any] | None) -> int:
    """Return what a till may still name of a lease: nothing once it has closed it."""
    return 0 if row is None or row.state == leases.CLOSED else int(row.qty - row.used)


def spend(conn: Connection, row: Row[Any], amount: int, *, use: Use) -> list[Excess]:
    """Spend what a till used of a lease, at most `lent_left`.

    It sits in `leased`, or in `stranded` where the till is lost. Where headquarters has revoked the lease, what is
    available is taken, and the rest is an overdraft; both are told.
    """
    leases.use(conn, row.id, amount)
    if row.state == leases.OPEN:
        _post(conn, row.account_id, leases.left_in(row), amount=amount, use=use, lease_id=row.id)
        return []
    return spend_late(conn, row.account_id, amount, use=use, lease_id=row.id)


def spend_late(
    conn: Connection, account_id: str, amount: int, *, use: Use, lease_id: str | None = None
) -> list[Excess]:
    """Spend what no lease covers any more: it happened."""
    there = min(amount, accounts.read(conn, [account_id])[account_id].available)
    excess = []
    for kind, source, part in (("late_use", accounts.AVAILABLE, there), ("overdraft", accounts.OVER, amount - there)):
        if part:
            _post(conn, account_id, source, amount=part, use=use, lease_id=lease_id)
            excess.append(Excess(kind, account_id, part))
    return excess


def _post(conn: Connection, account_id: str, source: str, *, amount: int, use: Use, lease_id: str | None) -> None:
    move = accounts.Move(
        f"lease:{lease_id or account_id}:{source}:{use.name}",
        account_id,
        source,
        target=accounts.SPENT,
        amount=amount,
        reason="lease",
        order_id=use.order_id,
        attempt=use.attempt,
        lease_id=lease_id,
    )
    if not accounts.post(conn, move, use.now):
        raise LostRace(f"account {account_id} moved meanwhile")


def _use_at_home(conn: Connection, told: Told, attempt: Attempt, *, versions: dict[str, int]) -> frozenset[str]:
    """Use the coupons whose home is that till in that version; returns which these are. Their home ends with it."""
    if told.restoring:
        adopt_named(conn, told.till_id, versions)
    rows = _HOMES.rows(conn, versions)
    mine = sorted(row.id for row in rows if (row.home, row.version) == (told.till_id, versions[row.id]))
    if mine:
        rights.use_unheld(conn, attempt, mine, home=told.till_id)
    return frozenset(mine)


def late_uses(lent: Lent, excess: Iterable[Excess]) -> list[Excess]:
    """Return the coupons that were used late and were there to be used; the others stand in `excess` already."""
    lost = {each.subject for each in excess}
    return [Excess("late_use", name) for name in sorted(lent.late - lost)]
