"""Hold what all tables share: how an instant is stored, what a constraint is called, and the one `metadata`."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Dialect, MetaData, TypeDecorator, text


class Instant(TypeDecorator[datetime]):
    """Store a UTC instant as whole milliseconds since 1970; a naive datetime is our bug."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Turn an aware datetime into milliseconds."""
        if value is None:
            return None
        assert value.tzinfo is not None, "an instant knows its offset"
        return round(value.timestamp() * 1000)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn milliseconds into a datetime in UTC."""
        return None if value is None else datetime.fromtimestamp(value / 1000, UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def partial(condition: str) -> dict[str, Any]:
    """Return what makes an `Index` one of those rows alone for which `condition` holds, SQL of both dialects."""
    where = text(condition)
    return {"sqlite_where": where, "postgresql_where": where}
