"""Say which texts are ids, names of people and reasons: ids go into paths, so no blanks and no slash."""

import re

BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
r"""Blanks and control characters by name: `\s` means another set of them in each language's expressions."""

ID_MAX_CHARS = 64
ID_CHAR = f"[^/{BLANK}]"
"""Both are parts of regular expressions in the words that Python, Rust (pydantic) and JSON Schema share."""
NO_BLANK = f"[^{BLANK}]"
"""What a text has somewhere that says anything."""
REASON_MAX_CHARS, PERSON_MAX_CHARS = 500, 100

_ID = re.compile(rf"(?!\.{{1,2}}$){ID_CHAR}{{1,{ID_MAX_CHARS}}}")


def is_id(text: str) -> bool:
    """Tell whether a text may be an id; `.` and `..` mean something else in a path."""
    return _ID.fullmatch(text) is not None


def says_something(text: str, max_chars: int) -> bool:
    """Tell whether a person's word is one, of `max_chars` at most."""
    return len(text) <= max_chars and re.search(NO_BLANK, text) is not None
