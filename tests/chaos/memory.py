"""Keep what people saw in journals, and put it together again: the truth of the simulator, told by many processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from app.domain.money import Currency
from app.domain.quote_json import read_quote, read_refund, read_tenders, write_quote, write_refund, write_tenders
from app.services.api import PaidOrder, Receipt, RefundDone
from server.simulation.truth import AskedGift, AskedRefund, Basket, Broken, Promise, Truth
from tests.chaos.journal import SUFFIX, Follower, Journal, Line

CURRENCY = Currency.of("CNY")
LATELY_BYTES = 150_000
"""How much of what others did is known at a till that starts again: what is new is shown most."""
_BASKET, _ASKED, _GIFT, _PROMISE = map(TypeAdapter, (Basket, AskedRefund, AskedGift, Promise))
_RECEIPT = TypeAdapter(Receipt)


class WrittenTruth(Truth):
    """Note each thing in one's own journal before it counts; `follow` brings in what others noted.

    `broken` holds what was seen to be wrong while it was noted, here or by others.
    """

    def __init__(self, folder: Path, name: str, *, lately_bytes: int | None = LATELY_BYTES) -> None:
        super().__init__()
        self.broken: list[str] = []
        self._folder, self._name, self._lately_bytes = folder, name, lately_bytes
        self.journal = Journal(folder / f"{name}{SUFFIX}")
        self._others: dict[Path, Follower] = {}
        self._money: dict[str, str] = {}
        own = Follower(self.journal.path)
        for line in own.lines():
            self._take(line)
        self._died(name)

    def follow(self) -> None:
        """Take in what others noted since the last time."""
        for path in self._folder.glob(f"*{SUFFIX}"):
            if path == self.journal.path:
                continue
            if path not in self._others:
                self._others[path] = Follower(path, self._lately_bytes)
            for line in self._others[path].lines():
                self._take(line)

    def _take(self, line: Line) -> None:
        take = _TAKE.get(line["what"])
        if take is None:
            return
        try:
            take(self, line)
        except Broken as broken:
            self.broken.append(str(broken))

    def _died(self, till_id: str) -> None:
        """Doubt what was on a counter when its till died."""
        for order_id in [order_id for order_id, where in self._money.items() if where == till_id]:
            Truth.doubt(self, order_id)
            del self._money[order_id]

    # -------------------------------------------------------------- money on the counter

    def count_money(self, order_id: str) -> None:
        """Put money on the counter: until `counted` nobody knows what the till makes of it."""
        self.journal.add("money", order=order_id, till=self._name)

    def counted(self, order_id: str) -> None:
        """Have an answer from the till."""
        self.journal.add("counted", order=order_id)

    # -------------------------------------------------------------- noted, then seen

    def lay(self, order_id: str, basket: Basket) -> None:
        self.journal.add("basket", order=order_id, basket=_BASKET.dump_python(basket, mode="json"))
        super().lay(order_id, basket)

    def ask_back(self, request_id: str, asked: AskedRefund) -> None:
        self.journal.add("asks back", request=request_id, asked=_ASKED.dump_python(asked, mode="json"))
        super().ask_back(request_id, asked)

    def want(self, request_id: str, gift: AskedGift) -> None:
        self.journal.add("wants", request=request_id, gift=_GIFT.dump_python(gift, mode="json"))
        super().want(request_id, gift)

    def answered(self, request_id: str) -> None:
        self.journal.add("answered", request=request_id)
        super().answered(request_id)

    def receipt(self, done: PaidOrder, till_id: str, now_ms: int) -> None:
        self.journal.add("receipt", till=till_id, now_ms=now_ms, **_write_sale(done))
        super().receipt(done, till_id, now_ms)

    def refund(self, done: RefundDone, till_id: str) -> None:
        self.journal.add("refund", till=till_id, **_write_refund(done))
        super().refund(done, till_id)

    def promise(self, promise: Promise, *, till_id: str = "", now_ms: int = 0) -> None:
        told = _PROMISE.dump_python(promise, mode="json")
        self.journal.add("promise", promise=told, till=till_id, now_ms=now_ms)
        super().promise(promise, till_id=till_id, now_ms=now_ms)

    def late(self, order_id: str, cash_minor: int) -> None:
        if cash_minor:
            self.journal.add("late", order=order_id, minor=cash_minor)
        super().late(order_id, cash_minor)

    def doubt(self, order_id: str) -> None:
        self.journal.add("doubt", order=order_id)
        super().doubt(order_id)

    def pay_in(self, account_id: str, amount: int) -> None:
        self.journal.add("paid in", account=account_id, amount=amount)
        super().pay_in(account_id, amount)

    def revoke(self, coupon_id: str, now_ms: int = 0) -> None:
        self.journal.add("revoked", coupon=coupon_id)
        super().revoke(coupon_id, now_ms)

    def perhaps_revoke(self, coupon_id: str) -> None:
        self.journal.add("perhaps revoked", coupon=coupon_id)
        super().perhaps_revoke(coupon_id)


# ------------------------------------------------------------------ read again


def _write_sale(done: PaidOrder) -> Line:
    return {
        "order": done.order_id,
        "attempt": done.attempt,
        "state": done.state,
        "quote": write_quote(done.quote, CURRENCY),
        "tenders": write_tenders(done.tenders),
        "change_minor": done.change_minor,
        "receipt": _RECEIPT.dump_python(done.receipt, mode="json"),
    }


def _read_sale(line: Line) -> PaidOrder:
    return PaidOrder(
        line["order"],
        line["attempt"],
        line["state"],
        read_quote(line["quote"], CURRENCY),
        read_tenders(line["tenders"]),
        line["change_minor"],
        _RECEIPT.validate_python(line["receipt"]),
    )


def _write_refund(done: RefundDone) -> Line:
    return {
        "request": done.request_id,
        "order": done.order_id,
        "refund": write_refund(done.refund),
        "state": done.state,
        "uses_after": dict(done.uses_after),
        "decided_by": done.decided_by,
        "receipt": _RECEIPT.dump_python(done.receipt, mode="json"),
    }


def _read_refund(line: Line) -> RefundDone:
    return RefundDone(
        line["request"],
        line["order"],
        read_refund(line["refund"]),
        line["state"],
        line["uses_after"],
        line["decided_by"],
        _RECEIPT.validate_python(line["receipt"]),
    )


def _promise(truth: WrittenTruth, line: Line) -> None:
    promise = _PROMISE.validate_python(line["promise"])
    Truth.promise(truth, promise, till_id=line["till"], now_ms=line["now_ms"])


def _answered(truth: WrittenTruth, line: Line) -> None:
    # Of a till whose beginning was not read, the wish is not known.
    truth.gifts.pop(line["request"], None)


_Take = Callable[[WrittenTruth, Any], object]
_TAKE: dict[str, _Take] = {
    "begins": lambda truth, line: truth._died(line["who"]),
    "money": lambda truth, line: truth._money.__setitem__(line["order"], line["till"]),
    "counted": lambda truth, line: truth._money.pop(line["order"], None),
    "basket": lambda truth, line: Truth.lay(truth, line["order"], _BASKET.validate_python(line["basket"])),
    "asks back": lambda truth, line: Truth.ask_back(truth, line["request"], _ASKED.validate_python(line["asked"])),
    "wants": lambda truth, line: Truth.want(truth, line["request"], _GIFT.validate_python(line["gift"])),
    "answered": _answered,
    "receipt": lambda truth, line: Truth.receipt(truth, _read_sale(line), line["till"], line["now_ms"]),
    "refund": lambda truth, line: Truth.refund(truth, _read_refund(line), line["till"]),
    "promise": _promise,
    "late": lambda truth, line: Truth.late(truth, line["order"], line["minor"]),
    "doubt": lambda truth, line: Truth.doubt(truth, line["order"]),
    "paid in": lambda truth, line: Truth.pay_in(truth, line["account"], line["amount"]),
    "revoked": lambda truth, line: Truth.revoke(truth, line["coupon"]),
    "perhaps revoked": lambda truth, line: Truth.perhaps_revoke(truth, line["coupon"]),
    "broken": lambda truth, line: truth.broken.append(f"{line['who']}: {line['text']}"),
}
