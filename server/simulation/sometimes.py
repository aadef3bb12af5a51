"""Say which branches a long run must have gone through: a rule that was never tried was not shown to hold."""

from collections import Counter
from collections.abc import Mapping

ENOUGH_OPERATIONS, MANY_OPERATIONS = 20_000, 100_000
"""A run of so many operations is bad where a branch is missing, of the second number also where a rare one is."""

RARE = frozenset({"OVER", "illegal step told", "lost till speaks", "entries carried over", "end of a ledger lost"})
RARE |= {"landed for one that died"}
NOT_BUNDLED = "redis: not bundled"
"""Is counted where the system has no Redis (Windows): nobody goes through the branches of one there."""
BY_REDIS = frozenset({"admitted by Redis", "Redis died before the landing", "server died before the landing"})
BY_REDIS |= {"landed for one that died", "counters built anew"}

BRANCHES: Mapping[str, tuple[str, ...]] = {
    "request lost": ("line: request lost",),
    "answer lost": ("line: answer lost",),
    "request doubled": ("line: request doubled",),
    "line cut": ("line: cut",),
    "line jammed": ("line: jammed",),
    "captive portal": ("line: portal",),
    "stale answer": ("line: stale answer",),
    "DUP": ("push: DUP",),
    "issued in a batch": ("given in a batch: seen",),
    "parked by a bug": ("push: QUARANTINED quarantined",),
    "late payment": ("push: CONFLICT late_payment",),
    "illegal step told": ("push: CONFLICT illegal_transition",),
    "late use": ("finding: late_use",),
    "OVER": ("finding: overdraft",),
    "member over the limit": ("finding: member_limit",),
    "rolled-back disk noticed": ("finding: ledger_rows_lost", "finding: ledger_fork"),
    "till died before a commit": ("died before a commit",),
    "till died after a commit": ("died after a commit",),
    "till died while it waited": ("died while it waited",),
    "server died": ("server: died",),
    "disk full": ("DiskFull",),
    "receipt found not shown": ("interrupted: receipt_not_shown",),
    "payment found unknown": ("interrupted: payment_unknown",),
    "refund found unanswered": ("interrupted: refund_unanswered",),
    "terminal does not answer": ("pay: PaymentPending",),
    "payment declined": ("pay: Cancelled",),
    "paid too late": ("pay: illegal_transition",),
    "sold by a hold": ("checkout: HELD held",),
    "sold by own rights": ("checkout: OPEN own rights",),
    "needs the server": ("checkout: needs_online",),
    "coupon used already": ("quote: coupon already_used",),
    "coupon at home elsewhere": ("quote: coupon leased_elsewhere", "take_home: leased_elsewhere"),
    "home moved": ("take_home: ok",),
    "home returned": ("return_home: ok",),
    "stock lent": ("lease stock: granted",),
    "value lent": ("lease value: granted",),
    "uses lent": ("lease uses: granted",),
    "budget lent": ("lease budget: granted",),
    "lease refused": ("lease stock: out_of_stock",),
    "lease asked for again": ("resume: granted",),
    "lease given back": ("unlease: ok",),
    "coupon given at the till": ("give: ok",),
    "refund decided by the till": ("refund: decided by till",),
    "refund decided by the server": ("refund: decided by server",),
    "refund refused": ("refund: not_refundable", "refund: invalid_quantity"),
    "claimed": ("claim: ok",),
    "claim refused": ("claim: already_claimed",),
    "out of stock": ("claim: out_of_stock",),
    "admitted by Redis": ("redis: admitted",),
    "Redis died before the landing": ("redis: redis died before the landing",),
    "server died before the landing": ("redis: server died before the landing",),
    "landed for one that died": ("job: redis_reservations repaired",),
    "counters built anew": ("job: redis_compare repaired",),
    "campaign put on Redis": ("fault: redis_switch redis",),
    "campaign taken off Redis": ("fault: redis_switch database",),
    "Redis back from an older state": ("fault: redis_older",),
    "forged answer": ("line: forged answer",),
    "replayed request": ("refused: replayed",),
    "copy of a request found": ("finding: replayed_request",),
    "answers of a stranger found": ("finding: untrusted_answers",),
    "signed at a wrong time": ("refused: clock",),
    "till suspended": ("suspend: ok",),
    "suspended till refused": ("refused: till_suspended",),
    "rights reclaimed": ("reclaim: ok",),
    "reclaimed rights lent at once": ("take_over: granted",),
    "lease renewed by the till": ("renew: granted",),
    "idle lease closed by the till": ("renew: closed",),
    "coupon brought home": ("renew: brought",),
    "coupon sent home when asked": ("renew: returned",),
    "day closed": tuple(f"close_day: closed{how}" for how in ("", " returned", " kept", " returned kept")),
    "till declared lost": ("strand: ok",),
    "lost till speaks": ("finding: lost_till_heard",),
    "lost till found": ("found: ok",),
    "damaged ledger recovered": ("recover: cut", "recover: whole"),
    "new machine": ("fault: new_disk",),
    "new key where all is well": ("rejoin: one ledger",),
    "new epoch, something is missing": ("rejoin: cut",),
    "entries carried over": ("carried",),
    "end of a ledger lost": ("finding: tail_lost",),
    "server put back to a backup": ("server: put back",),
    "asked while it is restored": ("refused: restoring",),
    "rights taken over": ("adopt: taken over",),
}
"""By the name of each branch, the ends of what is counted when it is gone through."""


def counted(seen: Counter[str]) -> dict[str, int]:
    """Return how often each branch was gone through."""
    return {
        branch: sum(times for how, times in seen.items() if how.endswith(ends)) for branch, ends in BRANCHES.items()
    }


def missing(seen: Counter[str], operations: int) -> list[str]:
    """Return the branches that a run of that length should have gone through, and has not."""
    if operations < ENOUGH_OPERATIONS:
        return []
    excused = (RARE if operations < MANY_OPERATIONS else frozenset()) | (BY_REDIS if seen[NOT_BUNDLED] else frozenset())
    return [name for name, times in counted(seen).items() if not times and name not in excused]
