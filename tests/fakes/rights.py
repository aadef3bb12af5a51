"""The rights of the till in memory: what a screen shows of them, and a closing that a test can let fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from app.domain.refusals import Refusal
from app.services.api import AtHome
from app.services.rights_view import (
    DayEnd,
    DayStep,
    HomesHere,
    OwnRight,
    RightsOfKind,
    RightsView,
    RiskHere,
)

NOTHING = RightsView(
    (),
    HomesHere(0, 0),
    None,
    last_sync_at=None,
    asked_count=0,
    day_closed=False,
    free_leases=0,
    free_coupons=0,
    kept=0,
    waiting_orders=0,
    unknown_payments=0,
)


def many_rights(now: datetime = datetime(2026, 7, 30, 6, 5, tzinfo=UTC)) -> RightsView:
    """Make a view with everything in it, and lists that were cut."""
    members = tuple(
        OwnRight(f"value:m{n}", f"13{n}****100{n}", "", "", left=20_000 - 900 * n, qty=20_000) for n in range(8)
    )
    kinds = (
        RightsOfKind(
            "stock",
            (
                OwnRight("stock:c1", "", "罐头买10送3", "Cans: buy 10, get 3", left=18, qty=20),
                OwnRight("stock:c2", "", "开业立减5元", "5 off for the opening", left=0, qty=5),
            ),
            count=2,
            left=18,
            qty=25,
        ),
        RightsOfKind(
            "budget",
            (OwnRight("budget:b1", "", "金卡玩具95折", "Gold: 5% off toys", left=81_250, qty=120_000),),
            1,
            81_250,
            120_000,
        ),
        RightsOfKind("value", members, 37, 412_300, 700_000),
        RightsOfKind(
            "uses", (OwnRight("uses:p1", "138****1001", "中型犬洗澡", "Bath, medium dog", left=3, qty=5),), 1, 3, 5
        ),
    )
    homes = HomesHere(143, 1, now + timedelta(days=2), title="主粮满199减50", title_en="50 off staple food from 199")
    return RightsView(
        kinds,
        homes,
        RiskHere(30_000, 24_900, 5_100),
        last_sync_at=now,
        asked_count=1,
        day_closed=False,
        free_leases=41,
        free_coupons=143,
        kept=2,
        waiting_orders=1,
        unknown_payments=1,
    )


class OwnRights:
    """The part of a till that shows its rights, gets them and gives them back; `day_ends` answers the next closing."""

    block: Callable[[], object]
    calls: list[str]

    def __init__(self) -> None:
        self.view_of_rights = NOTHING
        self.day_ends: DayEnd | Refusal | Exception | None = None
        self.elsewhere: dict[str, Refusal] = {}  # by coupon's id: what head office says of one at home at another till

    def take_home(self, coupon_id: str) -> AtHome | Refusal:
        self.calls.append(f"take_home {coupon_id}")
        return self.elsewhere.get(coupon_id) or AtHome(coupon_id, 2)

    def rights(self) -> RightsView:
        return self.view_of_rights

    def end_day(self, told: Callable[[DayStep], None]) -> DayEnd | Refusal:
        self.calls.append("end_day")
        for step in DayStep:
            told(step)
            self.block()
        if isinstance(self.day_ends, Exception):
            raise self.day_ends
        if self.day_ends is not None:
            return self.day_ends
        view = self.view_of_rights
        self.view_of_rights = replace(NOTHING, day_closed=True, kept=view.kept, last_sync_at=view.last_sync_at)
        return DayEnd(view.free_leases, view.free_coupons, view.kept, waiting_count=0)
