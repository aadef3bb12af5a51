"""Describe in the OpenAPI document what a route may answer besides yes, by rule: from whom it asks and what it takes.

So no route can forget to declare its refusals, and a new one is described as the others are.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from app.domain.refusals import RefusalCode
from sync.protocol import Hello, HelloAnswer, Pull, Push, PushAnswer, PushedEntry, Sanity

JsonObject = dict[str, Any]
_METHODS = ("get", "put", "post", "patch", "delete")
_REF = "#/components/schemas/{model}"


class Granted(BaseModel):
    """Say yes, with what there is to tell."""

    model_config = ConfigDict(extra="allow")
    outcome: Literal["ok"]


class Refused(BaseModel):
    """Say no: nothing was done. The facts depend on the code."""

    model_config = ConfigDict(extra="allow")
    outcome: RefusalCode
    facts: dict[str, Any]


class Pending(BaseModel):
    """Promise nothing: the place in `Location` tells what became of the request."""

    outcome: Literal["pending"]
    request: str


class Mistake(BaseModel):
    """Tell what is wrong with the request itself."""

    model_config = ConfigDict(extra="allow")
    error: str


class WrongField(BaseModel):
    """Name a field of the request and what is wrong with it, never its value."""

    field: str
    reason: str


class Invalid(BaseModel):
    """Tell which fields make no sense."""

    error: Literal["invalid_request"]
    fields: list[WrongField]


_ANSWERS = (Granted, Refused, Pending, Mistake, WrongField, Invalid)
_MESSAGES = (Hello, Push, PushAnswer, PushedEntry, Pull, Sanity)
"""What a route reads by itself, so that FastAPI does not know of it."""
_LATER = {"Retry-After": {"description": "Seconds", "required": True, "schema": {"type": "integer", "minimum": 0}}}


def ref(model: type[BaseModel]) -> JsonObject:
    """Refer to a shape that the document has."""
    return {"$ref": _REF.format(model=model.__name__)}


def answer(text: str, model: type[BaseModel], **headers: Any) -> JsonObject:
    """Describe one answer in JSON."""
    described: JsonObject = {"description": text, "content": {"application/json": {"schema": ref(model)}}}
    return {**described, "headers": headers} if headers else described


RATE_LIMITED = answer("Too many at once; come again", Refused, **_LATER)
PENDING = answer(
    "Not decided yet",
    Pending,
    **_LATER,
    Location={"description": "Where to ask", "required": True, "schema": {"type": "string"}},
)


def complete(document: JsonObject) -> JsonObject:
    """Add to FastAPI's document what each route may answer, and return it; what a route declared itself stays."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for mode, models in (("serialization", _ANSWERS), ("validation", _MESSAGES)):
        asked = [(model, mode) for model in models]
        schemas.update(models_json_schema(asked, ref_template=_REF)[1]["$defs"])  # type: ignore[arg-type]
    for model in (HelloAnswer, PushAnswer):
        _without_tuples(schemas[model.__name__])
    for operation in _operations(document):
        declared = operation["responses"]
        declared.pop("422", None)
        for status, described in declared.items():
            content = described.get("content", {}).get("application/json")
            if status in ("200", "201") and content == {"schema": {}}:
                described["content"] = answer("", Granted)["content"]
        operation["responses"] = {**dict(_answers(operation)), **declared}
    return document


def _without_tuples(schema: JsonObject) -> None:
    """Describe a pair in an answer as a list of two: what reads descriptions stumbles over `prefixItems` there."""
    for field in schema["properties"].values():
        kinds = [each["type"] for each in field.pop("prefixItems", [])]
        if kinds:
            field["items"] = {"type": list(dict.fromkeys(kinds))}


def _operations(document: JsonObject) -> Iterator[JsonObject]:
    for path, methods in document["paths"].items():
        if path.startswith("/v1/"):
            yield from (methods[method] for method in _METHODS if method in methods)


def _answers(operation: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield status and answer for what the way to a route's decision may end with."""
    places = {each["in"] for each in operation.get("parameters", [])}
    if operation.get("security"):
        challenge = {"description": "Bearer", "required": True, "schema": {"type": "string"}}
        yield "401", answer("No key, or a wrong one", Mistake, **{"WWW-Authenticate": challenge})
        yield "403", answer("A key whose scope does not reach here", Mistake)
    if "path" in places:
        yield "404", answer("What the path names is not there", Refused)
    if "requestBody" in operation:
        yield "400", answer("A body that cannot be read", Mistake)
        yield "413", answer("A body that is too large", Mistake)
    if places or "requestBody" in operation:
        yield "422", answer("A request of the wrong shape", Invalid)
    yield "409", answer("Refused", Refused)
    yield (
        "503",
        answer(
            "Not now; with `reason` slow: it may be done all the same. Ask again, by the same id", Refused, **_LATER
        ),
    )
