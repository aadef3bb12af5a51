"""Shape the answers of use cases: JSON data whose `outcome` is "ok" or a refusal's code."""

from typing import Any

from app.domain.refusals import Refusal

Answer = dict[str, Any]


def ok(**fields: Any) -> Answer:
    """Answer yes, with what there is to tell."""
    return {"outcome": "ok", **fields}


def refused(refusal: Refusal) -> Answer:
    """Answer no: `{"outcome": code, "facts": {...}}`."""
    return {"outcome": refusal.code.value, "facts": dict(refusal.facts)}
