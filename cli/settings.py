"""Read the server's settings: what the command line says, else the environment, else the defaults."""

import typer
from pydantic import ValidationError

from server.settings import Settings


def server_settings(**chosen: object) -> Settings:
    """Return the settings; None among `chosen` = not said. A value that makes no sense ends the command (exit 2)."""
    try:
        return Settings(**{name: value for name, value in chosen.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
