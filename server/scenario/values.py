"""Read the small values of a scenario file: amounts, durations, quantities, instants.

Each is an annotated type for the models in `tables` and `steps`. A value of the wrong shape raises ValueError with
words for the person who wrote the file; pydantic adds where it stood.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode

NO_ANSWER = "no_answer"
"""The outcome of a step whose answer was lost or whose till or server died in it; no refusal, so no code of RULES."""
OUTCOMES = frozenset({"ok", NO_ANSWER, *(code.value for code in RefusalCode)})

_PART = re.compile(r"([0-9]{1,9})([dhms])", re.ASCII)
_NOT_IN_IDS = re.compile(r"[\s/\x00-\x1f\x7f]")
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


class Strict(BaseModel):
    """Refuse unknown keys and values of another type; nothing is converted, so "1" is no number and 1 is no text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True)
class Minor:
    """Mark an integer as minor units of the chain's currency, so that a difference is shown as an amount."""

    minor: int


def parse_duration(text: str) -> timedelta:
    """Read "90s", "14m59s", "2h", "10d" (a day has 24 hours); raises ValueError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError('must be a duration such as "90s", "30m", "2h" or "10d"')
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())


def _duration(value: object) -> timedelta:
    if not isinstance(value, str):
        raise ValueError('must be a duration such as "90s", "30m", "2h" or "10d"')
    return parse_duration(value)


def _shift(value: object) -> timedelta:
    """Read "+2h" or "-10m"."""
    if not isinstance(value, str) or value[:1] not in ("+", "-"):
        raise ValueError('must be a shift such as "+2h" or "-10m"')
    size = parse_duration(value[1:])
    return size if value[0] == "+" else -size


def _moment(value: object) -> datetime | timedelta:
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, str) and value.startswith("+"):
        return _shift(value)
    raise ValueError('must be a date-time with an offset, or "+10m" after the step before')


def _instant(value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("must be a date-time with an offset")
    return value.astimezone(UTC)


def _zone(value: str) -> str:
    try:
        return ZoneInfo(value).key
    except (ValueError, OSError, LookupError):
        raise ValueError(f"{value} is no time zone of the IANA database") from None


def _amount(value: object, info: ValidationInfo) -> Minor:
    currency: Currency = (info.context or {})["currency"]
    minor = currency.parse(value) if isinstance(value, str) else None
    if minor is None or isinstance(minor, Refusal):
        raise ValueError(f'must be an amount of {currency.code} as text, such as "{currency.format(19900)}"')
    return Minor(minor)


def _price(value: object, info: ValidationInfo) -> int:
    minor = _amount(value, info).minor
    if minor < 0:
        raise ValueError("must not be negative")
    return minor


def _qty(value: object) -> str:
    """Take whole numbers and texts as they are; whether they are a quantity at all is for the till to judge."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError('must be a whole number, or a weight as text such as "0.735"')


def _id(value: str) -> str:
    """Take what the HTTP interface takes as an id: it goes into paths."""
    if _NOT_IN_IDS.search(value):
        raise ValueError("must have no blanks and no slash")
    return value


def _outcome(value: str) -> str:
    if value not in OUTCOMES:
        raise ValueError(f"{value} is no outcome: not ok, no_answer or a refusal code of RULES")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Shift = Annotated[timedelta, BeforeValidator(_shift)]
Moment = Annotated[datetime | timedelta, BeforeValidator(_moment)]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Zone = Annotated[str, AfterValidator(_zone)]
Amount = Annotated[Minor, BeforeValidator(_amount)]
Price = Annotated[int, BeforeValidator(_price)]
Qty = Annotated[str, BeforeValidator(_qty)]
Outcome = Annotated[str, AfterValidator(_outcome)]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Id = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_id)]
Count = Annotated[int, Field(ge=0, le=10**9)]


def to_json(value: Any) -> Any:
    """Turn what TOML gives into JSON data: instants with an offset become ISO 8601 texts.

    A number with a point is left to stand as text only under `percent`, where it is exact and no money; anywhere else
    the rule's reader names it. Raises ValueError for a date or a clock time without offset.
    """
    if isinstance(value, dict):
        return {
            key: str(item) if key == "percent" and isinstance(item, Decimal) else to_json(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, datetime):
        return _instant(value).isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str | int | bool):
        return value
    raise ValueError("must be a date-time with an offset")
