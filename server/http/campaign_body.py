"""Take a campaign's keys as they come, and describe them; what they mean is read in one place (`rule_json`)."""

from typing import Annotated, Any

from fastapi import Body as BodyField
from pydantic import AfterValidator, WithJsonSchema

from app.domain.rule_json import MAX_COUNT, WEEKDAYS
from app.domain.states import CampaignState
from server.services.campaign_offline import AGE_MAX_H, MODES
from server.services.campaigns import RATE_MAX
from server.services.names import ID_CHAR, ID_MAX_CHARS
from sync.protocol import writable

JsonObject = dict[str, Any]


def _keys(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "additionalProperties": False, "properties": properties}


_TEXT: JsonObject = {"type": "string", "minLength": 1, "maxLength": 200}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_AMOUNT: JsonObject = {"type": "string", "description": "In the chain's currency", "examples": ["10.00"]}
_INSTANT: JsonObject = {"type": "string", "format": "date-time"}
_CLOCK: JsonObject = {"type": "string", "pattern": "^([01][0-9]|2[0-4]):[0-5][0-9]$"}
_FLAG: JsonObject = {"type": "boolean"}
_COUNT: JsonObject = {"type": "integer", "minimum": 1, "maximum": MAX_COUNT}
_PERCENT: JsonObject = {"type": ["number", "string"], "description": "Above 0, at most 100, at most 2 decimals"}
_GOODS = _keys(skus=_TEXTS, categories=_TEXTS, brands=_TEXTS)
_TIERS: JsonObject = {"type": "array", "minItems": 1, "items": _keys(min=_AMOUNT, off=_AMOUNT)}


def _choice(*names: str) -> JsonObject:
    return {"type": "string", "enum": list(names)}


def _benefit(kind: str, *needed: str, **more: JsonObject) -> JsonObject:
    return {**_keys(type={"const": kind}, **more), "required": ["type", *needed]}


_BENEFIT: JsonObject = {
    "oneOf": [
        _benefit("amount_off", "amount", amount=_AMOUNT),
        _benefit("percent_off", "percent", percent=_PERCENT, max_discount=_AMOUNT),
        _benefit("tiered", "tiers", tiers=_TIERS),
        _benefit("every", "min", "off", min=_AMOUNT, off=_AMOUNT, max_times=_COUNT),
        _benefit("fixed_price", "price", price=_AMOUNT, qty=_COUNT),
        _benefit("buy_x_get_y", "buy", "get", buy=_COUNT, get=_COUNT, percent=_PERCENT, max_times=_COUNT),
    ]
}
RULE: JsonObject = {
    "benefit": _BENEFIT,
    "kind": _choice("coupon", "automatic"),
    "name": _TEXT,
    "name_en": _TEXT,
    "scope": _keys(include=_GOODS, exclude=_GOODS),
    "min_spend": _AMOUNT,
    "min_qty": _COUNT,
    "stores": _TEXTS,
    "tiers": _TEXTS,
    "from": _INSTANT,
    "until": _INSTANT,
    "use_from": _INSTANT,
    "valid_days": {**_COUNT, "maximum": 36_500},
    "weekdays": {"type": "array", "items": _choice(*WEEKDAYS)},
    "hours": _keys(**{"from": _CLOCK, "until": _CLOCK}),
    "first_order": _FLAG,
    "per_member": _COUNT,
    "per_member_per_day": _COUNT,
    "budget": _AMOUNT,
    "group": _TEXT,
    "max_per_order": _COUNT,
    "exclusive": _FLAG,
    "no_promotions": _FLAG,
    "priority": {"type": "integer", "minimum": -MAX_COUNT, "maximum": MAX_COUNT},
    "bearer": _FLAG,
    "threshold_base": _choice("net", "gross"),
    "refund_policy": _choice("keep", "recompute"),
}
"""What a rule may have: `read_rule` reads the same, and a test holds the two together."""
_BESIDES: JsonObject = {
    "stock": {"type": "integer", "minimum": 0, "maximum": MAX_COUNT},
    "arbiter": _choice("database", "redis"),
    "claims_per_second": {"type": "integer", "minimum": 1, "maximum": RATE_MAX},
    "offline": _choice(*MODES),
    "risk_max": {**_AMOUNT, "description": 'What one coupon may cost at a risk; with offline "risk" alone'},
    "sync_age_max_h": {"type": "integer", "minimum": 1, "maximum": AGE_MAX_H},
}
_ONCE: JsonObject = {
    "id": {"type": "string", "pattern": f"^{ID_CHAR}{{1,{ID_MAX_CHARS}}}$"},
    "state": _choice(*(state for state in CampaignState if state is not CampaignState.ENDED)),
}
_NEW: JsonObject = {
    **_keys(**_ONCE, **_BESIDES, **RULE),
    "required": ["id", "benefit"],
    "examples": [{"id": "wash", "stock": 50, "benefit": {"type": "amount_off", "amount": "10.00"}}],
}
_CHANGES: JsonObject = _keys(
    **{key: {"anyOf": [one, {"type": "null"}]} for key, one in {**_BESIDES, **RULE}.items()},
)


NewCampaign = Annotated[JsonObject, BodyField(), AfterValidator(writable), WithJsonSchema(_NEW)]
CampaignChanges = Annotated[JsonObject, BodyField(), AfterValidator(writable), WithJsonSchema(_CHANGES)]
"""Unknown keys and values that make no sense are `invalid_campaign`, by name of the field."""
