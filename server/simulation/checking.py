"""Hold the books against what physically happened (PROTOCOL 8).

At rest, when all is healed, drained and given back: I6 to I13, I16 and I17, with the server's own audit and the tills'
ledgers. `watching.py` looks all along.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from sqlalchemy import Row

from app.domain.states import FindingState
from app.domain.tenders import TenderType
from app.services.api import PaidOrder, RefundDone
from app.store import projections
from server.services.accounts import OVER
from server.services.refused_requests import REPLAYED
from server.services.verdicts import UNJUDGED
from server.simulation.backups import Lacked
from server.simulation.books import FORGOTTEN, LOST_TILL, OF_THE_LINE, SOLD, Books
from server.simulation.stage import Part, Settled
from server.simulation.truth import Disaster, hold

BY_TERMINAL = ("card", "wallet")


def compare(chain: Settled, books: Books) -> None:
    """Raise Broken for the first promise that was not kept."""
    for check in checks(chain, books):
        check()


def checks(chain: Settled, books: Books, explained: Collection[str] = ()) -> Iterator[Callable[[], None]]:
    """Yield what is to be looked at, in order: each raises Broken, and counts on those before it.

    `explained` are kinds of findings for which whoever asks knows the cause.
    """
    chain.seen.update(f"finding: {found.kind}" for found in books.findings)
    yield lambda: hold(books.audit == [], "audit", books.audit)
    comparison = _Comparison(chain, books)
    yield partial(comparison.findings, explained)
    yield comparison.told_again
    yield comparison.ledgers
    yield comparison.sales
    yield comparison.printed
    yield comparison.late_money
    yield comparison.terminals
    yield comparison.refunds
    yield comparison.coupons
    yield comparison.accounts
    yield comparison.strict
    for part in chain.tills:
        if not comparison.is_lost(part.id):
            yield partial(_till, part, books, comparison)


class _Comparison:
    """Compare the truth with the books. `booked` are the receipts that are in them."""

    def __init__(self, chain: Settled, books: Books) -> None:
        self.chain, self.truth, self.books = chain, chain.truth, books
        self.booked: dict[str, PaidOrder] = {}
        self.unbacked = chain.truth.unbacked | {
            found.detail["coupon"] for found in books.findings if found.kind == "unknown_claim"
        }
        """Coupons that a server forgot that came back from a backup."""
        self.leases_untold = {found.detail["lease"] for found in books.findings if found.kind == "unknown_claim"}
        self._lacked = Lacked(
            self.truth,
            coupons=books.coupons,
            unbacked=self.unbacked,
            leases=self.leases_untold,
            lent=_lent(chain.tills) if self.truth.set_backs else {},
        )
        self.untold_refunds = {found.detail["refund"] for found in books.findings if found.kind == "refund_mismatch"}
        """Refunds that are in no book but in a finding."""
        self.lost_uses: Counter[str] = Counter()
        """Uses of coupons that the books do not know, as findings tell of them."""
        self.excess: Counter[str] = Counter()
        """What findings say was used without being there, by account or coupon."""
        for found in books.findings:
            if found.kind == "double_redemption":
                self.excess[found.detail["subject"]] += 1
            if found.kind == "invalid_redemption":
                self.lost_uses[found.detail["subject"]] += 1
            if found.kind == "overdraft":
                self.excess[found.detail.get("subject", "")] += found.detail.get("amount", 1)
            if found.kind == "overdraft" and "coupon" in found.detail:
                self.excess[f"stock:{found.detail['campaign']}"] += 1
            if found.kind == "overdraft" and "lent" in found.detail:
                self.excess[found.detail["account"]] += found.detail["lent"] - found.detail["there"]

    # -------------------------------------------------------------- disasters

    def disaster(self, till_id: str) -> Disaster:
        """Return what befell a till."""
        return self.truth.disaster_of(till_id)

    def is_lost(self, till_id: str) -> bool:
        """Tell whether a till's ledger is no longer the server's; headquarters has heard of it then."""
        disaster = self.disaster(till_id)
        return disaster.since_ms is not None and not disaster.mended and till_id in self.books.lost_tills

    def may_be_missing(self, till_id: str, at_ms: int) -> bool:
        """Tell whether what a till did then may be in no book: its disk forgot it, or nobody takes its word any more.

        What a stranded till still has waits on it, until it is enrolled anew and carries that over.
        """
        disaster = self.disaster(till_id)
        if disaster.since_ms is None:
            return False
        return self.is_lost(till_id) or disaster.since_ms <= at_ms <= disaster.at_ms

    @property
    def any_reclaimed(self) -> bool:
        """Tell whether headquarters took rights back from anybody."""
        return any(each.reclaimed for each in self.truth.disasters.values())

    @property
    def any_rolled_back(self) -> bool:
        """Tell whether any disk was put back to what it was, or is gone."""
        return any(each.since_ms is not None for each in self.truth.disasters.values())

    @property
    def any_put_back(self) -> bool:
        """Tell whether any disk was put back to what it was: that till may use again what it has used."""
        return any(each.since_ms is not None and not each.destroyed for each in self.truth.disasters.values())

    # -------------------------------------------------------------- I13

    def findings(self, explained: Collection[str]) -> None:
        """There is no finding without a cause."""
        allowed = {"late_payment", "illegal_transition", *explained}
        lost = [found.detail["till"] for found in self.books.findings if found.kind == "lost_till_heard"]
        hold(self.truth.stranded.issuperset(lost), "I13", f"of {lost} some were never lost")
        allowed.add("lost_till_heard")
        if self.any_reclaimed or self.any_put_back:
            allowed |= {"late_use", "overdraft", "double_redemption", "lease_mismatch", "home_mismatch", "member_limit"}
        if self.any_put_back:
            # What it has forgotten it does again, and nobody can know but by that.
            allowed |= {"duplicate_order", "hold_mismatch"}
        if self.any_rolled_back:
            allowed |= LOST_TILL | {"refund_mismatch", "duplicate_entry", "broken_chain", "duplicate_claim", "no_hold"}
        for found in self.books.findings:
            excused = found.kind in allowed or self._is_excused(found)
            hold(excused, "I13", f"{found.kind} {found.key}: {found.detail}")
        self._late_draws()

    def ledgers(self) -> None:
        """What the server said to know of a ledger stands in its books, or headquarters hears that it is lost."""
        for till_id, *place in sorted(self.truth.known - self.books.entries):
            # What a backup and the till's disk have both lost is known to nobody.
            twice = self.truth.set_backs and self._forgot(till_id)
            hold(twice or till_id in self.books.lost_tills, "I13", f"{till_id}: {place} was known, and is untold")

    def _late_draws(self) -> None:
        """Whatever was drawn on a lease that headquarters had taken back stands in a finding."""
        told = {(found.kind, found.key) for found in self.books.findings}
        for row in self.books.late_draws:
            kind = "overdraft" if row.source == OVER else "late_use"
            name = row.order_id or row.id.rpartition(":")[2]
            hold((kind, f"{row.account_id}/{name}") in told, "I13", f"{kind} of {row.account_id} by {name} is untold")

    def _is_excused(self, found: Row[Any]) -> bool:
        """Tell why there may be a finding with no disaster.

        A budget is overdrawn by a sale by rules that had none: its till could not know of it. A member got coupons both
        at a till that had a lease of the stock, and from the server or another till. A line gave the server a copy of a
        till's request, or the till an answer that was not the server's.
        """
        if found.kind == "member_limit" or (found.kind == UNJUDGED and found.state == FindingState.CLOSED):
            return True
        if self._lacked.explains(found):
            return True
        if found.kind in OF_THE_LINE:
            troubled = self.truth.replayed if found.kind == REPLAYED else self.truth.lied_to
            return found.detail["till"] in troubled
        if found.kind != "overdraft" or "order" not in found.detail:
            return False
        kind, _, campaign_id = found.detail["subject"].partition(":")
        done = self.truth.receipts.get(found.detail["order"])
        laid = [stage for stage in done.quote.laid if stage.campaign_id == campaign_id] if done else []
        return kind == "budget" and all(stage.rule.budget_minor is None for stage in laid)

    # -------------------------------------------------------------- I7

    def told_again(self) -> None:
        """What the books had told as done before a backup was put in their place, they tell again."""
        for back in self.truth.set_backs:
            # In a history that was left before, an order may have been off: then it is late money.
            fine = {*SOLD, "CANCELLED"} if self.truth.is_of_another_history(back) else SOLD
            for order_id in sorted(back.sold):
                row, till_id = self.books.orders.get(order_id), self.truth.order_till[order_id]
                missing = self.may_be_missing(till_id, self.truth.paid_at_ms.get(order_id, back.since_ms))
                ok = (row is not None and row.state in fine) or missing
                hold(ok, "I7", f"{order_id} of {till_id} was sold in the books, and is {row and row.state}")
            for request_id in sorted(back.refunded):
                row = self.books.refunds.get(request_id)
                excused = self.disaster(self.truth.asked[request_id].till_id).since_ms is not None
                ok = (row is not None and row.entry_id is not None) or excused or request_id in self.untold_refunds
                hold(ok, "I7", f"the refund {request_id} was in the books, and is not any more")

    def sales(self) -> None:
        """Every receipt is a paid order of the same money, or a finding with it; there is no other paid order."""
        for order_id, done in self.truth.receipts.items():
            row = self.books.orders.get(order_id)
            till_id = self.truth.till_of[order_id]
            if row is None or row.state not in (*SOLD, "CANCELLED"):
                missing = self.may_be_missing(till_id, self.truth.paid_at_ms[order_id])
                hold(missing, "I7", f"the sale {order_id} of {till_id} is lost ({row and row.state})")
                continue
            late = [each.amount_minor for each in self.books.late[order_id] if each.detail["entry_kind"] == "sale"]
            if row.state in SOLD:
                kept = [{"type": tender.type.value, "amount_minor": tender.amount_minor} for tender in done.tenders]
                same = (row.tenders, row.till_id, late) == (kept, till_id, [])
                hold(same, "I7", f"{order_id}: {row.tenders} of {row.till_id}, not {kept}; late {late}")
                self.booked[order_id] = done
            else:
                missing = self.may_be_missing(till_id, self.truth.paid_at_ms[order_id])
                hold(late == [done.quote.payable_minor] or missing, "I7", f"{order_id} is {row.state}, late {late}")
        for order_id, row in self.books.orders.items():
            if order_id not in self.truth.receipts:
                waits, lost = row.state in ("HELD", "UNKNOWN"), self.is_lost(row.till_id)
                unseen = self.may_be_missing(row.till_id, self.disaster(row.till_id).at_ms)
                ok = row.state == "CANCELLED" or (lost if waits else unseen)
                hold(ok, "I7", f"{order_id} is {row.state}, and nobody has its receipt")
        # A disk that was put back gives out the numbers anew that it has forgotten: what tells those apart is the hash.
        receipts = ((self._forgotten(order_id), done.receipt) for order_id, done in self.booked.items())
        marks = [each.mark if forgotten else each.number for forgotten, each in receipts]
        hold(len(marks) == len(set(marks)), "I7", "two receipts have one number")

    def printed(self) -> None:
        """Hold that whatever was printed was done."""
        sold, back = self.truth.receipts.values(), self.truth.refunds.values()
        done = {each.receipt.mark for each in sold} | {each.receipt.mark for each in back}
        for part in self.chain.tills:
            loose = part.printer.printed - done
            hold(not loose or self._forgot(part.id), "I7", f"{part.id} printed {loose} for nothing")

    def late_money(self) -> None:
        """Cash that was put aside for an order that is off stands in a finding."""
        for order_id in {*self.books.late, *self.truth.late_cash}:
            if self._forgotten(order_id):
                continue
            in_cash = sum(t["amount_minor"] for t in self.books.late_tenders(order_id) if t["type"] not in BY_TERMINAL)
            known = self.truth.late_cash[order_id]
            exact = in_cash >= known if order_id in self.truth.unsure else in_cash == known
            hold(exact, "I7", f"{order_id}: {in_cash} late in cash, not {known}")

    def _forgotten(self, order_id: str) -> bool:
        return self._forgot(self.truth.order_till.get(order_id, ""))

    def _forgot(self, till_id: str) -> bool:
        return self.disaster(till_id).since_ms is not None

    def terminals(self) -> None:
        """What the terminals took stands on receipts, or in findings of money that came too late."""
        took, told = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for part in self.chain.tills:
            hold(part.terminal.doubled == [], "I7", f"{part.id} charged twice: {part.terminal.doubled}")
            for charge in part.terminal.charges.values():
                if charge.taken and not self._forgotten(charge.order_id):
                    took[charge.order_id, charge.kind] += charge.minor
        for order_id in {*self.truth.receipts, *self.books.late}:
            if self._forgotten(order_id):
                continue
            done = self.truth.receipts.get(order_id)
            for tender in done.tenders if done else ():
                if tender.type.value in BY_TERMINAL:
                    told[order_id, tender.type.value] += tender.amount_minor
            for late in self.books.late_tenders(order_id):
                if late["type"] in BY_TERMINAL:
                    told[order_id, late["type"]] += late["amount_minor"]
        hold(+took == +told, "I7", f"the terminals took {+took - told}, the books tell {told - took} besides")

    def refunds(self) -> None:
        """Every refund was paid out once, and as it was decided; no order gave back more than it took."""
        back = Counter[str]()
        for request_id, done in self.truth.refunds.items():
            row = self.books.refunds.get(request_id)
            excused = self.disaster(self.truth.refund_till[request_id]).since_ms is not None
            if row is None or row.entry_id is None:
                hold(excused or request_id in self.untold_refunds, "I7", f"the refund {request_id} is lost")
                continue
            hold(row.amount_minor == done.refund.amount_minor, "I7", f"{request_id}: {row.amount_minor}")
            back[done.order_id] += done.refund.amount_minor
        unknown = self.books.refunds.keys() - self.truth.refunds.keys()
        hold(not unknown or self.any_rolled_back, "I7", f"nobody was paid {unknown}")
        for order_id, minor in back.items():
            hold(minor <= self.truth.receipts[order_id].quote.payable_minor, "I7", f"{order_id} gave back {minor}")

    # -------------------------------------------------------------- I8 to I10

    def coupons(self) -> None:
        """Every coupon that was promised is there, used once where somebody used it, back where it was returned."""
        live = Counter(coupon_id for done in self.booked.values() for coupon_id in done.quote.used)
        booked = (name for name, done in self.truth.refunds.items() if done.order_id in self.booked)
        live.subtract(Counter(self.truth.given_back(name for name in booked if name in self.books.refunds)))
        for coupon_id in self.truth.promised.keys() - self.books.coupons.keys():
            till_id, at_ms = self.truth.given_at.get(coupon_id, ("", 0))
            missing = coupon_id in self.unbacked or self.may_be_missing(till_id, at_ms)
            hold(missing, "I10", f"{coupon_id} was promised, and is not there")
            used, told = live[coupon_id], self.lost_uses[coupon_id]
            hold(used <= told or self.any_rolled_back, "I13", f"{coupon_id} was used {used} times, {told} are told")
        unheard = self.books.coupons.keys() - self.truth.promised.keys()
        hold(not unheard or self.any_rolled_back, "I10", f"nobody was promised {unheard}")
        for coupon_id, row in self.books.coupons.items():
            self._coupon(row, live[coupon_id])

    def _coupon(self, row: Row[Any], uses: int) -> None:
        known = row.id in self.truth.revoked
        excess = self.excess[row.id] if self.truth.disasters else 0
        hold(0 <= uses <= 1 + excess, "I8", f"{row.id} was used {uses} times")
        as_used = (row.state == "USED") == (uses >= 1)
        hold(as_used or self.any_rolled_back, "I8", f"{row.id} is {row.state}, used {uses}")
        hold(row.state != "FROZEN" or self.any_rolled_back, "I8", f"{row.id} is frozen")
        # Homes of a ledger that is not all there are frozen: what is lost may have used them.
        disaster = self.disaster(row.home or "")
        frozen = self.is_lost(row.home or "") or disaster.mended or disaster.destroyed
        hold(row.home is None or frozen, "I12", f"{row.id} is at home at {row.home}")
        hold(row.state != "EXPIRED" or row.valid_until_at <= self.books.now, "I10", f"{row.id} expired too soon")
        hold(row.state != "REVOKED" or row.id in self.truth.revoked | self.truth.perhaps_revoked, "I10", row.id)
        hold(not known or row.state == "REVOKED", "I10", f"{row.id} was revoked, and is {row.state}")

    def accounts(self) -> None:
        """Stock, budgets, uses and balances are what the receipts say; nothing is held, or over without need."""
        refunded = {name: done for name, done in self.truth.refunds.items() if self._is_booked(name, done)}
        spent = self._spent(self.booked, refunded)
        for account_id, row in () if self.any_rolled_back else self.books.accounts.items():
            left = row.total - row.spent
            figures = (row.spent, row.held, row.leased, row.stranded, row.reserved)
            hold(figures == (spent[account_id], 0, 0, 0, 0), "I9", f"{account_id}: {figures}, not {spent[account_id]}")
            hold((row.available, row.over) == (max(0, left), max(0, -left)), "I9", f"{account_id}: {left} are left")
            kind = account_id.partition(":")[0]
            if kind in ("value", "uses"):
                hold(row.total == self.truth.put_in[account_id], "I9", f"{account_id}: {row.total} were put in")
            if kind in ("value", "uses", "stock"):
                hold(row.over <= self.excess[account_id], "I13", f"{account_id} is over by {row.over}, untold")

    def strict(self) -> None:
        """Hold I17: nothing revoked, no disk put back, and what was used was there, on disks that are gone as well.

        What nobody told of any more was drawn on rights that are set aside for it.
        """
        disasters = self.truth.disasters.values()
        if not disasters or any(each.reclaimed or not each.destroyed for each in disasters):
            return
        if self.truth.set_backs:
            return  # What a disk and a backup have both lost is set aside by nobody.
        # A sale that came too late stands in a finding, with its money, and draws on nothing.
        receipts = {name: done for name, done in self.truth.receipts.items() if name not in self.books.late}
        refunds = {name: done for name, done in self.truth.refunds.items() if done.order_id in receipts}
        spent = self._spent(receipts, refunds)
        for account_id, row in self.books.accounts.items():
            if not account_id.startswith("budget:"):
                gone = row.total + row.over - row.available - row.held - row.reserved
                hold(spent[account_id] <= gone, "I17", f"{account_id}: {spent[account_id]} were used, {gone} are gone")

    def _is_booked(self, request_id: str, back: RefundDone) -> bool:
        return request_id in self.books.refunds and back.order_id in self.booked

    def _spent(self, receipts: Mapping[str, PaidOrder], refunds: Mapping[str, RefundDone]) -> Counter[str]:
        """Add up what these used and gave back of each account."""
        spent = Counter[str]()
        for done in receipts.values():
            spent.update(f"uses:{cover.card_id}" for cover in done.quote.covers)
            for stage in done.quote.laid:
                spent[f"budget:{stage.campaign_id}"] += stage.discount_minor
            for tender in done.tenders:
                if tender.type is TenderType.STORED_VALUE:
                    spent[f"value:{done.quote.member_id}"] += tender.amount_minor
        for back in refunds.values():
            member = self.truth.receipts[back.order_id].quote.member_id
            for card_id, count in back.refund.uses.items():
                spent[f"uses:{card_id}"] -= count
            for campaign_id, minor in back.refund.budget_minor.items():
                spent[f"budget:{campaign_id}"] -= minor
            for tender in back.refund.tenders:
                if tender.type is TenderType.STORED_VALUE:
                    spent[f"value:{member}"] -= tender.amount_minor
        lost = self.unbacked - self.books.coupons.keys()
        there = (each for each in self.truth.promised.values() if each.coupon_id not in lost)
        spent.update(f"stock:{each.campaign_id}" for each in there)
        return spent


def _lent(tills: Iterable[Part]) -> dict[str, str]:
    """Return the account of every lease that a till has."""
    found = {}
    for part in tills:
        with part.database.read() as conn:
            found.update({row[0]: row[1] for row in conn.exec_driver_sql("SELECT id, account_id FROM lease")})
    return found


def _till(part: Part, books: Books, comparison: _Comparison) -> None:
    """Hold I11: the till's ledger is whole, its projections follow from it, nothing waits, its copy is the server's."""
    database = part.database
    with database.read() as conn:
        hold(database.ledger.verify(conn) == [], "I11", f"{part.id}: its ledger is broken")
        copies = {row[0]: row[1:] for row in conn.exec_driver_sql("SELECT id, state, home, version FROM coupon")}
        prices = {row[0]: row[1] for row in conn.exec_driver_sql("SELECT sku, price_minor FROM product")}
        campaigns = {row[0]: row[1:] for row in conn.exec_driver_sql("SELECT id, state, snapshot_id FROM campaign")}
        tail = database.ledger.tail(conn)[0]
    with database.write() as tx:
        drift = projections.rebuild(tx, database.ledger)
    hold(drift == [], "I11", f"{part.id}: its projections drifted: {drift}")
    hold(tail == books.tills[part.id].acked_seq, "I11", f"{part.id} wrote {tail} entries")
    order_till = comparison.truth.order_till
    waiting = [each for each in part.till.interrupted() if not comparison.is_lost(order_till.get(each.order_id, ""))]
    hold(waiting == [], "I16", f"{part.id}: {waiting}")
    hold(prices == books.prices, "I11", f"{part.id}: its prices are {prices}, not {books.prices}")
    hold(campaigns == books.campaigns, "I11", f"{part.id}: its campaigns are {campaigns}, not {books.campaigns}")
    known = {coupon_id: (row.state, row.home, row.version) for coupon_id, row in books.coupons.items()}
    # A coupon that was at home here, or given out, when the server had forgotten it stands in a finding.
    forgotten = {found.detail.get("coupon") for found in books.findings if found.kind in FORGOTTEN}
    names = {*known, *(copies.keys() - (forgotten if comparison.truth.set_backs else set()))}
    differ = {name for name in names if copies.get(name) != known.get(name)}
    hold(not differ or comparison.any_rolled_back, "I11", f"{part.id}: its copy of {sorted(differ)} differs")
    for name, account in books.accounts.items():
        kind, _, owner = name.partition(":")
        if kind == "value":
            member = part.till.member(owner)
            assert member is not None
            hold(member.balance_minor == account.available, "I11", f"{part.id}: the balance of {owner}")
            for card in member.cards:
                left = books.accounts[f"uses:{card.id}"].available
                hold(card.uses_left == left, "I11", f"{part.id}: {card.id} has {card.uses_left}, not {left}")
    mine = sum(
        found.detail.get("till") == part.id for found in books.findings if found.kind not in LOST_TILL | OF_THE_LINE
    )
    status = part.engine.status
    hold(status.pending == 0, "I16", f"{part.id}: {status.pending} entries wait")
    # Two backups may lie in each other: what was parked between them is told in neither. Nor is what was parked in an
    # epoch that the server has forgotten: it was carried into the next.
    backs = comparison.truth.set_backs
    told = status.parked <= mine or len(backs) > 1 or (backs and comparison.disaster(part.id).mended)
    hold(told, "I13", f"{part.id} parked {status.parked}, {mine} findings")
