"""Give the same answer to the same request sent again, refusals included (RULES, "Refusals")."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from app.domain.refusals import RefusalCode, refuse
from server.db.bulk import BulkInsert, Lookup
from server.db.schema import request
from server.services.answers import Answer, refused

_KNOWN = Lookup(select(request.c.id, request.c.digest, request.c.answer, request.c.reservation), request.c.id)
_REQUESTS = BulkInsert(request, "id", "digest", "answer", "created_at", "reservation")
_RESERVATIONS = Lookup(select(request.c.id, request.c.reservation), request.c.id)
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what is asked: `id` is `<what>:<id of the caller>`, `content` JSON data.

    `reservation` names the reservation in Redis that it comes from; it belongs to the answer, not to the content.
    """

    id: str
    content: Mapping[str, Any]
    reservation: str | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """Hold the first answer to a request, and the reservation that it was given under, None = under none."""

    answer: Answer
    reservation: str | None


def once(
    conn: Connection,
    request_id: str,
    content: Mapping[str, Any],
    *,
    decide: Callable[[], Answer],
    now: datetime,
) -> Answer:
    """Return the first answer to this request, deciding it if there is none yet; rules as in `once_each`."""
    return once_each(conn, [Request(request_id, content)], decide=lambda _places: [decide()], now=now)[0].answer


def once_each(
    conn: Connection, asked: Sequence[Request], *, decide: Callable[[list[int]], list[Answer]], now: datetime
) -> list[Given]:
    """Return the first answer to each request, in order; what has none yet is decided together.

    `decide` gets the places of those in `asked`, each request once, and returns their answers in that order. Other
    content under the same id is `duplicate_mismatch`. `busy` decides nothing and is not kept. Answers are stored in the
    transaction that `decide` writes in, so both are there or none.
    """
    digests = [digest_of(each.content) for each in asked]
    known = _KNOWN.rows(conn, [each.id for each in asked])
    first = {row.id: (row.digest, Given(row.answer, row.reservation)) for row in known}
    fresh: dict[str, int] = {}
    for place, each in enumerate(asked):
        if each.id not in first:
            fresh.setdefault(each.id, place)
    if fresh:
        answers = decide(list(fresh.values()))
        rows = [
            (asked[place].id, digests[place], answer, now, asked[place].reservation)
            for place, answer in zip(fresh.values(), answers, strict=True)
        ]
        first.update((name, (digest, Given(answer, token))) for name, digest, answer, _, token in rows)
        _REQUESTS.run(conn, [row for row in rows if row[2]["outcome"] != RefusalCode.BUSY])
    return [_same(each.id, first[each.id], digest=digest) for each, digest in zip(asked, digests, strict=True)]


def reservations(conn: Connection, request_ids: Collection[str]) -> dict[str, str | None]:
    """Return the reservation that each request was answered under; one without an answer is left out."""
    return {row.id: row.reservation for row in _RESERVATIONS.rows(conn, request_ids)}


def answers_of(conn: Connection, request_ids: Collection[str]) -> dict[str, tuple[bytes, Answer]]:
    """Return the stored answers with the digests of their contents; one without an answer is left out."""
    return {row.id: (row.digest, row.answer) for row in _KNOWN.rows(conn, request_ids)}


def forget_refusal(conn: Connection, request_id: str) -> None:
    """Forget a no: whoever asked has the proof that a yes was given since, in a history that a backup lacks."""
    known = answers_of(conn, [request_id]).get(request_id)
    if known is not None and known[1]["outcome"] != "ok":
        conn.execute(delete(request).where(request.c.id == request_id))


def _same(request_id: str, first: tuple[bytes, Given], *, digest: bytes) -> Given:
    if first[0] == digest:
        return first[1]
    return Given(refused(refuse(RefusalCode.DUPLICATE_MISMATCH, request=request_id.partition(":")[2])), None)


def digest_of(content: Mapping[str, Any]) -> bytes:
    """Return what tells one content from another: the SHA-256 of its canonical JSON."""
    return hashlib.sha256(_canonical(content).encode()).digest()
