"""Keep ledgers as each schema of bodies wrote them: one file a version, one entry a line, never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from app.domain.ledger import Entry

FOLDER = Path(__file__).parent
TILL = "T1"


def file_of(version: int) -> Path:
    """Return where the ledger of a version is kept."""
    return FOLDER / f"schema-{version}.jsonl"


def versions() -> list[int]:
    """List the versions that have one."""
    return sorted(int(file.stem.removeprefix("schema-")) for file in FOLDER.glob("schema-*.jsonl"))


def write(version: int, entries: Iterable[Entry]) -> None:
    """Keep a ledger; FileExistsError where that version has one."""
    with file_of(version).open("x", encoding="utf-8", newline="\n") as file:
        for entry in entries:
            told = {
                "epoch": entry.epoch,
                "seq": entry.seq,
                "id": entry.entry_id,
                "kind": entry.kind,
                "schema": entry.schema,
                "body": entry.body.decode(),
                "prev_hash": entry.prev_hash.hex(),
                "hash": entry.hash.hex(),
            }
            file.write(json.dumps(told, ensure_ascii=False) + "\n")


def read(version: int) -> list[Entry]:
    """Read a ledger that was kept."""
    found = []
    for line in file_of(version).read_bytes().splitlines():
        told = json.loads(line)
        body, before, digest = told["body"].encode(), bytes.fromhex(told["prev_hash"]), bytes.fromhex(told["hash"])
        place = (told["epoch"], told["seq"], told["id"], told["kind"], told["schema"])
        found.append(Entry(*place, body, before, digest))
    return found
