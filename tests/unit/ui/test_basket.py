"""The basket on the desk: lines keep their order, and punch-card uses stay with their line."""

from __future__ import annotations

from app.domain.basket import MAX_QTY_MILLI, Cover
from ui.counter.basket import Basket, Item


def basket(*skus: str) -> Basket:
    made = Basket("o1")
    for sku in skus:
        made, _ = made.with_item(Item(sku, 1000))
    return made


def test_a_second_piece_raises_the_line_of_the_first() -> None:
    made, number = basket("A", "B").with_item(Item("A", 1000))

    assert number == 1
    assert [(item.sku, item.qty_milli) for item in made.items] == [("A", 2000), ("B", 1000)]


def test_weighed_goods_are_a_line_each_time() -> None:
    made, _ = Basket("o1").with_item(Item("T", 500, by_weight=True))

    made, number = made.with_item(Item("T", 735, by_weight=True))

    assert number == 2 and len(made.items) == 2


def test_a_line_that_is_full_starts_another() -> None:
    made, _ = Basket("o1").with_item(Item("A", MAX_QTY_MILLI))

    made, number = made.with_item(Item("A", 1000))

    assert number == 2


def test_covers_follow_their_line_when_one_before_it_goes() -> None:
    made = basket("A", "WASH").with_cover("p1", 2).without_line(1)

    assert made.covers == (Cover("p1", 1),)


def test_covers_go_with_their_own_line() -> None:
    made = basket("WASH", "A").with_cover("p1", 1).without_line(1)

    assert made.covers == () and [item.sku for item in made.items] == ["A"]


def test_a_smaller_quantity_takes_the_covers_beyond_it_off() -> None:
    made = basket("WASH").with_qty(1, 3000).with_cover("p1", 1).with_cover("p2", 1).with_cover("p2", 1)

    assert made.with_qty(1, 2000).covers == (Cover("p1", 1), Cover("p2", 1))


def test_a_covered_unit_is_not_offered_again() -> None:
    made = basket("WASH")

    assert made.uncovered_line("WASH") == 1
    assert made.with_cover("p1", 1).uncovered_line("WASH") is None
    assert made.uncovered_line("OTHER") is None


def test_the_same_coupon_twice_is_once_on_the_order() -> None:
    made = basket("A").with_coupon("c1").with_coupon("c2").with_coupon("c1")

    assert made.use == ("c1", "c2")


def test_without_the_member_no_right_of_his_stays() -> None:
    made = basket("WASH").with_coupon("c1").with_cover("p1", 1).without_member()

    assert (made.member_id, made.use, made.covers) == (None, (), ())
    assert len(made.items) == 1
