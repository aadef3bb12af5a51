"""A counter for the server's tests: it prices, holds, sells, keeps a chained ledger and pushes it, by plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.domain.basket import Cover, Line
from app.domain.facts import OrderFacts
from app.domain.ledger import CARRY, Entry, carried_id, carry, genesis, make_entry
from app.domain.pricing import price
from app.domain.quote import Quote
from app.domain.quote_json import write_line, write_quote, write_tenders
from app.domain.tenders import Tender, TenderType
from server.services import accounts, history
from server.services.audit import audit
from server.services.facts import AskedLine, Basket, gather
from server.services.findings import open_counts
from sync.protocol import ENROL_PATH, HELLO_PATH, PROTOCOL, PUSH_PATH, SANITY_PATH, UNKNOWN_PATH, PushedEntry
from tests.fakes.headquarters import Headquarters

Json = dict[str, Any]


def cash(minor: int) -> Tender:
    return Tender(TenderType.CASH, minor)


def stored_value(minor: int) -> Tender:
    return Tender(TenderType.STORED_VALUE, minor)


class Counter:
    """Be the till `till_id` of a store: its key, its ledger, and the messages that it sends."""

    def __init__(self, headquarters: Headquarters, till_id: str = "t1", store_id: str = "s1") -> None:
        self.hq, self.till_id, self.store_id, self.epoch = headquarters, till_id, store_id, 1
        self.key = headquarters.take_in(till_id, store_id)
        self.entries: list[Entry] = []
        self.acked = 0

    # ------------------------------------------------------------ asking

    def call(self, method: str, path: str, body: Any = None, *, status: int | None = None) -> Json:
        return self.hq.call(method, path, body, key=self.key, status=status)

    def basket(self, order: str, *lines: tuple[str, int] | str, **keys: Any) -> Basket:
        """Make a basket of skus, each one unit, or (sku, thousandths)."""
        pairs = [(line, 1000) if isinstance(line, str) else line for line in lines]
        asked = tuple(AskedLine(i, sku, milli) for i, (sku, milli) in enumerate(pairs, start=1))
        return Basket(order, self.store_id, keys.pop("member", None), asked, **keys)

    def price(self, basket: Basket) -> tuple[tuple[Line, ...], Quote]:
        """Price as this till would, by the server's own facts."""
        facts = self.hq.services.read(lambda conn, ctx: gather(conn, ctx, basket))
        assert isinstance(facts, OrderFacts), facts
        return facts.lines, price(facts)

    def price_at_home(self, basket: Basket) -> tuple[tuple[Line, ...], Quote]:
        """Price by the server's facts as if nothing were blocked, gone or short: this till decides by itself."""
        facts = self.hq.services.read(lambda conn, ctx: gather(conn, ctx, basket))
        assert isinstance(facts, OrderFacts), facts
        mine = tuple(replace(each, blocked=None, state="ISSUED", order_id=None) for each in facts.coupons)
        cards = {name: replace(card, uses_left=99) for name, card in facts.cards.items()}
        return facts.lines, price(replace(facts, coupons=mine, cards=cards))

    def hold(
        self,
        basket: Basket,
        *,
        attempt: int = 1,
        value_minor: int = 0,
        payable_minor: int | None = None,
        status: int | None = None,
    ) -> Json:
        if payable_minor is None:
            payable_minor = self.price(basket)[1].payable_minor
        body = {
            "attempt": attempt,
            "store": basket.store_id,
            "member": basket.member_id,
            "lines": [{"number": line.number, "sku": line.sku, "qty_milli": line.qty_milli} for line in basket.lines],
            "use": list(basket.use),
            "cards": [{"card": cover.card_id, "line": cover.line} for cover in basket.covers],
            "stored_value_minor": value_minor,
            "promotions": basket.promotions,
            "payable_minor": payable_minor,
        }
        return self.call("POST", f"/v1/orders/{basket.order_id}/hold", body, status=status)

    def refund(
        self,
        order: str,
        *lines: tuple[int, int],
        request: str,
        status: int | None = None,
    ) -> Json:
        asked = [{"number": number, "qty_milli": milli} for number, milli in lines] or None
        return self.call("POST", "/v1/refunds", {"request": request, "order": order, "lines": asked}, status=status)

    def state(self, order: str) -> str:
        return str(self.call("GET", f"/v1/orders/{order}", status=200)["state"])

    # ------------------------------------------------------------ rights of its own

    def lease(self, kind: str, of: str, amount: int, *, lease: str = "l1", status: int | None = 201) -> Json:
        body = {"lease": lease, "kind": kind, "of": of, "amount": amount}
        return self.call("POST", "/v1/leases", body, status=status)

    def take_home(self, coupon_id: str, *, request: str = "h1", status: int | None = 201) -> Json:
        return self.call("POST", "/v1/homes", {"request": request, "coupon": coupon_id}, status=status)

    def sell_by_rights(
        self,
        basket: Basket,
        *,
        tenders: Sequence[Tender] | None = None,
        leases: Mapping[str, int] | None = None,
        coupons: Mapping[str, int] | None = None,
    ) -> None:
        """Sell by rights of this till's own: amounts by lease, versions by coupon; nobody else is asked."""
        lines, quote = self.price_at_home(basket)
        named = {
            "leases": [{"lease": lease, "amount": amount} for lease, amount in (leases or {}).items()],
            "coupons": [{"coupon": name, "version": version} for name, version in (coupons or {}).items()],
        }
        self.append("sale", {**self.sale_body(lines, quote, basket, tenders=tenders), "rights": named})

    # ------------------------------------------------------------ telling

    def body(self, order: str, attempt: int = 1, *, at: datetime | None = None, **keys: Any) -> Json:
        return {"order": order, "attempt": attempt, **self.told(at=at), **keys}

    def told(self, *, at: datetime | None = None, **keys: Any) -> Json:
        """Return a body that speaks of no order."""
        return {
            "at": (at or self.hq.clock.at).isoformat(),
            "store": self.store_id,
            "till": self.till_id,
            "operator": "ann",
            **keys,
        }

    def append(self, kind: str, data: Mapping[str, Any], *, entry_id: str | None = None) -> Entry:
        seq = len(self.entries) + 1
        before = self.entries[-1].hash if self.entries else genesis(self.till_id, self.epoch)
        entry = make_entry(
            before,
            till_id=self.till_id,
            epoch=self.epoch,
            seq=seq,
            entry_id=entry_id or f"{self.till_id}-{self.epoch}-{seq:08d}",
            kind=kind,
            data=data,
        )
        self.entries.append(entry)
        return entry

    def sale_body(
        self,
        lines: Sequence[Line],
        quote: Quote,
        basket: Basket,
        *,
        tenders: Iterable[Tender] | None = None,
        attempt: int = 1,
        held: bool = False,
        at: datetime | None = None,
    ) -> Json:
        paid = tenders if tenders is not None else ([cash(quote.payable_minor)] if quote.payable_minor else [])
        return self.body(
            basket.order_id,
            attempt,
            at=at,
            held=held,
            member=basket.member_id,
            lines=[write_line(line) for line in lines],
            quote=write_quote(quote, self.hq.context().chain.currency),
            tenders=write_tenders(paid),
            change_minor=0,
            receipt=f"{self.till_id}-{self.epoch}-{len(self.entries) + 1}",
        )

    def sell(self, basket: Basket, **keys: Any) -> Json:
        """Append a sale that was priced just now; returns its body."""
        lines, quote = self.price(basket)
        data = self.sale_body(lines, quote, basket, **keys)
        self.append("sale", data)
        return data

    def hold_and_sell(self, basket: Basket, *, tenders: Sequence[Tender] | None = None, attempt: int = 1) -> Json:
        """Hold, pay, append and push: the whole way of an order with rights."""
        lines, quote = self.price(basket)
        value = sum(t.amount_minor for t in tenders or () if t.type is TenderType.STORED_VALUE)
        answer = self.hold(basket, attempt=attempt, value_minor=value)
        assert answer["outcome"] == "ok", answer
        data = self.sale_body(lines, quote, basket, tenders=tenders, attempt=attempt, held=True)
        self.append("sale", data)
        return data

    def cancel(self, order: str, attempt: int = 1, reason: str = "cancelled") -> None:
        self.append("cancel", self.body(order, attempt, reason=reason))

    def push(self, entries: Sequence[Entry] | None = None, *, status: int = 200, epoch: int | None = None) -> Json:
        """Push what is not acknowledged (or these entries) and move the cursor; returns the answer."""
        sent = self.entries[self.acked :] if entries is None else entries
        last = (len(self.entries), self.entries[-1].hash.hex()) if self.entries else (0, "")
        message = {
            "proto": PROTOCOL,
            "till": self.till_id,
            "epoch": self.epoch if epoch is None else epoch,
            "entries": [PushedEntry.of(entry).model_dump() for entry in sent],
            "last": last,
        }
        answer = self.call("POST", PUSH_PATH, message, status=status)
        if status == 200:
            self.acked = answer["acked"][0]
        return answer

    def renew_key(self) -> None:
        """Come with a new key; the old one is worthless then."""
        self.key = self.hq.take_in(self.till_id, self.store_id)

    def enrol(self, enrolment: str = "n1", *, last: tuple[int, str] | None = None, status: int = 200) -> Json:
        """Begin a new epoch, with an empty ledger of it."""
        mine = (len(self.entries), self.entries[-1].hash.hex()) if self.entries else (0, "")
        told = {"enrolment": enrolment, "epoch": self.epoch, "last": last or mine}
        answer = self.call("POST", ENROL_PATH, {"proto": PROTOCOL, "till": self.till_id, **told}, status=status)
        if status == 200:
            self.epoch, self.entries, self.acked = answer["epoch"], [], 0
        return answer

    def carry(self, entry: Entry) -> Entry:
        """Append an entry that brings one of an earlier epoch."""
        return self.append(CARRY, carry(entry), entry_id=carried_id(entry.entry_id, self.epoch))

    def unknown(self, *entry_ids: str) -> list[str]:
        """Return those that the server does not have."""
        message = {"proto": PROTOCOL, "till": self.till_id, "entries": list(entry_ids)}
        return list(self.call("POST", UNKNOWN_PATH, message, status=200)["unknown"])

    def verdicts(self) -> list[tuple[str, str]]:
        """Push, and return result and code of each entry."""
        return [(row["result"], row["code"]) for row in self.push()["results"]]

    def hello(self, *, seen: tuple[int, str] = (0, ""), last: tuple[int, str] | None = None, **keys: Any) -> Json:
        mine = (len(self.entries), self.entries[-1].hash.hex()) if self.entries else (0, "")
        message = {
            "proto": PROTOCOL,
            "till": self.till_id,
            "epoch": self.epoch,
            "last": last or mine,
            "seen": seen,
            "incarnation": 0,
            "schema_range": (1, 1),
            "app": "test",
            "boot": "b",
            "wall_ms": round(self.hq.clock.at.timestamp() * 1000),
            "unsynced": 0,
            "oldest_unsynced_s": 0,
            "db": "ok",
            **keys,
        }
        return self.call("POST", HELLO_PATH, message, status=200)

    def sanity(self, days: Mapping[str, Any], *, zone: str = "") -> list[Json]:
        last = (len(self.entries), self.entries[-1].hash.hex()) if self.entries else (0, "")
        told = {"last": last, "days": days, "zone": zone}
        message = {"proto": PROTOCOL, "till": self.till_id, "epoch": self.epoch, **told}
        return list(self.call("POST", SANITY_PATH, message, status=200)["differences"])


def furnish(headquarters: Headquarters) -> None:
    """Set up goods, a service and what the members have."""
    headquarters.call(
        "POST",
        "/v1/products",
        [
            {"sku": "A", "price": "100.00", "name": "A", "category": "staple"},
            {"sku": "B", "price": "30.00", "name": "B", "category": "toy"},
            {"sku": "W", "price": "9.90", "name": "W", "by_weight": True},
            {"sku": "WASH", "price": "80.00", "name": "Wash", "kind": "service"},
        ],
        status=200,
    )


def coupon(headquarters: Headquarters, campaign: str = "c1", member: str = "m1", *, request: str = "") -> str:
    """Claim a coupon and return its id."""
    body = {"request": request or f"r-{campaign}-{member}", "campaign": campaign, "member": member}
    answer = headquarters.call("POST", "/v1/claims", body, key=headquarters.new_key("app"), status=201)
    return str(answer["coupon"])


def covers(card: str, *lines: int) -> tuple[Cover, ...]:
    return tuple(Cover(card, line) for line in lines)


def findings(headquarters: Headquarters) -> Mapping[str, int]:
    return headquarters.services.read(lambda conn, _: open_counts(conn))


def open_counter(headquarters: Headquarters, till_id: str = "t1", store_id: str = "s1") -> Counter:
    """Set up the goods and a till."""
    furnish(headquarters)
    return Counter(headquarters, till_id, store_id)


def balance(headquarters: Headquarters, account_id: str) -> tuple[int, int, int]:
    """Return what the account has available, held and spent."""
    found = headquarters.services.read(lambda conn, _: accounts.read(conn, [account_id]))[account_id]
    return found.available, found.held, found.spent


def events(headquarters: Headquarters, subject: str, subject_id: str) -> list[tuple[str, str | None, str | None]]:
    """Return the history as (event, from, to); to None = refused."""
    told = headquarters.services.read(lambda conn, _: history.of(conn, subject, subject_id))
    return [(event["event"], event["from"], event["to"]) for event in told]


def coupon_state(headquarters: Headquarters, coupon_id: str) -> str:
    return str(headquarters.call("GET", f"/v1/coupons/{coupon_id}", status=200)["state"])


def bring_to(counter: Counter, state: str) -> Basket:
    """Take an order of two A to the state."""
    basket = counter.basket("o1", ("A", 2000))
    counter.hold(basket, status=200)
    lines, quote = counter.price(basket)
    if state == "CANCELLED":
        counter.cancel("o1")
    elif state == "UNKNOWN":
        payment = {"id": "pay1", "type": "card", "amount_minor": 20000}
        counter.append("payment_unknown", counter.body("o1", payment=payment))
    elif state != "HELD":
        counter.append("sale", counter.sale_body(lines, quote, basket, held=True))
    assert [result for result, _ in counter.verdicts()] == ["OK"] * (state != "HELD")
    if state == "PARTLY_REFUNDED":
        counter.refund("o1", (1, 1000), request="r1", status=200)
    if state == "REFUNDED":
        counter.refund("o1", request="r1", status=200)
    return basket


def violations(headquarters: Headquarters) -> list[str]:
    """Return what the audit says against the books, [] = they are sound."""
    return [str(violation) for violation in headquarters.services.read(audit).violations]


def mixed_order(headquarters: Headquarters, counter: Counter) -> tuple[str, Basket]:
    """Give m1 a coupon with a budget, a card of 5 washes and 100.00; return a basket that uses all of it."""
    headquarters.campaign(budget="100.00")
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "100.00"}, status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    mine = coupon(headquarters)
    return mine, counter.basket("o1", "A", ("WASH", 2000), member="m1", use=(mine,), covers=covers("p1", 2, 2))


def finding(headquarters: Headquarters, kind: str) -> dict[str, Any]:
    """Return the one finding of a kind."""
    found = headquarters.call("GET", "/v1/findings", status=200)["findings"]
    (only,) = [each for each in found if each["kind"] == kind]
    return dict(only)
