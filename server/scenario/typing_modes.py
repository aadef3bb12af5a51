"""Type a code the way people do (FORMAT, `scan`: `typed`)."""

from app.domain.codes import grouped

_FULL_WIDTH = str.maketrans({chr(plain): chr(plain + 0xFEE0) for plain in range(0x21, 0x7F)})
_LOOKALIKE = str.maketrans("01", "OI")


def type_code(code: str, how: str | None) -> str:
    """Return the code as it comes from the keyboard; None = as it is. Always the same for the same code."""
    match how:
        case "lower":
            return code.lower()
        case "spaced":
            return grouped(code)
        case "dashed":
            return grouped(code).replace(" ", "-")
        case "fullwidth":
            return code.translate(_FULL_WIDTH)
        case "lookalike":
            # Both pictures of 1 occur: every second one is an l.
            first, *rest = code.translate(_LOOKALIKE).split("I")
            return first + "".join("Il"[number % 2] + part for number, part in enumerate(rest))
        case "one_wrong":
            middle = len(code) // 2
            return code[:middle] + str((int(code[middle]) + 1) % 10) + code[middle + 1 :]
        case "swapped":
            return _swap(code)
        case _:
            return code


def _swap(code: str) -> str:
    """Swap the first two different neighbours from the middle on, as a finger that was too fast."""
    middle = len(code) // 2
    for i in (*range(middle, len(code) - 1), *range(middle)):
        if code[i] != code[i + 1]:
            return code[:i] + code[i + 1] + code[i] + code[i + 2 :]
    return code
