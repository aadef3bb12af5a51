"""Say which texts are ids: they go into paths, so no blanks and no slash."""

BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
r"""Blanks and control characters by name: `\s` means another set of them in each language's expressions."""

ID_MAX_CHARS = 64
ID_CHAR = f"[^/{BLANK}]"
"""Both are parts of regular expressions in the words that Python, Rust (pydantic) and JSON Schema share."""
