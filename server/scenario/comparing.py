"""Compare what a step was expected to answer with what came (FORMAT, "What the words mean: Comparing").

Tables are compared by the keys that are named, but `refused`, `tenders` and `findings` whole; lists of tables in order
and of equal length; lists of names without order.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from app.domain.money import Currency
from server.scenario.steps import Expect
from server.scenario.values import Minor

WHOLE = frozenset({"refused", "tenders", "findings"})
NOTHING = object()
"""Stands where a key that was expected did not come at all."""

Came = dict[str, Any]
"""What a step answered: `outcome`, and under the names of FORMAT texts, numbers, Minor, lists and tables of them."""


def named(expect: BaseModel) -> Came:
    """Return what the file names, as plain tables; `outcome` is always there, "ok" where the file leaves it out."""
    found = {
        field.alias or key: _plain(getattr(expect, key))
        for key, field in type(expect).model_fields.items()
        if key in expect.model_fields_set
    }
    return {"outcome": expect.outcome, **found} if isinstance(expect, Expect) else found


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return named(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def differences(
    expected: Mapping[str, Any], came: Mapping[str, Any], currency: Currency, *, path: str = ""
) -> list[str]:
    """Return one line for each difference, in the order of the file; empty when all that is named is as expected."""
    found: list[str] = []
    for key, want in expected.items():
        have = came.get(key, NOTHING)
        where = f"{path}.{key}" if path else key
        if key == "findings" and isinstance(want, int) and isinstance(have, Mapping):
            have = sum(have.values())
        if isinstance(want, dict) and isinstance(have, Mapping):
            found += differences(want, have, currency, path=where)
            if key in WHOLE and not path:
                extra = {name: value for name, value in have.items() if name not in want}
                found += [f"{where}.{name}: not expected, came {show(extra[name], currency)}" for name in extra]
        elif not _same(want, have, currency):
            found.append(f"{where}: expected {show(want, currency)}, came {show(have, currency)}")
    return found


def _same(want: Any, have: Any, currency: Currency) -> bool:
    if not isinstance(want, list):
        # A number is no truth value, though Python thinks 1 == True.
        return bool(want == have) and isinstance(want, bool) == isinstance(have, bool)
    if not isinstance(have, list):
        return False
    if any(isinstance(item, dict) for item in (*want, *have)):
        return len(want) == len(have) and not any(
            differences(one, other, currency) for one, other in zip(want, have, strict=True)
        )
    return Counter(want) == Counter(have)


def show(value: Any, currency: Currency) -> str:
    """Write a value as a scenario file would."""
    if value is NOTHING or value is None:
        return "nothing"
    if isinstance(value, Minor):
        return f'"{currency.format(value.minor)}"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {show(item, currency)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item, currency) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
