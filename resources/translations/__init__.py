"""Load the words of the screens: one TOML file per language, with the same keys and placeholders (a test says so)."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

LANGUAGES = ("zh", "en")


@cache
def load(language: str) -> Mapping[str, str]:
    """Return every text of `language` under its dotted key (`tender.title`); read once per process.

    Raises FileNotFoundError for a language that is not there, TypeError for a value that is no text.
    """
    source = files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8")
    return dict(_flat(tomllib.loads(source), ""))


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, str):
            yield prefix + key, value
        else:
            raise TypeError(f"{prefix}{key} is no text")
