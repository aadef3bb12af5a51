"""Declare the server's settings, each once: environment variables that begin with PAWTILL_."""

import contextlib
from pathlib import Path
from typing import Literal, Self

from platformdirs import user_data_path
from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

DEFAULT_PORT = 8420
SECRET_MIN = 16


class Settings(BaseSettings):
    """Hold what a server is started with."""

    model_config = SettingsConfigDict(env_prefix="PAWTILL_", frozen=True, extra="forbid", hide_input_in_errors=True)

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("pawtill", appauthor=False) / "server",
        description="Folder of the database, the keys and the lock, unless the database lies elsewhere.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(DEFAULT_PORT, ge=0, le=65535, description="Port to listen on; 0 = any free one.")
    tls: bool = Field(
        True,
        description="Speak TLS by a certificate that the chain makes; off = plain HTTP, which is for this machine alone"
        " (a proxy that speaks TLS before it, say).",
    )
    tls_names: str = Field(
        "", description="More names and addresses for the certificate, with commas; tills need none, browsers do."
    )
    database_url: str = Field(
        "",
        repr=False,
        description="sqlite:///PATH or postgresql://USER@HOST/NAME (PGPASSWORD or ~/.pgpass hold the password better);"
        " empty = server.db in the data folder.",
    )
    workers: int = Field(
        1, ge=1, le=64, description="Server processes on one port; SQLite has one writer, so more need PostgreSQL."
    )
    redis_url: SecretStr = Field(
        SecretStr(""),
        description="redis://, rediss://, redis+sentinel://HOSTS/MASTER (Sentinels that ask for a login themselves:"
        " ?sentinel_username=U&sentinel_password=P behind it) or redis+cluster://HOSTS; none = no Redis;"
        " empty = the bundled server, with its data in the data folder.",
    )
    redis_prefix: str = Field(
        "", max_length=64, pattern=r"^[^{}\s]*$", description="Begins every key, where several chains share one Redis."
    )
    metrics_key: SecretStr = Field(
        SecretStr(""), description="Bearer token that /metrics asks for; empty = only this machine may read it."
    )
    alert_url: str = Field(
        "", repr=False, description="Webhook (http or https) that is told of alerts; empty = nobody."
    )
    alert_secret: SecretStr = Field(
        SecretStr(""), description="Secret under which alerts are signed (HMAC-SHA256); 16 characters or more."
    )
    alert_stock_percent: int = Field(
        10,
        ge=0,
        le=100,
        description="Tell of a campaign when so much of its stock is left, in percent; 0 = when none is.",
    )
    alert_hot_per_s: float = Field(
        500, gt=0, description="Tell of a campaign when it is asked for so often, in claims a second of all processes."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")

    @model_validator(mode="after")
    def _alerts_are_signed(self) -> Self:
        if self.alert_url and not self.alert_url.startswith(("http://", "https://")):
            raise ValueError("alert_url: begins with http:// or https://")
        if self.alert_url and len(self.alert_secret.get_secret_value()) < SECRET_MIN:
            raise ValueError(f"alert_secret: alerts are signed, so it has {SECRET_MIN} characters or more")
        return self

    @property
    def database(self) -> Path | URL:
        """Return the database's file (SQLite) or URL (PostgreSQL); ValueError where the setting names neither."""
        if not self.database_url:
            return self.data_dir / "server.db"
        kind, _, rest = self.database_url.partition("://")
        if kind == "sqlite" and rest.strip("/"):
            return Path(rest.removeprefix("/"))
        # Not echoed anywhere: it may hold a password.
        with contextlib.suppress(ArgumentError, ValueError):
            url = make_url(self.database_url)
            if url.drivername in ("postgresql", "postgres", "postgresql+psycopg") and url.database:
                return url.set(drivername="postgresql")
        raise ValueError("database_url: it is sqlite:///PATH or postgresql://USER@HOST/NAME")

    @property
    def folder(self) -> Path:
        """Return where the keys lie, and beside them SQLite's file and its lock; raises as `database`."""
        database = self.database
        return database.parent if isinstance(database, Path) else self.data_dir
