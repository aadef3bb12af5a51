"""Chain the entries of a till's ledger: numbered without gaps, hashed over the stored bytes (PROTOCOL 3.1).

An entry is one business action, whole: a sale with its coupons, uses and tenders is one entry, or it is not there.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
"""Version of the bodies written now; readers accept every version ever shipped (`tests/golden` holds them to that)."""

CHAIN_VERSION = 1

CARRY = "carry"
"""The kind of an entry that brings an entry of an earlier epoch, whole, into the present one (PROTOCOL 3.6)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one ledger entry exactly as stored and sent; the database refuses to change it.

    `seq` counts from 1 within an `epoch`. `entry_id` is made and stored before anything is sent, so a repeat is known.
    `body` is UTF-8 JSON, never serialised anew. `prev_hash` is the hash before it, `genesis` for the first.
    """

    epoch: int
    seq: int
    entry_id: str
    kind: str
    schema: int
    body: bytes
    prev_hash: bytes
    hash: bytes

    def read(self) -> dict[str, Any]:
        """Return the body as JSON data; a body that is no JSON object raises ValueError."""
        data = json.loads(self.body)
        if not isinstance(data, dict):
            raise ValueError("the body of an entry is a JSON object")
        return data


def encode_body(data: Mapping[str, Any]) -> bytes:
    """Return the one byte form of a body: compact JSON, sorted keys, UTF-8, no NaN."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def genesis(till_id: str, epoch: int) -> bytes:
    """Return the hash that the first entry of an epoch builds on."""
    return _digest(b"pawtill ledger", till_id.encode(), str(epoch).encode())


def entry_hash(
    prev_hash: bytes, *, till_id: str, epoch: int, seq: int, entry_id: str, kind: str, body: bytes, schema: int = SCHEMA
) -> bytes:
    """Return SHA-256 over the chain version, the till, the place in the ledger, the hash before and the body's hash.

    Every field is preceded by its length, so no two different entries give the same bytes.
    """
    place = (str(CHAIN_VERSION), till_id, str(epoch), str(seq), entry_id, kind, str(schema))
    return _digest(*(part.encode() for part in place), prev_hash, hashlib.sha256(body).digest())


def make_entry(
    prev_hash: bytes, *, till_id: str, epoch: int, seq: int, entry_id: str, kind: str, data: Mapping[str, Any]
) -> Entry:
    """Build the next entry of the chain."""
    body = encode_body(data)
    digest = entry_hash(prev_hash, till_id=till_id, epoch=epoch, seq=seq, entry_id=entry_id, kind=kind, body=body)
    return Entry(epoch, seq, entry_id, kind, SCHEMA, body, prev_hash, digest)


def verifies(entry: Entry, till_id: str) -> bool:
    """Tell whether the entry's hash is that of its contents and its place."""
    return entry.hash == entry_hash(
        entry.prev_hash,
        till_id=till_id,
        epoch=entry.epoch,
        seq=entry.seq,
        entry_id=entry.entry_id,
        kind=entry.kind,
        body=entry.body,
        schema=entry.schema,
    )


def carried_id(entry_id: str, epoch: int) -> str:
    """Return the id of the entry that carries another into an epoch: made from both, so nothing is carried twice."""
    return _digest(b"pawtill carry", entry_id.encode(), str(epoch).encode()).hex()[:32]


def carry(entry: Entry) -> dict[str, Any]:
    """Return the body of the entry that carries `entry`: every byte that its hash was made of, and the hash."""
    assert entry.kind != CARRY, "what was carried is carried again from its original"
    return {
        "epoch": entry.epoch,
        "seq": entry.seq,
        "entry": entry.entry_id,
        "kind": entry.kind,
        "schema": entry.schema,
        "body": base64.b64encode(entry.body).decode(),
        "prev_hash": entry.prev_hash.hex(),
        "hash": entry.hash.hex(),
    }


def carried(body: Mapping[str, Any], till_id: str) -> Entry:
    """Return the entry that a `carry` brings; raises ValueError where it is not what that till once chained."""
    try:
        entry = Entry(
            body["epoch"],
            body["seq"],
            body["entry"],
            body["kind"],
            body["schema"],
            base64.b64decode(body["body"], validate=True),
            bytes.fromhex(body["prev_hash"]),
            bytes.fromhex(body["hash"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"what is carried is no entry: {error}") from None
    if entry.kind == CARRY or not verifies(entry, till_id):
        raise ValueError("what is carried is not what was written")
    return entry


def original(entry: Entry, till_id: str) -> Entry:
    """Return the entry itself, or the one that it carries."""
    return carried(entry.read(), till_id) if entry.kind == CARRY else entry


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(
        b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])
    ).digest()
