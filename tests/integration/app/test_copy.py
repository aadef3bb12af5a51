"""What this till notes of its own doings is never laid over what others have done since."""

from __future__ import annotations

from app.store import coupons, orders
from app.store.orders import RefundRow
from tests.fakes.memory_world import NOON
from tests.fakes.shop import K1, Shop


def test_an_order_lets_go_of_its_own_coupons_and_of_no_others(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    with shop.till.database.write() as tx:
        coupons.mark(tx, ["k1"], state="FROZEN", order_id="o2", store_id="s1", at=NOON)

    with shop.till.database.write() as tx:
        coupons.release(tx, "o1", ["k1"])
        after_another = coupons.by_ids(tx, ["k1"])["k1"]
        coupons.release(tx, "o2", ["k1"])
        after_its_own = coupons.by_ids(tx, ["k1"])["k1"]

    assert (after_another.state, after_another.order_id) == ("FROZEN", "o2")
    assert (after_its_own.state, after_its_own.order_id) == ("ISSUED", None)


def test_a_refund_that_was_decided_is_not_forgotten(shop: Shop) -> None:
    asked = RefundRow("r1", "o1", b"content", request={"lines": None})
    decided = RefundRow("r2", "o1", b"content", body={"state": "REFUNDED"}, entry_seq=1, entry_epoch=1)

    with shop.till.database.write() as tx:
        for row in (asked, decided):
            orders.put_refund(tx, row, now=NOON)
            orders.forget_refund(tx, row.id)

    with shop.till.database.read() as conn:
        assert orders.get_refund(conn, "r1") is None
        assert orders.get_refund(conn, "r2") is not None
