"""The receipt on the screen: every discount with its name, names escaped, sums as they were stored."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from app.domain.money import Currency
from app.domain.tenders import Tender, TenderType
from app.services.api import BasketLine, BasketRequest, Receipt
from tests.fakes.pet_shop import pet_shop
from ui.counter.receipt_text import receipt_html
from ui.words import Language, Name, Words


def receipt(*, treat_milli: int = 735, cash_minor: int = 40000) -> Receipt:
    till = pet_shop()
    request = BasketRequest("M1001", (BasketLine("FOOD", 1000), BasketLine("TREAT", treat_milli)), ("c-food",))
    till.checkout("o1", request)
    till.pay("o1", (Tender(TenderType.CASH, cash_minor),))
    made = till.receipt("o1")
    assert made is not None
    return made


def html(made: Receipt, language: Language = Language.EN, **keys: object) -> str:
    words = Words(language, zone=ZoneInfo("Asia/Shanghai"), currency=Currency.of("CNY"))
    names = keys.pop("names", {"FOOD": Name("猫粮", "Cat food"), "TREAT": Name("冻干", "Freeze-dried")})
    return receipt_html(made, words, names=names, copy=bool(keys.get("copy")))  # type: ignore[arg-type]


def test_a_receipt_names_goods_in_the_language_of_the_moment() -> None:
    assert "Cat food" in html(receipt()) and "猫粮" in html(receipt(), Language.ZH)


def test_every_discount_stands_under_its_line_with_its_name() -> None:
    assert "主粮满199减50" in html(receipt()) and "−¥50.00" in html(receipt())


def test_goods_by_weight_are_in_kilograms_also_where_they_weigh_a_whole_number() -> None:
    assert "0.735 kg" in html(receipt())
    assert "1.000 kg" in html(receipt(treat_milli=1000, cash_minor=50000))


def test_cash_rounding_and_change_are_lines_of_their_own() -> None:
    shown = html(receipt())  # 299.00 - 50.00 + 145.53 = 394.53, in coins of 0.10: 394.50

    for text in ("¥394.53", "¥394.50", "Cash rounding", "¥0.03", "Cash given", "¥400.00", "Change", "¥5.50"):
        assert text in shown


def test_a_name_with_markup_is_shown_as_it_is() -> None:
    shown = html(receipt(), names={"FOOD": Name("", "<b>&x</b>")})

    assert "&lt;b&gt;&amp;x&lt;/b&gt;" in shown


def test_a_receipt_shown_again_says_that_it_is_a_copy() -> None:
    assert "Copy" in html(receipt(), copy=True) and "Copy" not in html(receipt())


def test_a_refunds_receipt_names_the_order_and_what_came_back() -> None:
    made = replace(receipt(), refund_of="o1", uses={"P2001": 1}, returned=("c-food",))

    shown = html(made)

    for text in ("Refund receipt", "Refund of order o1", "P2001", "c-food", "Paid back"):
        assert text in shown
