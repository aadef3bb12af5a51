"""Move countable value between the compartments of an account: stock, budgets, stored value, card uses.

Every move is a transfer with an id made from what it is for, so a repeat is the same transfer (DESIGN, "The one idea").
One conditional UPDATE moves the value: what is not there cannot be taken, whoever races. The table's CHECK holds
`total + over = available + held + reserved + leased + spent + stranded` against every code path.

`source` and `target` name a compartment, or "outside" (the account's total grows or shrinks), or "over" (an overdraft
grows as a source and is paid back as a target).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache

from sqlalchemy import BindParameter, Connection, Row, Update, bindparam, insert, select, update

from app.domain.rights import BUDGET, RISK, STOCK, USES, VALUE, budget_id, stock_id, uses_id, value_id
from server.db.bulk import BulkInsert, Lookup
from server.db.schema import COMPARTMENTS, account, transfer

__all__ = [
    "AVAILABLE",
    "BUDGET",
    "HELD",
    "LEASED",
    "OUTSIDE",
    "OVER",
    "RISK",
    "SPENT",
    "STOCK",
    "STRANDED",
    "USES",
    "VALUE",
    "Account",
    "Move",
    "add",
    "budget_id",
    "open_account",
    "pay_back_overdraft",
    "post",
    "post_new",
    "post_pending",
    "read",
    "reserve",
    "stock_id",
    "uses_id",
    "value_id",
    "void_pending",
]

OUTSIDE, OVER, AVAILABLE, HELD, SPENT = "outside", "over", "available", "held", "spent"
LEASED, STRANDED = "leased", "stranded"

# These two stand on the left of the equation, so as a source they grow.
_LEFT = {OUTSIDE: "total", OVER: "over"}


@dataclass(frozen=True, slots=True)
class Move:
    """Describe one transfer of `amount` (> 0; pieces, uses, or minor units) from `source` to `target`.

    `lease_id` names the lease that it grants, draws on or closes.
    """

    transfer_id: str
    account_id: str
    source: str
    target: str
    amount: int
    reason: str
    order_id: str | None = None
    attempt: int | None = None
    lease_id: str | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """Hold an account as it stands; every number is 0 or more."""

    id: str
    kind: str
    total: int
    over: int
    available: int
    held: int
    reserved: int
    leased: int
    spent: int
    stranded: int

    @property
    def standing(self) -> int:
        """Sum up everything that is not spent: what people are shown as their balance or uses."""
        return self.available + self.held + self.reserved + self.leased + self.stranded


_FIELDS = tuple(each.name for each in fields(Account))
_ACCOUNTS = Lookup(select(*(account.c[name] for name in _FIELDS)), account.c.id)
_TRANSFER = select(transfer).where(transfer.c.id == bindparam("of"))
_TRANSFERS = BulkInsert(transfer, *transfer.c.keys())
_PENDING = (
    select(transfer)
    .where(
        transfer.c.order_id == bindparam("order"),
        transfer.c.attempt == bindparam("number"),
        transfer.c.state == "PENDING",
    )
    .order_by(transfer.c.account_id, transfer.c.id)
)
_RESOLVED = (
    update(transfer).where(transfer.c.id == bindparam("of")).values(state=bindparam("to"), resolved_at=bindparam("at"))
)


def open_account(conn: Connection, account_id: str, *, kind: str, total: int, now: datetime) -> None:
    """Open an account with `total` available; one that is open already stays as it is."""
    if account_id in read(conn, [account_id]):
        return
    conn.execute(insert(account).values(id=account_id, kind=kind, total=0))
    if total:
        add(conn, f"open:{account_id}", account_id=account_id, amount=total, reason="opened", now=now)


def add(conn: Connection, transfer_id: str, *, account_id: str, amount: int, reason: str, now: datetime) -> None:
    """Put `amount` in from outside; it is available at once."""
    done = post(conn, Move(transfer_id, account_id, OUTSIDE, AVAILABLE, amount, reason), now)
    assert done, "what comes from outside is never too little"


def post(conn: Connection, move: Move, now: datetime) -> bool:
    """Move at once; False = not enough, and nothing is written. A transfer made before is True and changes nothing."""
    return _make(conn, move, through=move.target, state="POSTED", now=now)


def post_new(conn: Connection, move: Move, now: datetime) -> bool:
    """Move at once, under an id drawn for this move alone: nobody looks for it, and a repeat is an IntegrityError."""
    return _write(conn, move, through=move.target, state="POSTED", now=now)


def reserve(conn: Connection, move: Move, now: datetime) -> bool:
    """Move to `held`, PENDING, until `post_pending` moves it on or `void_pending` back; answers as `post` does."""
    assert move.order_id is not None and move.attempt is not None, "what is held is held by an attempt of an order"
    assert move.source in COMPARTMENTS and move.target in COMPARTMENTS, "only value that is here can be held"
    return _make(conn, move, through=HELD, state="PENDING", now=now)


def post_pending(conn: Connection, order_id: str, attempt: int, *, now: datetime) -> tuple[str, ...]:
    """Move what the attempt holds on to its targets; returns the accounts touched, () where nothing is pending."""
    return _resolve(conn, order_id, attempt, state="POSTED", now=now)


def void_pending(conn: Connection, order_id: str, attempt: int, *, now: datetime) -> tuple[str, ...]:
    """Move what the attempt holds back to its sources; returns the accounts touched, () where nothing is pending."""
    return _resolve(conn, order_id, attempt, state="VOIDED", now=now)


def pay_back_overdraft(conn: Connection, transfer_id: str, *, account_id: str, reason: str, now: datetime) -> int:
    """Let what is available pay back an overdraft before anyone may have it again (PROTOCOL 1.3); returns how much."""
    found = read(conn, [account_id])[account_id]
    amount = min(found.over, found.available)
    if amount:
        done = post(conn, Move(transfer_id, account_id, AVAILABLE, OVER, amount, reason), now)
        assert done, "one writer: what was read a line above is still there"
    return amount


def read(conn: Connection, ids: Iterable[str]) -> dict[str, Account]:
    """Return the accounts by id; an id without account is left out."""
    return {row.id: Account(*tuple(row)) for row in _ACCOUNTS.rows(conn, list(ids))}


def _make(conn: Connection, move: Move, *, through: str, state: str, now: datetime) -> bool:
    known = conn.execute(_TRANSFER, {"of": move.transfer_id}).one_or_none()
    if known is not None:
        same = (known.account_id, known.source, known.target, known.amount)
        assert same == (move.account_id, move.source, move.target, move.amount), f"{move.transfer_id} is another move"
        return bool(known.state != "VOIDED")
    return _write(conn, move, through=through, state=state, now=now)


def _write(conn: Connection, move: Move, *, through: str, state: str, now: datetime) -> bool:
    assert move.amount > 0, "a transfer moves something"
    if not _shift(conn, move.account_id, source=move.source, target=through, amount=move.amount):
        return False
    row = (
        move.transfer_id,
        move.account_id,
        move.source,
        move.target,
        move.amount,
        state,
        move.order_id,
        move.attempt,
        move.lease_id,
        move.reason,
        now,
        now if state == "POSTED" else None,
    )
    _TRANSFERS.run(conn, [row])
    return True


def _shift(conn: Connection, account_id: str, *, source: str, target: str, amount: int) -> bool:
    """Move `amount` by one conditional UPDATE; False = the account has not enough (or is not there)."""
    if source == target:
        return True
    return conn.execute(_shifting(source, target), {"of": account_id, "amount": amount}).rowcount == 1


@cache
def _shifting(source: str, target: str) -> Update:
    """Return the UPDATE that moves between two compartments; there are a few dozen."""
    columns = account.c
    amount: BindParameter[int] = bindparam("amount")
    changed = {columns.version: columns.version + 1}
    statement = update(account).where(columns.id == bindparam("of"))
    if source in _LEFT:
        changed[columns[_LEFT[source]]] = columns[_LEFT[source]] + amount
    else:
        changed[columns[source]] = columns[source] - amount
        statement = statement.where(columns[source] >= amount)
    if target in _LEFT:
        changed[columns[_LEFT[target]]] = columns[_LEFT[target]] - amount
        statement = statement.where(columns[_LEFT[target]] >= amount)
    else:
        changed[columns[target]] = columns[target] + amount
    return statement.values(changed)


def _resolve(conn: Connection, order_id: str, attempt: int, *, state: str, now: datetime) -> tuple[str, ...]:
    pending: Sequence[Row[tuple[object, ...]]] = conn.execute(_PENDING, {"order": order_id, "number": attempt}).all()
    for row in pending:
        target = row.target if state == "POSTED" else row.source
        moved = _shift(conn, row.account_id, source=HELD, target=target, amount=row.amount)
        assert moved, "a pending transfer sits in held"
        conn.execute(_RESOLVED, {"of": row.id, "to": state, "at": now})
    return tuple(dict.fromkeys(str(row.account_id) for row in pending))
