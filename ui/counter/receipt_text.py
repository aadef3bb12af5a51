"""Write a receipt as rich text for the screen, in the language of the moment. Plain Python."""

from collections.abc import Iterable, Mapping
from html import escape

from app.domain.tenders import TenderType
from app.services.api import Receipt, ReceiptLine
from ui.words import Name, Words


def receipt_html(receipt: Receipt, words: Words, *, names: Mapping[str, Name | str], copy: bool) -> str:
    """Return the receipt as the HTML that Qt's rich text knows; every name is escaped.

    `names` has both names of goods by sku; `copy` marks a receipt that is shown again.
    """
    title = words.text("receipt.title_refund" if receipt.refund_of else "receipt.title")
    rows: list[str] = []
    for line in receipt.lines:
        rows.extend(_line(line, words, names))
    totals = list(_totals(receipt, words))
    head = [f"<p align='center'><big><b>{escape(title)}</b></big>"]
    if copy:
        head.append(f"<br><b>{escape(words.text('receipt.copy'))}</b>")
    head.append("</p><p>" + "<br>".join(escape(text) for text in _head(receipt, words)) + "</p>")
    table = "<table width='100%' cellspacing='0' cellpadding='2'>{}</table>"
    foot = f"<p><small>{escape(words.text('receipt.mark', mark=receipt.mark))}</small></p>"
    return "<hr>".join(("".join(head), table.format("".join(rows)), table.format("".join(totals)) + foot))


def _head(receipt: Receipt, words: Words) -> Iterable[str]:
    yield words.text("receipt.number", number=receipt.number)
    yield words.text("receipt.order_number", number=receipt.order_id)
    if receipt.refund_of:
        yield words.text("receipt.refund_of", number=receipt.refund_of)
    yield words.text("receipt.place", store=receipt.store_id, till=receipt.till_id, operator=receipt.operator)
    yield words.text("receipt.time", at=receipt.at)


def _line(line: ReceiptLine, words: Words, names: Mapping[str, Name | str]) -> Iterable[str]:
    name = words.name(names.get(line.sku, line.title))
    yield _pair(name, "", bold=True)
    price = f"{words.money(line.price_minor)} × {words.qty(line.qty_milli, by_weight=line.by_weight)}"
    yield _pair(price, words.money(line.gross_minor))
    if line.covered_units:
        yield _pair("  " + words.text("desk.covered", count=line.covered_units), "")
    for discount in line.discounts:
        yield _pair("  " + words.pick(discount.title, discount.title_en), words.money(-discount.amount_minor))


def _totals(receipt: Receipt, words: Words) -> Iterable[str]:
    if receipt.discount_minor:
        yield _pair(words.text("desk.gross"), words.money(receipt.gross_minor))
        yield _pair(words.text("desk.discounts"), words.money(-receipt.discount_minor))
    key = "receipt.paid_back" if receipt.refund_of else "desk.payable"
    yield _pair(words.text(key), words.money(receipt.payable_minor), bold=True)
    for tender in receipt.tenders:
        shown = words.money(tender.amount_minor)
        yield _pair(words.text(f"tender_kind.{tender.type.value}"), shown)
        if tender.type is TenderType.CASH and receipt.change_minor:
            yield _pair(words.text("receipt.given"), words.money(tender.amount_minor + receipt.change_minor))
    if receipt.change_minor:
        yield _pair(words.text("tender.change"), words.money(receipt.change_minor), bold=True)
    for card, uses in receipt.uses.items():
        yield _pair(words.text("receipt.uses_back", card=card), str(uses))
    for coupon in receipt.returned:
        yield _pair(words.text("receipt.coupon_back"), coupon)


def _pair(left: str, right: str, *, bold: bool = False) -> str:
    texts = [escape(text).replace("  ", "&nbsp;&nbsp;") for text in (left, right)]
    if bold:
        texts = [f"<b>{text}</b>" if text else "" for text in texts]
    if not right:
        return f"<tr><td colspan='2'>{texts[0]}</td></tr>"
    return f"<tr><td>{texts[0]}</td><td align='right'>{texts[1]}</td></tr>"
