"""Settings come from the environment, are bounded, and are all described."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from sqlalchemy import make_url

from server.settings import Settings


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAWTILL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PAWTILL_PORT", "0")

    settings = Settings()

    assert (settings.data_dir, settings.port, settings.database) == (tmp_path, 0, tmp_path / "server.db")


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_is_bounded(port: int) -> None:
    with pytest.raises(ValidationError):
        Settings(port=port)


WRONG_URLS = [
    "mysql://db/pawtill",
    "sqlite://",
    "sqlite:///",
    "postgresql://db",
    "postgresql://u:s3cret@h:x/d",
    "pawtill",
]


@pytest.mark.parametrize("url", WRONG_URLS)
def test_another_kind_of_database_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///PATH or postgresql://") as raised:
        assert Settings(database_url=url).database

    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("kind", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_database_may_be_on_a_server_and_the_keys_stay_here(kind: str, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, database_url=f"{kind}://clerk:s3cret@db.example/chain")

    assert settings.database == make_url("postgresql://clerk:s3cret@db.example/chain")
    assert settings.folder == tmp_path
    assert "s3cret" not in f"{settings} {settings.database}"


def test_a_database_may_lie_elsewhere(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/other.db")

    assert settings.database == tmp_path / "other.db"
    assert settings.folder == tmp_path


def test_every_setting_is_described() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]

    assert undescribed == []


def test_alerts_need_a_secret_of_sixteen_characters() -> None:
    url = "https://example.org/hook"

    for secret in ("", "x" * 15):
        with pytest.raises(ValidationError, match="alert_secret"):
            Settings(alert_url=url, alert_secret=SecretStr(secret))

    assert Settings(alert_url=url, alert_secret=SecretStr("x" * 16)).alert_url == url


def test_a_webhook_is_asked_over_http() -> None:
    with pytest.raises(ValidationError, match="alert_url"):
        Settings(alert_url="ftp://example.org", alert_secret=SecretStr("x" * 16))


def test_no_secret_is_shown_by_the_settings_or_by_what_is_wrong_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAWTILL_ALERT_URL", "https://example.org/token-in-path")
    monkeypatch.setenv("PAWTILL_ALERT_SECRET", "too short secret"[:12])
    monkeypatch.setenv("PAWTILL_METRICS_KEY", "key of prometheus")

    with pytest.raises(ValidationError) as wrong:
        Settings()
    monkeypatch.setenv("PAWTILL_ALERT_SECRET", "long enough secret")

    for text in (str(wrong.value), repr(Settings())):
        assert not any(word in text for word in ("too short", "long enough", "token-in-path", "key of prometheus"))
