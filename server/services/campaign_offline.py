"""Say what may happen with a campaign where a till cannot ask: leases, nothing, or a risk that is counted (D3).

With `risk`, whatever a till has no right to it may take all the same while its risk budget lasts: a coupon up to
`risk_max` each, and none once its last sync is older than `sync_age_max_h` hours. The till lends itself nothing: what
can be leased is leased as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.money import Currency
from app.domain.refusals import Refusal
from app.domain.risk import SYNC_AGE_MAX_H
from app.domain.rules import Kind, Rule
from server.services import campaign_limits as limits

LEASE, ONLINE_ONLY, RISK = "lease", "online_only", "risk"
MODES = (LEASE, ONLINE_ONLY, RISK)
AGE_MAX_H = 72
"""Behind three days without a line even the rules of a till are stale (PROTOCOL 1.2)."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Hold the terms; `risk_max_minor` (minor units, for one coupon) and `sync_age_max_h` are set with RISK alone."""

    mode: str
    risk_max_minor: int | None = None
    sync_age_max_h: int | None = None

    def values(self) -> dict[str, Any]:
        """Return them as the columns of a campaign."""
        return {
            "offline": self.mode,
            "risk_max_minor": self.risk_max_minor,
            "sync_age_max_h": self.sync_age_max_h,
        }


def take_terms(left: dict[str, Any], old: Terms, currency: Currency) -> Terms | Refusal:
    """Take `offline`, `risk_max` and `sync_age_max_h` out of what is asked for; a key that is not there stays as it is.

    Without a risk the two others mean nothing, and naming them is `invalid_campaign`.
    """
    mode = left.pop("offline", None) or old.mode
    if mode not in MODES:
        return limits.invalid("offline", f"must be one of {', '.join(MODES)}")
    risk_max, age_h = left.pop("risk_max", None), left.pop("sync_age_max_h", None)
    if mode != RISK:
        named = {"risk_max": risk_max, "sync_age_max_h": age_h}
        wrong = next((name for name, value in named.items() if value is not None), None)
        return limits.invalid(wrong, f'goes with offline "{RISK}" alone') if wrong else Terms(mode)
    return _risk_terms(old, currency, risk_max=risk_max, age_h=age_h)


def _risk_terms(old: Terms, currency: Currency, *, risk_max: Any, age_h: Any) -> Terms | Refusal:
    max_minor = old.risk_max_minor if risk_max is None else _parse(risk_max, currency)
    if isinstance(max_minor, Refusal) or not max_minor or max_minor < 0:
        return limits.invalid("risk_max", "must be an amount above 0: what one coupon may cost")
    hours = age_h if age_h is not None else old.sync_age_max_h or SYNC_AGE_MAX_H
    if not isinstance(hours, int) or isinstance(hours, bool) or not 1 <= hours <= AGE_MAX_H:
        return limits.invalid("sync_age_max_h", f"must be a whole number from 1 to {AGE_MAX_H}")
    return Terms(RISK, max_minor, hours)


def _parse(value: Any, currency: Currency) -> int | Refusal:
    return currency.parse(value) if isinstance(value, str) else limits.invalid("risk_max", "must be an amount as text")


def problem(terms: Terms, rule: Rule) -> Refusal | None:
    """Refuse a risk with what needs no code: a promotion is applied, or it is not."""
    if terms.mode == RISK and rule.kind is not Kind.COUPON:
        return limits.invalid("offline", "a promotion without a code cannot be taken at a risk")
    return None


def view(row: Any, currency: Currency) -> Mapping[str, Any]:
    """Show the terms of a campaign's row."""
    worst = None if row.risk_max_minor is None else currency.format(row.risk_max_minor)
    return {"offline": row.offline, "risk_max": worst, "sync_age_max_h": row.sync_age_max_h}
