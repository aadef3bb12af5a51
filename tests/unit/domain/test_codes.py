"""The codes: what we make is caught when mistyped, what people type is forgiven, what is foreign is refused."""

import hashlib
import hmac
import itertools
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.codes import (
    BEARER_COUPON,
    MEMBER_CARD,
    MEMBER_COUPON,
    PUNCH_CARD,
    Candidate,
    CodeKind,
    Layout,
    ParsedCode,
    code_digest,
    damm_digit,
    grouped,
    make_code,
    masked,
    parse,
)
from app.domain.refusals import Refusal, RefusalCode

LAYOUTS = (MEMBER_COUPON, BEARER_COUPON, MEMBER_CARD, PUNCH_CARD)
UNREADABLE = Refusal(RefusalCode.UNREADABLE_CODE)
DIGITS = string.digits


def code_of(layout: Layout, drawn: str = "01234567890123456789") -> str:
    return make_code(layout, lambda count: drawn[:count])


def codes(*layouts: Layout) -> st.SearchStrategy[str]:
    def of(layout: Layout) -> st.SearchStrategy[str]:
        count = layout.random_count
        return st.text(DIGITS, min_size=count, max_size=count).map(lambda drawn: code_of(layout, drawn))

    return st.sampled_from(layouts).flatmap(of)


def ids(*texts: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(CodeKind.ID, text) for text in texts)


# ---- the check digit


def test_the_check_digit_is_that_of_the_published_example() -> None:
    assert damm_digit("572") == "4"
    assert damm_digit("5724") == "0"


def test_the_quasigroup_is_totally_anti_symmetric_so_no_single_digit_and_no_swap_of_neighbours_passes() -> None:
    step = {(row, digit): damm_digit(state_text(row) + digit) for row in DIGITS for digit in DIGITS}

    for row in DIGITS:
        assert {step[row, digit] for digit in DIGITS} == set(DIGITS)
        assert {step[other, row] for other in DIGITS} == set(DIGITS)
        assert step[row, row] == "0"
        for x, y in itertools.permutations(DIGITS, 2):
            assert step[step[row, x], y] != step[step[row, y], x]


def state_text(state: str) -> str:
    """Give a digit after which the running state is `state`."""
    return next(digit for digit in DIGITS if damm_digit(digit) == state)


@given(codes(*LAYOUTS))
def test_every_single_wrong_digit_is_caught_at_every_place(code: str) -> None:
    wrong = [code[:at] + digit + code[at + 1 :] for at in range(len(code)) for digit in DIGITS if digit != code[at]]

    assert len(wrong) == 9 * len(code)
    assert all(damm_digit(text) != "0" for text in wrong)


@given(codes(*LAYOUTS))
def test_every_swap_of_two_different_neighbours_is_caught_at_every_place(code: str) -> None:
    for at in range(len(code) - 1):
        swapped = code[:at] + code[at + 1] + code[at] + code[at + 2 :]
        assert (damm_digit(swapped) == "0") is (code[at] == code[at + 1])


# ---- what we make


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        (MEMBER_COUPON, "9012345678901232"),
        (BEARER_COUPON, "90123456789012345679"),
        (MEMBER_CARD, "901012345678901231"),
        (PUNCH_CARD, "902012345678901232"),
    ],
)
def test_a_code_is_its_prefix_the_drawn_digits_and_the_check_digit(layout: Layout, code: str) -> None:
    made = code_of(layout)

    assert made == code
    assert len(made) == layout.length


def test_lengths_are_16_for_a_members_coupon_20_for_a_bearers_and_18_for_cards() -> None:
    assert [layout.length for layout in LAYOUTS] == [16, 20, 18, 18]


@pytest.mark.parametrize(
    "drawn", ["", "0123456789012", "012345678901234", "0123456789012x", "０１２３４５６７８９０１２３"]
)
def test_a_source_of_digits_that_gives_something_else_is_our_bug(drawn: str) -> None:
    with pytest.raises(AssertionError, match="source of digits"):
        make_code(MEMBER_COUPON, lambda count: drawn)


def test_a_code_is_shown_in_groups_of_four() -> None:
    assert grouped("9012345678901237") == "9012 3456 7890 1237"
    assert grouped("901012345678901236") == "9010 1234 5678 9012 36"


def test_a_masked_code_shows_its_last_four_and_not_its_length() -> None:
    assert masked("9012345678901237") == "****1237"
    assert masked("90123456789012341237") == "****1237"


def test_a_masked_text_of_up_to_eight_characters_shows_nothing() -> None:
    assert masked("123456789") == "****6789"
    assert masked("12345678") == "****"
    assert masked("") == "****"


def test_the_digest_is_keyed_and_32_bytes_long() -> None:
    digest = code_digest(b"key", "9012345678901237")

    assert digest == hmac.digest(b"key", b"9012345678901237", hashlib.sha256)
    assert len(digest) == 32
    assert digest != code_digest(b"other key", "9012345678901237")


# ---- what people type


TYPED: dict[str, Callable[[str], str]] = {
    "as it is": lambda code: code,
    "lower": str.lower,
    "spaced": grouped,
    "dashed": lambda code: grouped(code).replace(" ", "-"),
    "fullwidth": lambda code: code.translate({ord(digit): 0xFF10 + int(digit) for digit in DIGITS}),
    "fullwidth spaced": lambda code: grouped(code).translate({32: 0x3000, **{48 + n: 0xFF10 + n for n in range(10)}}),
    "lookalike O I": lambda code: code.replace("0", "O").replace("1", "I"),
    "lookalike o l": lambda code: code.replace("0", "o").replace("1", "l"),
    "lookalike i L |": lambda code: code.replace("1", "i", 1).replace("1", "L", 1).replace("1", "|"),
    "lookalike lower": lambda code: code.replace("0", "O").replace("1", "I").lower(),
    "em dashes": lambda code: grouped(code).replace(" ", "\u2014"),
    "minus signs": lambda code: grouped(code).replace(" ", "\u2212"),
    "non-breaking hyphens": lambda code: grouped(code).replace(" ", "\u2011"),
    "fullwidth dashes": lambda code: grouped(code).replace(" ", "\uff0d"),
    "kana long vowels": lambda code: grouped(code).replace(" ", "\u30fc"),
    "no-break spaces": lambda code: grouped(code).replace(" ", "\u00a0"),
    "copied from a chat": lambda code: f"\ufeff\u200b {grouped(code)}\u200b\n",
    "scanned with a line end": lambda code: f"{code}\r\n",
    "scanned with a tab": lambda code: f"\t{code}\t",
    "scanned with a symbology": lambda code: f"]C0{code}\r",
    "scanned from a QR": lambda code: f"]Q1{code}",
}


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        (MEMBER_COUPON, CodeKind.COUPON),
        (BEARER_COUPON, CodeKind.COUPON),
        (MEMBER_CARD, CodeKind.MEMBER),
        (PUNCH_CARD, CodeKind.PUNCH_CARD),
    ],
)
@given(data=st.data())
def test_however_a_person_types_it_it_is_the_same_code(
    data: st.DataObject, typed: str, *, layout: Layout, kind: CodeKind
) -> None:
    code = data.draw(codes(layout))

    parsed = parse(TYPED[typed](code))

    assert parsed == ParsedCode((Candidate(kind, code),))


@given(codes(MEMBER_COUPON, BEARER_COUPON))
def test_a_coupon_with_one_wrong_digit_is_unreadable_and_nothing_says_which(code: str) -> None:
    for at in range(len(code)):
        wrong = code[:at] + DIGITS[(int(code[at]) + 1) % 10] + code[at + 1 :]
        assert parse(wrong) == UNREADABLE


@given(codes(MEMBER_COUPON, BEARER_COUPON))
def test_a_coupon_with_two_different_neighbours_swapped_is_unreadable(code: str) -> None:
    for at in range(len(code) - 1):
        if code[at] != code[at + 1]:
            assert parse(code[:at] + code[at + 1] + code[at] + code[at + 2 :]) == UNREADABLE


@given(codes(*LAYOUTS), st.data())
def test_one_digit_lost_or_doubled_is_never_another_kind(code: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(code) - 1))

    for text in (code[:at] + code[at + 1 :], code[:at] + code[at] + code[at:]):
        parsed = parse(text)
        assert isinstance(parsed, ParsedCode)
        assert parsed == ParsedCode(ids(text), RefusalCode.UNREADABLE_CODE)


@given(codes(MEMBER_CARD, PUNCH_CARD))
def test_a_card_with_one_wrong_digit_is_no_card_and_unreadable_unless_it_is_some_other_name(code: str) -> None:
    for at in range(len(code)):
        wrong = code[:at] + DIGITS[(int(code[at]) + 1) % 10] + code[at + 1 :]
        assert parse(wrong) == ParsedCode(ids(wrong), RefusalCode.UNREADABLE_CODE)


def test_a_coupon_from_before_our_layout_is_read_when_its_check_digit_is_right() -> None:
    body = "123456789012345"
    code = body + damm_digit(body)

    assert parse(code) == ParsedCode((Candidate(CodeKind.COUPON, code),))


def test_18_digits_with_a_right_check_digit_but_another_beginning_are_no_card() -> None:
    body = "90301234567890123"
    code = body + damm_digit(body)

    assert parse(code) == ParsedCode(ids(code), RefusalCode.UNREADABLE_CODE)


# ---- barcodes and names


@pytest.mark.parametrize("prefix", ["", "]E0", "]I1", "]X0"])
def test_a_barcode_is_a_gtin_first_and_then_a_name(prefix: str) -> None:
    parsed = parse(f"{prefix}6901234567892\r")

    assert parsed == ParsedCode((Candidate(CodeKind.GTIN, "06901234567892"), *ids("6901234567892")))
    assert isinstance(parsed, ParsedCode)
    assert (parsed.kind, parsed.text) == (CodeKind.GTIN, "06901234567892")


def test_a_barcode_typed_with_spaces_is_looked_up_by_its_digits_alone() -> None:
    assert parse("6 901234 567892") == ParsedCode((Candidate(CodeKind.GTIN, "06901234567892"), *ids("6901234567892")))


def test_eight_digits_may_be_an_ean_8_or_a_upc_e() -> None:
    parsed = parse("04252614")

    assert parsed == ParsedCode((Candidate(CodeKind.GTIN, "00042100005264"), *ids("04252614")))


def test_a_barcode_with_a_wrong_check_digit_is_still_looked_up_as_it_was_entered() -> None:
    assert parse("6901234567890") == ParsedCode(ids("6901234567890"), RefusalCode.UNREADABLE_CODE)


@pytest.mark.parametrize("aim", ["C1", "d2", "Q3", "J1", "e0"])
def test_a_gs1_symbol_with_an_item_number_alone_is_that_item(aim: str) -> None:
    assert parse(f"]{aim}0106901234567892") == ParsedCode((Candidate(CodeKind.GTIN, "06901234567892"),))


@pytest.mark.parametrize(
    "text",
    [
        "0106901234567892",  # nothing says that it is GS1: a coupon's length, a wrong check digit
        "]C00106901234567892",  # Code 128, not GS1-128
        "]C10106901234567891",  # the item's check digit is wrong
        "]C10206901234567892",  # another application identifier
    ],
)
def test_what_only_looks_like_a_gs1_item_is_none(text: str) -> None:
    assert parse(text) == UNREADABLE


def test_a_gs1_symbol_with_more_than_the_item_number_is_not_half_understood() -> None:
    more = "010690123456789217260101"

    assert parse(f"]d2{more}") == ParsedCode(ids(more), RefusalCode.UNREADABLE_CODE)


@pytest.mark.parametrize("text", ["m1", "p1", "SKU-001", "a.b_c-d", "O", "l", "x" * 64])
def test_a_name_is_looked_up_exactly_and_unknown_where_it_is_not_found(text: str) -> None:
    assert parse(text) == ParsedCode(ids(text), RefusalCode.UNKNOWN_CODE)


def test_nothing_in_a_name_is_guessed() -> None:
    assert parse("O1") == ParsedCode(ids("O1"))
    assert parse("1-O") == ParsedCode(ids("1-O", "1O"))


def test_a_name_typed_by_a_chinese_input_method_is_the_same_name() -> None:
    assert parse("ＳＫＵ－００１") == ParsedCode(ids("SKU-001"))


def test_digits_of_no_known_length_are_looked_up_before_they_are_called_unreadable() -> None:
    assert parse("12345") == ParsedCode(ids("12345"), RefusalCode.UNREADABLE_CODE)
    assert parse("123-45") == ParsedCode(ids("123-45", "12345"), RefusalCode.UNREADABLE_CODE)


# ---- what is refused


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\r\n",
        "\u200b",
        "]E0",
        "'; DROP TABLE coupon; --",
        "9012\x003456",
        "9012\n3456",
        "\x1d9012",
        "m1\x1f",
        "m1;",
        'm"1',
        "m 1",
        "优惠券",
        "🐶",
        "1️⃣",
        "٣٤٥",
        "½",
        "\ud800",
        "x" * 65,
        "7" * 65,
        "--",
        "_m1",
        "|",
        "\\u0031",
    ],
)
def test_empty_or_foreign_text_is_unreadable_without_a_word_more(text: str) -> None:
    assert parse(text) == UNREADABLE


def test_512_characters_are_read_and_513_are_not() -> None:
    spaces = " " * (512 - len("m1"))

    assert parse(spaces + "m1") == ParsedCode(ids("m1"))
    assert parse(spaces + " m1") == UNREADABLE


@given(st.one_of(st.text(), st.text(st.characters()), st.text(DIGITS + "OoIilL|-– ]ECdQ\t\r\n０１", max_size=24)))
def test_reading_never_raises_and_what_it_reads_is_ascii(text: str) -> None:
    parsed = parse(text)

    if isinstance(parsed, Refusal):
        assert parsed == UNREADABLE
    else:
        assert all(candidate.text.isascii() and candidate.text for candidate in parsed.candidates)
        assert parsed.candidates


@given(st.text(DIGITS + "abcOIl-_. ", min_size=1, max_size=30))
def test_reading_what_was_read_changes_nothing(text: str) -> None:
    first = parse(text)

    if isinstance(first, ParsedCode):
        again = parse(first.text)
        assert isinstance(again, ParsedCode)
        assert again.candidates[0] == first.candidates[0]
