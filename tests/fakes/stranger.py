"""A stranger who knows nothing of the API but its description, and asks all that it allows and much that it forbids."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import schemathesis
from fastapi import FastAPI
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

REJECTED = ("400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "429", "5xx")
UNKNOWN_PROTOCOL = "426"
PHASES = ("examples", "coverage", "fuzzing", "stateful")


class Stranger:
    """Ask an application by its OpenAPI description, with all of schemathesis' checks.

    `keys` has one for each scope. `known` names, for parameters and fields of bodies ("path.member_id"), what is in
    use: two of three calls take it from there, so that they reach deep. `statuses` counts the answers by operation.
    """

    def __init__(self, app: FastAPI, keys: Mapping[str, str], known: Mapping[str, Sequence[Any]]) -> None:
        self._app, self._keys, self._known = app, keys, known
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)

    def findings(self, *tags: str, examples: int, phases: Sequence[str] = PHASES) -> list[str]:
        """Return what is wrong with the answers of these parts of the API, each with the call that shows it."""
        config = self._config(examples, phases)
        schema = schemathesis.openapi.from_asgi("/openapi.json", self._app, config=config)
        keys = self._keys

        @schema.auth(cache_by_key=lambda case, _: _scope(case))
        class Auth:
            def get(self, case: Any, _context: Any) -> str:
                return keys[_scope(case)]

            def set(self, case: Any, key: str, _context: Any) -> None:
                case.headers["Authorization"] = f"Bearer {key}"

        return [f"{what}\n{sample}" for what, sample in dict(self._run(schema.include(tag=list(tags)))).items()]

    def _run(self, schema: Any) -> Iterator[tuple[str, str]]:
        for event in from_schema(schema).execute():
            if isinstance(event, events.FatalError):
                raise event.exception
            if isinstance(event, events.NonFatalError):
                yield f"{event.label}: {event.value!r}", ""
            if isinstance(event, events.ScenarioFinished):
                yield from self._read(event.recorder)

    def _read(self, recorder: Any) -> Iterator[tuple[str, str]]:
        for case_id, interaction in recorder.interactions.items():
            if interaction.response is not None:
                self.statuses[recorder.cases[case_id].value.operation.label][interaction.response.status_code] += 1
        for checks in recorder.checks.values():
            for info in (check.failure_info for check in checks if check.failure_info is not None):
                yield f"{info.failure.operation}: {info.failure.title}: {info.failure.message}", info.code_sample

    def _config(self, examples: int, phases: Sequence[str]) -> SchemathesisConfig:
        lists = {f"known{number}": {"values": list(values)} for number, values in enumerate(self._known.values())}
        places = {
            place: {"dictionary": name, "probability": 2 / 3} for place, name in zip(self._known, lists, strict=True)
        }
        return SchemathesisConfig.from_dict(
            {
                "seed": 1,
                "dictionaries": lists,
                "parameters": places,
                # Another version of the protocol is refused with a status of its own, whatever else is wrong.
                "checks": {"negative_data_rejection": {"expected-statuses": [*REJECTED, UNKNOWN_PROTOCOL]}},
                "generation": {"max-examples": examples, "deterministic": True, "database": "none"},
                "phases": {name: {"enabled": name in phases} for name in PHASES},
            }
        )


def _scope(case: Any) -> str:
    """Return a scope that the operation lets in, by the description; one that needs no key gets one all the same."""
    asked = case.operation.definition.raw.get("security", [])
    return next((scope for each in asked for scopes in each.values() for scope in scopes), "headquarters")
