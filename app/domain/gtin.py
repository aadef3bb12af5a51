"""Read the trade item numbers that a product's barcode carries: GTIN-8, -12, -13, -14 and the short UPC-E.

Source: GS1 General Specifications, the sections on UPC-E (5.2.2.4) and on check digits (7.9.1).
Everything here takes and gives ASCII digits; `codes.parse` has taken the rest of the scan away by then. Two barcodes
name the same item when their GTIN-14 forms are equal, whatever number of leading zeros a scanner was set to send.

Left to later: weights and prices inside in-store codes (prefixes 02 and 20 to 29) and GS1 element strings beyond (01).
"""

LENGTHS = frozenset({8, 12, 13, 14})


def check_digit(body: str) -> str:
    """Compute the mod-10 check digit over all digits but the last: weights 3, 1, 3, ... from the right."""
    total = sum(int(digit) * (3 if place % 2 == 0 else 1) for place, digit in enumerate(reversed(body)))
    return str(-total % 10)


def to_gtin14(digits: str) -> str | None:
    """Pad a GTIN-8, -12, -13 or -14 to 14 digits; None for anything else: wrong length, check digit, or no number."""
    if len(digits) not in LENGTHS or not (digits.isascii() and digits.isdigit()):
        return None
    return digits.zfill(14) if check_digit(digits[:-1]) == digits[-1] else None


def expand_upc_e(digits: str) -> str | None:
    """Give a UPC-E its zeros back and return its GTIN-14; None when these 8 digits are no UPC-E.

    A UPC-E starts with number system 0; its check digit is that of the number with all zeros in place.
    """
    if len(digits) != 8 or digits[0] != "0":
        return None
    maker, last = digits[1:6], digits[6]
    if last in "012":
        body = maker[:2] + last + "0000" + maker[2:]
    elif last == "3":
        body = maker[:3] + "00000" + maker[3:]
    elif last == "4":
        body = maker[:4] + "00000" + maker[4:]
    else:
        body = maker + "0000" + last
    return to_gtin14("0" + body + digits[7])


def readings(digits: str) -> tuple[str, ...]:
    """List each GTIN-14 that these digits may stand for, the literal reading first; empty when they are no barcode.

    Eight digits that start with 0 may be both a GTIN-8 and a UPC-E, so two answers are possible; which of them the
    shop sells, only a look-up can tell.
    """
    found = (to_gtin14(digits), expand_upc_e(digits))
    return tuple(gtin for gtin in found if gtin is not None)
