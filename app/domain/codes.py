"""Make and read the codes that come in through a scanner or a keyboard.

What a code of ours looks like (the last digit is the check digit, the digits between are random):

| layout | digits | starts with | random digits | entropy |
| --- | --- | --- | --- | --- |
| `MEMBER_COUPON`, usable by its member only | 16 | 9 | 14 | 46.5 bits |
| `BEARER_COUPON`, usable by anyone who has it | 20 | 9 | 18 | 59.8 bits |
| `MEMBER_CARD` | 18 | 901 | 14 | 46.5 bits |
| `PUNCH_CARD` | 18 | 902 | 14 | 46.5 bits |

Digits survive every input method and every scanner. Why these lengths and beginnings:

- Lengths differ by two, so one digit lost or typed twice never lands on another kind; none is that of a barcode
  (GTIN: 8, 12, 13, 14).
- 9 comes first because what else is scanned at a counter does not begin so: payment codes begin with 10 to 15
  (WeChat Pay, 18 digits), 25 to 30 (Alipay, 16 to 24 digits) or 62 (UnionPay, 19 digits), bank cards with 2 to 6,
  SIM cards with 89, a GS1 logistics label with 00 and a GS1 DataBar with 01. A code that does not begin with 0 also
  keeps its length where a spreadsheet took it for a number.
- 90 begins no number of the two other 18-digit kinds that people carry: identity cards (region 11 to 83, or 9 and a
  province from 11) and unified social credit codes (91 to 93).

The reader is wider than the maker: any 16 or 20 digits with the right check digit are read as a coupon, so that codes
issued before may be imported; the beginning keeps *our* codes apart, it is no secret and no proof.
"""

import hmac
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.domain import gtin
from app.domain.refusals import Refusal, RefusalCode, refuse

MAX_SCAN_CHARS = 512
COUPON_LENGTHS = frozenset({16, 20})

# Each row is the state so far, each column the next digit. Totally anti-symmetric: it catches every single wrong digit
# and every swap of two neighbours, which mod-10 sums (GTIN, Luhn) do not. Source: H. Michael Damm, "Total anti-
# symmetrische Quasigruppen", dissertation, Philipps-Universität Marburg 2004, the quasigroup of order 10.
_DAMM = {
    state: dict(zip("0123456789", row, strict=True))
    for state, row in {
        "0": "0317598642",
        "1": "7092154863",
        "2": "4206871359",
        "3": "1750983426",
        "4": "6123045978",
        "5": "3674209581",
        "6": "5869720134",
        "7": "8945362017",
        "8": "9438617205",
        "9": "2581436790",
    }.items()
}

_LOOKALIKES = str.maketrans("OoIilL|", "0011111")
_DIGIT_LIKE = re.compile(r"(?=[^0-9]*[0-9])[0-9OoIilL|]+")
_DIGITS = re.compile(r"[0-9]+")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_AIM_PREFIX = re.compile(r"\](?P<symbology>[A-Za-z])(?P<modifier>[0-9A-Za-z])")
_LINE_ENDS = "\r\n\t "
# Hyphens outside Unicode's dash category: minus, hyphen bullet, and the long-vowel mark that kana keyboards type.
_DASHES = frozenset("\u2212\u2043\u30fc")
# Invisible characters that come along when a code is copied out of a chat.
_INVISIBLE = frozenset("\u00ad\u200b\u200c\u200d\u2060\ufeff")


class CodeKind(StrEnum):
    """Say what a scanned text may name; a hint of where to look, not yet a finding."""

    COUPON = "coupon"
    MEMBER = "member"
    PUNCH_CARD = "punch_card"
    GTIN = "gtin"
    ID = "id"


@dataclass(frozen=True, slots=True)
class Layout:
    """Describe one kind of code: its prefix, then `random_count` random digits, then the check digit."""

    kind: CodeKind
    prefix: str
    random_count: int

    @property
    def length(self) -> int:
        """Count all digits, the check digit included."""
        return len(self.prefix) + self.random_count + 1


MEMBER_COUPON = Layout(CodeKind.COUPON, "9", 14)
BEARER_COUPON = Layout(CodeKind.COUPON, "9", 18)
MEMBER_CARD = Layout(CodeKind.MEMBER, "901", 14)
PUNCH_CARD = Layout(CodeKind.PUNCH_CARD, "902", 14)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Name one thing that a text may stand for.

    `text` is canonical: the digits alone for COUPON, MEMBER and PUNCH_CARD; the GTIN-14 for GTIN; for ID the text as it
    was typed, to be matched exactly (sku, barcode as it was entered, member id, card id).
    """

    kind: CodeKind
    text: str


@dataclass(frozen=True, slots=True)
class ParsedCode:
    """Hold what a scan may mean.

    `candidates` has at least one and is in the order of look-up: the first that is found is meant. `if_absent` is the
    refusal where none is found: `unknown_code` for a well-formed text, `unreadable_code` for digits of a length or
    check digit that no code and no barcode has (RULES, "Refusals").
    """

    candidates: tuple[Candidate, ...]
    if_absent: RefusalCode = RefusalCode.UNKNOWN_CODE

    @property
    def kind(self) -> CodeKind:
        """Give the kind of the likeliest reading."""
        return self.candidates[0].kind

    @property
    def text(self) -> str:
        """Give the canonical text of the likeliest reading."""
        return self.candidates[0].text


def damm_digit(digits: str) -> str:
    """Compute the check digit to be put behind these digits; "0" where their last digit already is the right one."""
    interim = "0"
    for digit in digits:
        interim = _DAMM[interim][digit]
    return interim


def make_code(layout: Layout, random_digits: Callable[[int], str]) -> str:
    """Make one code; rules as in `make_codes`."""
    return make_codes(layout, random_digits, 1)[0]


def make_codes(layout: Layout, random_digits: Callable[[int], str], count: int) -> list[str]:
    """Make `count` codes, canonical (no spaces).

    `random_digits(n)` returns n decimal digits, each equally likely, from a cryptographic source (REQUIREMENTS E3); the
    caller draws again where a code is already taken, be it by another of the list.
    """
    size = layout.random_count
    drawn = random_digits(size * count)
    assert len(drawn) == size * count and _DIGITS.fullmatch(drawn), "the source of digits gave something else"
    bodies = [layout.prefix + drawn[start : start + size] for start in range(0, len(drawn), size)]
    return [body + damm_digit(body) for body in bodies]


def grouped(code: str) -> str:
    """Show a code as people read it: in groups of four, with a space between."""
    return " ".join(code[start : start + 4] for start in range(0, len(code), 4))


def masked(code: str) -> str:
    """Show a code in logs and on screens that others see: its last four characters, nothing of a text up to eight long.

    The length is hidden too, it would tell a bearer's coupon from a member's.
    """
    return "****" + (code[-4:] if len(code) > 8 else "")


def code_digest(key: bytes, code: str) -> bytes:
    """Compute the 32 bytes that are stored in place of a canonical code: HMAC-SHA256 under the chain's key.

    A plain hash would not do: 14 random digits are tried through in hours by whoever copies a till's disk
    (OWASP ASVS 5.0, V6.5.2 asks for it below 112 bits).
    """
    return hmac.digest(key, code.encode("ascii"), "sha256")


def parse(text: str) -> ParsedCode | Refusal:
    """Read whatever a scanner or a keyboard gave; never raises, whatever the text.

    Forgiven: full-width characters, spaces and dashes of every kind, O for 0 and I, l or | for 1 where all else is
    digits, line ends around it, an AIM symbology identifier before it (ISO/IEC 15424: `]E0`, `]C1`, ...).
    Refused as `unreadable_code`, without facts so that a guesser learns nothing (REQUIREMENTS E4): an empty text,
    more than 512 characters, characters that are in no code, 16 or 20 digits with a wrong check digit.
    """
    if len(text) > MAX_SCAN_CHARS:
        return _unreadable()
    folded = _fold(text)
    aim = _AIM_PREFIX.match(folded)
    if aim is not None:
        folded = folded[aim.end() :].strip(_LINE_ENDS)
    compact = folded.replace(" ", "").replace("-", "")
    if not _DIGIT_LIKE.fullmatch(compact):
        return ParsedCode((Candidate(CodeKind.ID, folded),)) if _ID.fullmatch(folded) else _unreadable()
    digits = compact.translate(_LOOKALIKES)
    if aim is not None and _is_gs1_item(aim, digits):
        return ParsedCode((Candidate(CodeKind.GTIN, digits[2:]),))
    if len(digits) in COUPON_LENGTHS:
        return ParsedCode((Candidate(CodeKind.COUPON, digits),)) if damm_digit(digits) == "0" else _unreadable()
    return _parse_card(digits) or _parse_item(digits, typed=(folded, compact))


def _unreadable() -> Refusal:
    return refuse(RefusalCode.UNREADABLE_CODE)


def _fold(text: str) -> str:
    """Bring what means the same to one form: NFKC, every dash to `-`, every space to one blank, nothing at the ends."""
    return "".join(map(_fold_char, unicodedata.normalize("NFKC", text))).strip(_LINE_ENDS)


def _fold_char(char: str) -> str:
    if char in _INVISIBLE:
        return ""
    if char in _DASHES or unicodedata.category(char) == "Pd":
        return "-"
    return " " if unicodedata.category(char) == "Zs" else char


def _is_gs1_item(aim: re.Match[str], digits: str) -> bool:
    """Tell whether a GS1 symbol (GS1-128, DataMatrix, QR, DataBar) carries (01) and a GTIN-14, and nothing else.

    Only the symbology identifier can tell these 16 digits from a coupon's, so without it they are read as a coupon.
    """
    gs1 = aim["symbology"] + aim["modifier"] in {"C1", "d2", "Q3", "J1", "e0"}
    return gs1 and len(digits) == 16 and digits.startswith("01") and gtin.to_gtin14(digits[2:]) is not None


def _parse_card(digits: str) -> ParsedCode | None:
    """Read a member's card or a punch card that we made."""
    for card in (MEMBER_CARD, PUNCH_CARD):
        if len(digits) == card.length and digits.startswith(card.prefix) and damm_digit(digits) == "0":
            return ParsedCode((Candidate(card.kind, digits),))
    return None


def _parse_item(digits: str, *, typed: tuple[str, str]) -> ParsedCode | Refusal:
    """Read digits that are no code of ours: a barcode, or a name made of digits.

    `typed` is the same text before lookalikes were read as digits, with its spaces and dashes and without: a name is
    matched exactly, nothing in it is guessed.
    """
    items = tuple(Candidate(CodeKind.GTIN, item) for item in gtin.readings(digits))
    names = tuple(Candidate(CodeKind.ID, name) for name in dict.fromkeys(typed) if _ID.fullmatch(name))
    if not items and not names:
        return _unreadable()
    # Such digits may still be a sku, a card of an earlier system, or a barcode that was entered with a wrong check
    # digit, so they are looked up before they are called unreadable. A letter makes them a name, hence unknown.
    misread = not items and _DIGITS.fullmatch(typed[1]) is not None
    return ParsedCode(items + names, RefusalCode.UNREADABLE_CODE if misread else RefusalCode.UNKNOWN_CODE)
