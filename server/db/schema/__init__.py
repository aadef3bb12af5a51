"""Declare the server's tables (SQLAlchemy Core), a module for each subject. Migrations live in `server/db/migrations`.

Conventions: `_minor` are minor units, `_milli` thousandths, `_at` UTC instants stored as milliseconds since 1970.
JSON columns hold text that is written once and read whole. A table that guards money or stock carries its guard as a
constraint, so that no code path can pass it by. Whoever reads or writes imports from here: tables name each other in
foreign keys, so they are declared all or none.
"""

from server.db.schema.access import api_key, chain_key, code_key, device, enrolment_code, request_nonce, shut_till
from server.db.schema.accounts import COMPARTMENTS, account, lease, lease_coupon, transfer
from server.db.schema.books import carried_entry, feed, finding, history, ledger_entry
from server.db.schema.campaigns import admission, campaign, coupon, coupon_recall, snapshot
from server.db.schema.catalog import member, product, punch_card
from server.db.schema.conventions import Instant, metadata
from server.db.schema.issues import issue_chunk, issue_task
from server.db.schema.operations import job_lease, outbox, request
from server.db.schema.risk import risk_budget, risk_use, staff
from server.db.schema.selling import order_line, order_tender, orders, punch_use, redemption, refund
from server.db.schema.tills import chain, enrolment, store, till, till_boot

__all__ = [
    "COMPARTMENTS",
    "Instant",
    "account",
    "admission",
    "api_key",
    "campaign",
    "carried_entry",
    "chain",
    "chain_key",
    "code_key",
    "coupon",
    "coupon_recall",
    "device",
    "enrolment",
    "enrolment_code",
    "feed",
    "finding",
    "history",
    "issue_chunk",
    "issue_task",
    "job_lease",
    "lease",
    "lease_coupon",
    "ledger_entry",
    "member",
    "metadata",
    "order_line",
    "order_tender",
    "orders",
    "outbox",
    "product",
    "punch_card",
    "punch_use",
    "redemption",
    "refund",
    "request",
    "request_nonce",
    "risk_budget",
    "risk_use",
    "shut_till",
    "snapshot",
    "staff",
    "store",
    "till",
    "till_boot",
    "transfer",
]
