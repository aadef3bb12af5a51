"""List the jobs: patrols, which scan the database for what time alone makes due, and checks of the server itself."""

from server.jobs.campaigns import walk_campaigns
from server.jobs.expiry import expire_coupons
from server.jobs.holds import time_out_holds
from server.jobs.quarantine import judge_again
from server.jobs.reconcile import check_books, check_messages, check_orders, check_tills, forget_messages
from server.jobs.redis import compare_redis, drain_reservations
from server.jobs.report import Job, JobReport
from server.jobs.restored import end_restore
from server.services.services import Services

PATROLS: tuple[Job, ...] = (
    Job("restored", 5, end_restore),
    Job("campaign_windows", 5, walk_campaigns),
    Job("hold_timeouts", 5, time_out_holds),
    Job("coupon_expiry", 30, expire_coupons),
    Job("redis_reservations", 2, drain_reservations, everywhere=True),
    Job("redis_compare", 20, compare_redis),
)
"""In the order in which one walk takes them: a hold that times out may leave a coupon that is then to expire."""

CHECKS: tuple[Job, ...] = (
    Job("check_messages", 10, check_messages),
    Job("check_orders", 60, check_orders),
    Job("check_tills", 600, check_tills),
    Job("forget_messages", 600, forget_messages),
    Job("check_books", 3600, check_books),
    Job("judge_again", 3600, judge_again),
)
"""What nobody waits for: the server compared with itself, and what may be forgotten."""

JOBS = (*PATROLS, *CHECKS)


def run_due(services: Services) -> list[JobReport]:
    """Walk every patrol once, now."""
    return [job.run(services) for job in PATROLS]
