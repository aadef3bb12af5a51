"""Laws of money: nothing is lost and nothing appears, however amounts are rounded, shared out and settled."""

from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from app.domain.basket import format_qty, parse_qty
from app.domain.money import Currency, largest_remainder, prorate, round_half_up, round_to_step
from app.domain.tenders import Settlement, Tender, TenderType, settle

weights = st.lists(st.integers(0, 10**7), max_size=12)
other_kinds = st.sampled_from([TenderType.STORED_VALUE, TenderType.CARD, TenderType.WALLET])
other_tenders = st.lists(st.builds(Tender, other_kinds, st.integers(1, 3000)), max_size=3)


@given(weights, st.data())
def test_prorated_parts_add_up_and_none_exceeds_its_weight(shares: list[int], data: st.DataObject) -> None:
    total_minor = data.draw(st.integers(0, sum(shares)))

    parts = prorate(total_minor, shares)

    assert sum(parts) == total_minor
    assert all(0 <= part <= weight for part, weight in zip(parts, shares, strict=True))


@given(weights, st.data())
def test_a_prorated_part_is_less_than_one_fen_from_its_exact_share(shares: list[int], data: st.DataObject) -> None:
    assume(sum(shares))
    total_minor = data.draw(st.integers(0, sum(shares)))

    parts = prorate(total_minor, shares)

    for part, weight in zip(parts, shares, strict=True):
        assert abs(part - Fraction(total_minor * weight, sum(shares))) < 1


@given(st.lists(st.integers(0, 10**6), max_size=12), st.integers(1, 1000))
def test_the_largest_remainders_get_what_is_left(numerators: list[int], denominator: int) -> None:
    exact = [Fraction(numerator, denominator) for numerator in numerators]

    parts = largest_remainder(numerators, denominator)

    assert sum(parts) == round_half_up(sum(exact, Fraction(0)))
    raised = [i for i, part in enumerate(parts) if part > exact[i]]
    kept = [i for i, part in enumerate(parts) if part <= exact[i]]
    for i in raised:
        for j in kept:
            # A larger fraction, or an equal one that stands before.
            assert (exact[j] - parts[j], -j) <= (exact[i] - (parts[i] - 1), -i)


@given(st.fractions())
def test_rounding_moves_by_at_most_a_half(value: Fraction) -> None:
    assert -Fraction(1, 2) <= value - round_half_up(value) < Fraction(1, 2)


@given(st.integers(0, 10**9), st.integers(1, 100))
def test_a_rounded_amount_can_be_paid_in_coins(minor: int, step_minor: int) -> None:
    rounded = round_to_step(minor, step_minor)

    assert rounded % step_minor == 0
    assert -step_minor <= 2 * (minor - rounded) < step_minor


@given(st.integers(-(10**12), 10**12), st.sampled_from(["CNY", "JPY", "KWD"]))
def test_an_amount_reads_back_as_it_was_written(minor: int, code: str) -> None:
    currency = Currency.of(code)

    assert currency.parse(currency.format(minor)) == minor


@given(st.integers(1, 99_999_000))
def test_a_quantity_reads_back_as_it_was_written(qty_milli: int) -> None:
    assert parse_qty(format_qty(qty_milli), by_weight=True) == qty_milli


@given(other_tenders, st.integers(0, 3000), st.integers(0, 300), st.sampled_from([0, 5, 10]))
def test_what_is_kept_is_what_was_due(others: list[Tender], rest_minor: int, more_minor: int, step_minor: int) -> None:
    payable_minor = sum(tender.amount_minor for tender in others) + rest_minor
    cash_minor = rest_minor + step_minor + more_minor if rest_minor else 0
    tenders = [*others, *([Tender(TenderType.CASH, cash_minor)] if cash_minor else [])]

    settled = settle(payable_minor, tenders, cash_step_minor=step_minor)

    assert isinstance(settled, Settlement)
    kept = {kind: sum(t.amount_minor for t in settled.tenders if t.type is kind) for kind in TenderType}
    assert sum(kept.values()) == payable_minor
    assert settled.change_minor == cash_minor - kept[TenderType.CASH] >= 0
    assert [t for t in settled.tenders if t.type not in (TenderType.CASH, TenderType.ROUNDING)] == others
    assert 2 * abs(kept[TenderType.ROUNDING]) <= step_minor
    assert all(t.amount_minor > 0 or t.type is TenderType.ROUNDING for t in settled.tenders)


@given(st.integers(1, 5000), other_tenders)
def test_tenders_that_do_not_add_up_are_refused(payable_minor: int, others: list[Tender]) -> None:
    paid_minor = sum(tender.amount_minor for tender in others)

    found = settle(payable_minor, others)

    assert isinstance(found, Settlement) is (paid_minor == payable_minor)
