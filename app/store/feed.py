"""Apply what the server published to the till's copy, together with the cursor, in one transaction.

The copy is the server's word, taken as it comes; nothing here is decided. A record of a kind that this version does not
know is passed over (a newer server may publish more).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection

from app.store import meta, rights
from app.store.driver import run_each


class Change(Protocol):
    """One record of the feed: `kind` and `key` name it, `record` None = it is gone."""

    @property
    def kind(self) -> str:
        """Return the kind: chain, store, product, ..."""
        ...

    @property
    def key(self) -> str:
        """Return the id within the kind."""
        ...

    @property
    def record(self) -> dict[str, Any] | None:
        """Return the record as it stands now."""
        ...


Row = tuple[Any, ...]
Reader = Callable[[str, Mapping[str, Any]], Row]


def _upsert(table: str, key: str, columns: str) -> str:
    names = [key, *columns.split()]
    marks = ", ".join("?" * len(names))
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) ON CONFLICT ({key}) DO UPDATE SET {changes}"


def _chain(key: str, record: Mapping[str, Any]) -> Row:
    return key, json.dumps(record)


def _store(key: str, record: Mapping[str, Any]) -> Row:
    return key, record["zone"]


def _product(key: str, record: Mapping[str, Any]) -> Row:
    return (
        key,
        record["name"],
        record.get("name_en") or "",
        record["price_minor"],
        record.get("category") or "",
        record.get("brand") or "",
        record.get("barcode"),
        record["kind"],
        bool(record["by_weight"]),
    )


def _member(key: str, record: Mapping[str, Any]) -> Row:
    names = ("tier", "home_store", "label")
    return key, *(record.get(name) or "" for name in names), bool(record["has_ordered"]), record["balance_minor"]


def _punch_card(key: str, record: Mapping[str, Any]) -> Row:
    return key, record["member"], record["service"], record["uses_left"], record.get("until_at")


def _campaign(key: str, record: Mapping[str, Any]) -> Row:
    terms = (record.get("offline") or "lease", record.get("risk_max_minor"), record.get("sync_age_max_h"))
    return key, record["kind"], record["state"], record["snapshot"], record.get("budget_left_minor"), *terms


def _snapshot(key: str, record: Mapping[str, Any]) -> Row:
    return key, record["campaign"], json.dumps(record["rule"])


def _coupon(key: str, record: Mapping[str, Any]) -> Row:
    return (
        key,
        bytes.fromhex(record["digest"]),
        record["campaign"],
        record["snapshot"],
        record.get("member"),
        record["state"],
        record.get("order"),
        record.get("store"),
        record.get("at"),
        record.get("valid_until_at"),
        record.get("home"),
        record.get("version", 0),
        bool(record.get("recalled")),
    )


def _risk(key: str, record: Mapping[str, Any]) -> Row:
    return key, record["limit_minor"], record["available_minor"]


def _staff(key: str, record: Mapping[str, Any]) -> Row:
    return key, record["name"], record["verifier"], record["pin_version"]


_KINDS: Mapping[str, tuple[str, str, str, Reader]] = {
    "chain": ("chain", "key", "record", _chain),
    "store": ("store", "id", "zone", _store),
    "product": ("product", "sku", "name name_en price_minor category brand barcode kind by_weight", _product),
    "member": ("member", "id", "tier home_store label has_ordered balance_minor", _member),
    "punch_card": ("punch_card", "id", "member_id service uses_left until_at", _punch_card),
    "campaign": (
        "campaign",
        "id",
        "kind state snapshot_id budget_left_minor offline risk_max_minor sync_age_max_h",
        _campaign,
    ),
    "snapshot": ("snapshot", "id", "campaign_id rule", _snapshot),
    "coupon": (
        "coupon",
        "id",
        "code_digest campaign_id snapshot_id member_id state order_id state_store state_at valid_until_at home version "
        "recalled",
        _coupon,
    ),
    "risk": ("risk_budget", "till_id", "limit_minor available_minor", _risk),
    "staff": ("staff", "id", "name verifier pin_version", _staff),
}
_LEASE = "lease"
_UPSERTS = {kind: _upsert(table, key, columns) for kind, (table, key, columns, _) in _KINDS.items()}


def apply(tx: Connection, changes: Sequence[Change], cursor: int) -> int:
    """Store records and the cursor behind them; return how many were of an unknown kind.

    Of several records with one key the last one stands. A record that lacks what it must have raises KeyError or
    ValueError: nothing is stored, and the sync tries the page again.
    """
    last = {(change.kind, change.key): change.record for change in changes}
    rows: dict[str, list[Row]] = {}
    gone: dict[str, list[tuple[str]]] = {}
    skipped = 0
    for (kind, key), record in last.items():
        if kind == _LEASE:
            _lease(tx, key, record)
        elif kind not in _KINDS:
            skipped += 1
        elif record is None:
            gone.setdefault(kind, []).append((key,))
        else:
            rows.setdefault(kind, []).append(_KINDS[kind][3](key, record))
    for kind, keys in gone.items():
        table, key_column, _, _ = _KINDS[kind]
        run_each(tx, f"DELETE FROM {table} WHERE {key_column} = ?", keys)
    for kind, kind_rows in rows.items():
        run_each(tx, _UPSERTS[kind], kind_rows)
    _take_homes(tx, last)
    meta.put(tx, cursor=cursor)
    return skipped


def _lease(tx: Connection, lease_id: str, record: Mapping[str, Any] | None) -> None:
    """Learn of a lease of ours whose answer got lost, or that headquarters has taken back."""
    if record is None or record["state"] == "REVOKED":
        rights.revoke(tx, lease_id)
    elif record["state"] == "OPEN":
        coupons = [(each["coupon"], each["code"]) for each in record["coupons"]]
        rights.answer(tx, lease_id, qty=record["qty"], coupons=coupons)
        if record.get("recalled"):
            rights.recall(tx, lease_id)


def _take_homes(tx: Connection, last: Mapping[tuple[str, str], Mapping[str, Any] | None]) -> None:
    """Take the coupons whose home is this till by the server's word; an older version revives nothing.

    One that was at home here in an earlier epoch is frozen: the ledger that might have used it was left behind.
    """
    homed = [
        (key, record) for (kind, key), record in last.items() if kind == "coupon" and record and record.get("home")
    ]
    if homed:
        till_id = meta.load(tx).till_id
        mine = [(key, record) for key, record in homed if record["home"] == till_id and not record.get("frozen")]
        rights.take_home(tx, [(key, record["version"]) for key, record in mine])
