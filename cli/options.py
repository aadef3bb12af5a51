"""Declare the options and arguments that several commands take, each once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Language(StrEnum):
    """List the languages of the window."""

    ZH = "zh"
    EN = "en"


DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the data lives; default: the user's data folder.")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///PATH or postgresql://USER@HOST/NAME; a password belongs into PGPASSWORD or ~/.pgpass.",
    ),
]
LanguageOption = Annotated[Language, typer.Option(help="Language of the window.")]
DEFAULT_URL = "https://127.0.0.1:8420"
