"""Tell a server that came back from a backup which rights we have: our entries use them (PROTOCOL 3.9).

Every lease is told that was ever granted, since what was used of it or closed stands in entries that are pushed again;
so does a coupon that was used or went home, with its version. The server takes what it does not know, and once; told
twice it is the same.
"""

from collections.abc import Iterator

from app.store import rights
from sync.protocol import ADOPT_MAX, ADOPT_PATH, PROTOCOL, Adopt, AdoptAnswer, AdoptedHome, AdoptedLease
from sync.session import Session

LEASES_AT_ONCE = 20
"""So that 20 leased stocks of 200 coupons each stay below half a megabyte."""


def adopt(session: Session) -> None:
    """Tell everything, page by page. Raises Offline and Busy; told again from the beginning then."""
    for message in _messages(session):
        session.client.exchange(ADOPT_PATH, message, AdoptAnswer)


def _messages(session: Session) -> Iterator[Adopt]:
    with session.db.read() as conn:
        lent, homes = rights.granted(conn), rights.live_homes(conn)
    leases = [
        AdoptedLease(lease=row.id, account=row.account_id, asked=row.asked, amount=row.qty, coupons=coupons)
        for row, coupons in lent
    ]
    told = [AdoptedHome(coupon=coupon_id, version=version) for coupon_id, version in homes]
    for start in range(0, len(leases), LEASES_AT_ONCE):
        page = leases[start : start + LEASES_AT_ONCE]
        yield Adopt(proto=PROTOCOL, till=session.till, epoch=session.epoch, leases=page)
    for start in range(0, len(told), ADOPT_MAX):
        yield Adopt(proto=PROTOCOL, till=session.till, epoch=session.epoch, homes=told[start : start + ADOPT_MAX])
