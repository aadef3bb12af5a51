"""A quote answers who is refused first, in the order in which things came to the counter."""

import pytest

from app.domain.basket import Cover
from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode

EXPIRED, FROZEN = Refusal(RefusalCode.EXPIRED), Refusal(RefusalCode.FROZEN)
QUOTE = Quote(lines=(), refused={"k2": EXPIRED, "k3": FROZEN, "c1": FROZEN, "c2": EXPIRED})


@pytest.mark.parametrize(
    ("use", "cards", "first"),
    [
        (("k1", "k2", "k3"), (), EXPIRED),
        (("k3", "k2"), ("c2",), FROZEN),
        (("k1",), ("c9", "c2", "c1"), EXPIRED),
        (("k1",), ("c9",), None),
        ((), (), None),
    ],
)
def test_the_first_refusal_is_that_of_the_first_coupon_scanned_then_of_the_first_card(
    use: tuple[str, ...], cards: tuple[str, ...], first: Refusal | None
) -> None:
    assert QUOTE.first_refusal(use, [Cover(card, 1) for card in cards]) == first
