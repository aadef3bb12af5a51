"""Plant faults in the guards of rights: holds, homes of coupons, leases (`mutants.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import update

from app.domain.states import OrderState
from app.services import checkout, leasing
from app.store import rights
from server.db import schema
from server.services import accounts, facts, given_out, homes, issue_work, issues, lent, sales, sessions
from server.services import orders as server_orders
from server.services import rights as server_rights
from server.services.answers import ok
from tests.simulation.planting import mutant, put

# ------------------------------------------------------------------ holds


@mutant("a hold that is over gives its money back")
def _holds_keep_their_money() -> Iterator[None]:
    with put((accounts, "void_pending", lambda conn, order_id, attempt, *, now: ())):
        yield


@mutant("a cancel of an order that nobody has heard of is remembered, so a late hold revives nothing")
def _no_tombstone() -> Iterator[None]:
    with put((server_orders, "_remember", lambda conn, attempt, *, state, reason: None)):
        yield


@mutant("a hold whose answer never came is given back")
def _unanswered_holds_stay() -> Iterator[None]:
    with put((checkout, "give_up", lambda parts, row, *, reason: row)):
        yield


@mutant("an attempt that is over does not hold again")
def _attempts_unfenced() -> Iterator[None]:
    def cancel(conn: Any, attempt: Any, *, reason: str) -> Any:
        row = server_orders.find(conn, attempt.order_id)
        if row is not None and row.state == OrderState.CANCELLED:
            return ok(state=row.state)
        return real(conn, attempt, reason=reason)

    real = server_orders.cancel
    with put((server_orders, "cancel", cancel)):
        yield


@mutant("an order whose payment is unknown keeps its rights, whatever the clock says (timer_voids_payment)")
def _timer_voids_payment() -> Iterator[None]:
    real = server_orders.time_out

    def time_out(conn: Any, now: Any, *, limit: int = 200) -> int:
        conn.exec_driver_sql("UPDATE orders SET state = 'HELD', held_until_at = received_at WHERE state = 'UNKNOWN'")
        return real(conn, now, limit=limit)

    with put((server_orders, "time_out", time_out)):
        yield


# ------------------------------------------------------------------ rights


@mutant("a coupon has one home")
def _home_elsewhere_is_no_reason() -> Iterator[None]:
    real = homes._reason_against

    def reason(*args: Any) -> Any:
        found = real(*args)
        return None if found is not None and found.code == "leased_elsewhere" else found

    with put((homes, "_reason_against", reason)):
        yield


@mutant("a coupon that is at home at a till is frozen by no hold")
def _holds_ignore_homes() -> Iterator[None]:
    real_facts, real_freeze = facts._coupon, server_rights.freeze

    def coupon(row: Any, *args: Any, **keys: Any) -> Any:
        return real_facts({**row, "home": None}, *args, **keys)

    def freeze(conn: Any, attempt: Any, used: Any) -> Any:
        names = ", ".join(f"'{name}'" for name in used.coupons) or "''"
        conn.exec_driver_sql(f"UPDATE coupon SET home = NULL WHERE id IN ({names}) AND state = 'ISSUED'")
        return real_freeze(conn, attempt, used)

    with put((facts, "_coupon", coupon), (server_rights, "freeze", freeze)):
        yield


@mutant("a word of an old home revives nothing (hole 2, no_fence)")
def _no_version() -> Iterator[None]:
    def take(tx: Any, coupons: Any) -> None:
        rights.run_each(
            tx,
            "INSERT INTO home (coupon_id, version, state) VALUES (?, ?, 'HOME') ON CONFLICT (coupon_id) DO UPDATE SET "
            "version = excluded.version, state = 'HOME', order_id = NULL",
            list(coupons),
        )

    with put((rights, "take_home", take)):
        yield


@mutant("what a till gave back it has no more")
def _returned_stays_home() -> Iterator[None]:
    with put((rights, "return_home", lambda tx, coupon_id, version: True)):
        yield


@mutant("a lease is closed behind all that used it, and used no more")
def _closed_lease_goes_on() -> Iterator[None]:
    with put((rights, "close", lambda tx, lease_id: True)):
        yield


@mutant("a lease that an order under way holds stays open")
def _held_lease_closes() -> Iterator[None]:
    def close(tx: Any, lease_id: str) -> bool:
        sql = "UPDATE lease SET state = 'CLOSED' WHERE id = ? AND state = 'OPEN'"
        return bool(rights.run(tx, sql, (lease_id,)).rowcount == 1)

    with put((rights, "close", close)):
        yield


@mutant("no clock takes a lease back (reclaim at expiry)")
def _leases_expire() -> Iterator[None]:
    real = server_orders.time_out

    def time_out(conn: Any, now: Any, **keys: Any) -> int:
        conn.exec_driver_sql(
            "UPDATE account SET available = available + leased, leased = 0 WHERE id IN "
            "(SELECT account_id FROM lease WHERE state = 'OPEN')"
        )
        conn.exec_driver_sql("UPDATE lease SET state = 'REVOKED' WHERE state = 'OPEN'")
        return int(real(conn, now, **keys))

    with put((server_orders, "time_out", time_out)):
        yield


@mutant("what comes back pays an overdraft first (hole 10)", disasters=True)
def _overdraft_not_netted() -> Iterator[None]:
    with put((accounts, "pay_back_overdraft", lambda conn, name, *, account_id, reason, now: 0)):
        yield


@mutant("what was used late is told", disasters=True)
def _late_use_untold() -> Iterator[None]:
    real = lent.spend_late

    def spend(conn: Any, account_id: str, amount: int, **keys: Any) -> Any:
        real(conn, account_id, amount, **keys)
        return []

    with put((lent, "spend_late", spend), (given_out, "spend_late", spend)):
        yield


@mutant("a coupon that was given out is taken from the stock")
def _gifts_cost_nothing() -> Iterator[None]:
    with put((given_out, "_take", lambda conn, lease, told, *, body: [])):
        yield


@mutant("a batch issue draws on the stock as it is, not as it was when it began (batch_snapshot)")
def _batch_draws_on_a_snapshot() -> Iterator[None]:
    real, real_create, began, gave = issue_work.grant, issues._create, dict[str, Any](), Counter[str]()

    def create(conn: Any, ctx: Any, draft: Any, **keys: Any) -> Any:
        began[f"issue:{draft.id}"] = accounts.read(conn, [accounts.stock_id(draft.campaign_id)])
        return real_create(conn, ctx, draft, **keys)

    def grant(conn: Any, ctx: Any, wanted: Any) -> Any:
        answers = real(conn, ctx, wanted)
        for task in {each.source for each in wanted}:
            gave[task] += sum(answer["outcome"] == "ok" for answer in answers)
            for stock, first in began[task].items():
                left = {"available": first.available - gave[task], "spent": first.spent + gave[task]}
                conn.execute(update(schema.account).where(schema.account.c.id == stock).values(left))
        return answers

    with put((issues, "_create", create), (issue_work, "grant", grant)):
        yield


@mutant("what a till draws on its own rights is booked on its lease")
def _lent_is_drawn_twice() -> Iterator[None]:
    def draw(conn: Any, told: Any, sale: Any, *, attempt: Any) -> Any:
        found, used = real(conn, told, sale, attempt=attempt)
        return found, server_rights.Rights(used.coupons, {**used.amounts, **found.covered.amounts})

    real = sales._draw_lent
    with put((sales, "_draw_lent", draw)):
        yield


@mutant("a till spends no more than it was lent")
def _lease_without_end() -> Iterator[None]:
    with put((rights.LeaseRow, "left", property(lambda self: 10**6 if self.state == "OPEN" else 0))):
        yield


@mutant("a lease is asked for again under its own id until it has an answer")
def _lease_asked_anew() -> Iterator[None]:
    with put((leasing.rights, "unanswered", lambda conn: [])):
        yield


@mutant("the tail that a till announces counts only against the tail that it has seen (hole 8)", disasters=True)
def _announce_without_comparison() -> Iterator[None]:
    real = sessions.hello

    def hello(conn: Any, context: Any, message: Any) -> Any:
        row = conn.exec_driver_sql(f"SELECT tail_seq, tail_hash FROM till WHERE id = '{message.till}'").one()
        seen = (row[0], row[1].hex() if row[1] else "")
        return real(conn, context, message.model_copy(update={"seen": seen}))

    with put((sessions, "hello", hello)):
        yield
