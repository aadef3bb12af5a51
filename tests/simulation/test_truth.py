"""What came back to a shop is counted from the goods, and not from what an answer said of coupons."""

from types import SimpleNamespace
from typing import Any

from server.simulation.truth import Truth


def _sold(order_id: str, *stages: tuple[str | None, tuple[int, ...]]) -> Any:
    """Return a receipt of two lines, of 1 and of 2 pieces; a stage is a coupon and what it took off each line."""
    lines = [SimpleNamespace(number=1, qty_milli=1000), SimpleNamespace(number=2, qty_milli=2000)]
    laid = [SimpleNamespace(coupon_id=coupon, shares_minor=shares) for coupon, shares in stages]
    return SimpleNamespace(order_id=order_id, quote=SimpleNamespace(lines=lines, laid=laid))


def _back(order_id: str, *lines: tuple[int, int]) -> Any:
    """Return a refund that says that it returns no coupon, as that of a use in conflict does."""
    parts = [SimpleNamespace(number=number, qty_milli=milli) for number, milli in lines]
    return SimpleNamespace(order_id=order_id, refund=SimpleNamespace(lines=parts, returned=()))


def test_a_coupon_is_back_when_all_that_it_made_cheaper_is() -> None:
    truth = Truth()
    truth.receipts["o1"] = _sold("o1", ("on both", (5, 5)), ("on the second", (0, 5)), (None, (1, 0)))
    truth.refunds |= {"r1": _back("o1", (2, 1000)), "r2": _back("o1", (2, 1000)), "r3": _back("o1", (1, 1000))}

    assert list(truth.given_back(["r1"])) == []
    assert list(truth.given_back(["r1", "r2"])) == ["on the second"]
    assert list(truth.given_back(["r1", "r2", "r3"])) == ["on both", "on the second"]


def test_a_stage_that_took_nothing_off_gives_nothing_back() -> None:
    truth = Truth()
    truth.receipts["o1"] = _sold("o1", ("for nothing", (0, 0)))
    truth.refunds["r1"] = _back("o1", (1, 1000), (2, 2000))

    assert list(truth.given_back(["r1"])) == []
