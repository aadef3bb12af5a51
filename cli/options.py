"""Declare the options and arguments that several commands take, each once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from server.services.names import ID_MAX_CHARS, PERSON_MAX_CHARS, REASON_MAX_CHARS, is_id, says_something


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


# ------------------------------------------------------------------ what a person types


def an_id(text: str | None) -> str | None:
    """Take an id as the API does, since a command may write without it; None = the option was not given."""
    if text is not None and not is_id(text):
        raise typer.BadParameter(
            f"an id has 1 to {ID_MAX_CHARS} characters, no blank and no slash / "
            f"编号为 1 至 {ID_MAX_CHARS} 个字符，不含空白和斜杠"
        )
    return text


def a_person(text: str) -> str:
    """Take somebody's name."""
    return _said(text, PERSON_MAX_CHARS)


def a_reason(text: str) -> str:
    """Take the reason for a decision."""
    return _said(text, REASON_MAX_CHARS)


def _said(text: str, max_chars: int) -> str:
    if not says_something(text, max_chars):
        raise typer.BadParameter(f"1 to {max_chars} characters that say something / 请填写 1 至 {max_chars} 个字符")
    return text


TillId = Annotated[str, typer.Argument(help="Id of the till, for example R1.", callback=an_id)]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the history.", callback=a_reason)]
By = Annotated[str, typer.Option(help="Who says so, by name; kept in the history.", callback=a_person)]
OfficeUrl = Annotated[str, typer.Option(help="Where the server of this machine listens; default: on its port.")]
