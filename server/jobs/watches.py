"""Look out for what somebody should be told of: stock that is nearly out, and campaigns that run hot."""

from server import metrics
from server.jobs.report import Job, JobReport
from server.services import alerts
from server.services.services import Services

EVERY_S = 10


def watch_stock(percent: int) -> Job:
    """Return the job that tells of active campaigns with `percent` of their stock left or less."""
    name = "watch_stock"

    def run(services: Services) -> JobReport:
        found = services.read(lambda conn, _: alerts.low_stocks(conn, percent=percent))
        if found:
            services.write(lambda conn, ctx: alerts.stock_low(conn, found, now=ctx.now))
        return JobReport(name, done=len(found))

    return Job(name, EVERY_S, run)


def watch_heat(limit_per_s: float) -> Job:
    """Return the job that tells of campaigns that this process is asked for `limit_per_s` times a second or more.

    Each process knows what it was asked itself, so the limit is its share of the chain's, and each one looks.
    """
    name = "watch_heat"

    def run(services: Services) -> JobReport:
        hot = {campaign: rate for campaign, rate in metrics.hot.rates().items() if rate >= limit_per_s}
        if hot:
            services.write(lambda conn, ctx: alerts.campaign_hot(conn, hot, limit_per_s=limit_per_s, now=ctx.now))
        return JobReport(name, done=len(hot))

    return Job(name, EVERY_S, run, everywhere=True)
