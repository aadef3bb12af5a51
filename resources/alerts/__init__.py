"""Say what an alert says, in Chinese and English (`texts.toml`)."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("zh", "en")


@cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """Return the text of each kind of alert in each language, with placeholders; read once per process."""
    loaded: dict[str, dict[str, str]] = tomllib.loads(files(__name__).joinpath("texts.toml").read_text("utf-8"))
    return loaded


def say(kind: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the alert's sentence by language; KeyError for a kind without one, or a fact that is missing."""
    return {language: text.format_map(facts) for language, text in texts()[kind].items()}
