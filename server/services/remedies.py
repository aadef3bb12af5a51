"""Say of each kind of finding who bears the loss, if there is one, and what a person may do about it.

Words only: nothing here is done by itself. What is proposed, and who loses, has its sentence in both languages
(`resources/translations`: `finding`, `remedy`, `loser`). A kind that is not listed is a question of the audit.
"""

from dataclasses import dataclass

NOBODY, STORE, CHAIN, CUSTOMER = "nobody", "store", "chain", "customer"
LOSERS = (NOBODY, STORE, CHAIN, CUSTOMER)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Name who loses, what is proposed (a key of `remedy`), and whether `amount_minor` of the finding is money."""

    loser: str
    proposal: str
    in_money: bool = False


KINDS: dict[str, Remedy] = {
    # a till's ledger and the server's
    "tail_lost": Remedy(STORE, "find_disk"),
    "tail_pending": Remedy(NOBODY, "look_at_till"),
    "ledger_rows_lost": Remedy(STORE, "enrol_anew"),
    "ledger_fork": Remedy(STORE, "enrol_anew"),
    "till_cloned": Remedy(NOBODY, "enrol_anew"),
    "broken_chain": Remedy(STORE, "enrol_anew"),
    "wrong_till": Remedy(NOBODY, "look_at_till"),
    "till_damaged": Remedy(STORE, "recover"),
    "silent_till": Remedy(NOBODY, "look_at_till"),
    "server_set_back": Remedy(CHAIN, "say_restored"),
    # the line between them
    "replayed_request": Remedy(NOBODY, "look_at_line"),
    "forged_request": Remedy(NOBODY, "look_at_key"),
    "oversized_request": Remedy(NOBODY, "look_at_sender"),
    "untrusted_answers": Remedy(NOBODY, "look_at_line"),
    # entries
    "quarantined": Remedy(STORE, "read_entry"),
    "revoked_till": Remedy(STORE, "judge_or_leave", in_money=True),
    "duplicate_entry": Remedy(NOBODY, "compare"),
    "duplicate_order": Remedy(CUSTOMER, "pay_back", in_money=True),
    "late_payment": Remedy(CUSTOMER, "pay_back", in_money=True),
    "bad_sums": Remedy(STORE, "compare", in_money=True),
    "unknown_sku": Remedy(NOBODY, "add_product", in_money=True),
    "refund_mismatch": Remedy(STORE, "compare", in_money=True),
    "unknown_refund": Remedy(STORE, "compare", in_money=True),
    "illegal_transition": Remedy(NOBODY, "compare"),
    "sanity": Remedy(STORE, "compare", in_money=True),
    # rights
    "no_hold": Remedy(CHAIN, "accept_loss"),
    "hold_mismatch": Remedy(CHAIN, "accept_loss"),
    "overdraft": Remedy(CHAIN, "pay_overdraft"),
    "late_use": Remedy(NOBODY, "accept_loss"),
    "double_redemption": Remedy(CHAIN, "accept_loss", in_money=True),
    "invalid_redemption": Remedy(CHAIN, "accept_loss", in_money=True),
    "risk_loss": Remedy(STORE, "talk_to_approver", in_money=True),
    "unknown_approver": Remedy(STORE, "talk_to_approver"),
    "member_limit": Remedy(CHAIN, "accept_loss"),
    "lease_mismatch": Remedy(CHAIN, "compare"),
    "home_mismatch": Remedy(CHAIN, "compare"),
    "unknown_claim": Remedy(CUSTOMER, "compare"),
    "duplicate_claim": Remedy(NOBODY, "compare"),
    "lost_till_heard": Remedy(NOBODY, "say_found", in_money=True),
    "rights_stranded": Remedy(NOBODY, "wait_or_reclaim", in_money=True),
    # what stands still
    "payment_unknown": Remedy(CUSTOMER, "ask_terminal", in_money=True),
    "hold_overdue": Remedy(NOBODY, "call_support"),
    "outbox_stuck": Remedy(NOBODY, "look_at_receiver"),
    "outbox_parked": Remedy(NOBODY, "look_at_receiver"),
    "redis_drift": Remedy(NOBODY, "call_support"),
}
BOOKS = "books"
_OF_THE_BOOKS = Remedy(CHAIN, "call_support")


def remedy(kind: str) -> Remedy:
    """Return what is known of a kind."""
    return KINDS.get(kind, _OF_THE_BOOKS)


def words_of(kind: str) -> str:
    """Return the key of a kind's sentence in the translations."""
    return f"finding.{kind if kind in KINDS else BOOKS}"
