"""A receipt's number finds its entry, however a person copies it from the paper."""

from __future__ import annotations

import pytest

from app.domain.receipt_number import ReceiptNumber


@pytest.mark.parametrize("typed", ["R1-1-42", "  R1-1-42\n", "R1-1-42 9f2c01ab"])
def test_a_number_is_read_with_or_without_the_mark_behind_it(typed: str) -> None:
    number = ReceiptNumber.read(typed)

    assert number == ReceiptNumber("R1", epoch=1, seq=42)
    assert str(number) == "R1-1-42"


def test_a_till_may_have_dashes_in_its_name() -> None:
    assert ReceiptNumber.read("old-town-2-3-7") == ReceiptNumber("old-town-2", epoch=3, seq=7)


@pytest.mark.parametrize(
    "typed", ["", "R1", "R1-42", "R1-1-x", "-1-42", "0190f3a2b4c57d1e8f90a1b2c3d4e5f6", "R1-1-42 zz"]
)
def test_anything_else_is_no_receipt_number(typed: str) -> None:
    assert ReceiptNumber.read(typed) is None
