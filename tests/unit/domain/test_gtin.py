"""Barcodes: every length is one number, and a wrong check digit is none."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.gtin import LENGTHS, check_digit, expand_upc_e, readings, to_gtin14


@pytest.mark.parametrize(
    ("digits", "gtin"),
    [
        ("96385074", "00000096385074"),
        ("036000291452", "00036000291452"),
        ("4006381333931", "04006381333931"),
        ("6901234567892", "06901234567892"),
        ("10614141000415", "10614141000415"),
    ],
)
def test_each_length_becomes_a_gtin_14(digits: str, gtin: str) -> None:
    assert to_gtin14(digits) == gtin


def test_the_same_item_sent_as_upc_and_as_ean_is_one_item() -> None:
    assert to_gtin14("036000291452") == to_gtin14("0036000291452")


@pytest.mark.parametrize("length", [length for length in range(1, 20) if length not in LENGTHS])
def test_other_lengths_are_no_barcode(length: int) -> None:
    assert to_gtin14("0" * length) is None


@pytest.mark.parametrize("text", ["SHOP-001", "IN-HOUSE-007", "９６３８５０７４", "9638507²"])
def test_what_is_no_ascii_number_is_no_barcode(text: str) -> None:
    assert len(text) in LENGTHS
    assert to_gtin14(text) is None


@given(st.sampled_from(sorted(LENGTHS)).flatmap(lambda n: st.text(string.digits, min_size=n - 1, max_size=n - 1)))
def test_every_single_wrong_digit_is_caught(body: str) -> None:
    digits = body + check_digit(body)

    assert to_gtin14(digits) == digits.zfill(14)
    for at, digit in enumerate(digits):
        for other in set(string.digits) - {digit}:
            assert to_gtin14(digits[:at] + other + digits[at + 1 :]) is None


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("01234505", "012000003455"),
        ("04252614", "042100005264"),
        ("04120229", "041200002029"),
        ("08765438", "087600000548"),
        ("07537743", "075370000073"),
        ("01234565", "012345000065"),
        ("02137568", "021375000068"),
        ("05170197", "051701000097"),
    ],
)
def test_a_upc_e_gets_its_zeros_back(short: str, full: str) -> None:
    assert expand_upc_e(short) == "00" + full


def test_the_published_upc_e_is_read() -> None:
    assert expand_upc_e("04252614") == "00042100005264"
    assert readings("04252614") == ("00042100005264",)


@pytest.mark.parametrize("digits", ["14252614", "04252615", "4252614", "004252614", ""])
def test_another_number_system_check_digit_or_length_is_no_upc_e(digits: str) -> None:
    assert expand_upc_e(digits) is None


def test_eight_digits_that_are_both_give_the_literal_reading_first() -> None:
    both = [f"{number:08}" for number in range(10_000, 20_000) if len(readings(f"{number:08}")) == 2]

    assert both
    assert all(readings(digits) == (to_gtin14(digits), expand_upc_e(digits)) for digits in both)


def test_what_is_no_barcode_has_no_reading() -> None:
    assert readings("6901234567890") == ()
    assert readings("") == ()
