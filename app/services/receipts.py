"""Make receipts from what the ledger says: lines, discounts and their reasons, tenders, change, the entry's mark."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.money import Currency
from app.domain.quote import Laid, Quote
from app.domain.quote_json import read_quote, read_refund, read_tenders
from app.domain.receipt_number import ReceiptNumber
from app.domain.refunds import Refund
from app.services.api import Receipt, ReceiptDiscount, ReceiptLine
from app.services.parts import Parts
from app.store import catalog
from app.store.catalog import Product
from app.store.ledger import mark

Titles = Mapping[str, str]


def product_title(parts: Parts, product: Product) -> str:
    """Return a product's name in the till's language."""
    return product.name_en if parts.language == "en" and product.name_en else product.name


def product_titles(conn: Connection, parts: Parts, skus: Sequence[str]) -> dict[str, str]:
    """Return the names of products as they are now, by sku; of one that is gone, its sku."""
    found = catalog.products(conn, skus)
    return {sku: product_title(parts, found[sku]) if sku in found else sku for sku in skus}


def sale_receipt(
    parts: Parts, entry: Entry, *, body: Mapping[str, Any], quote: Quote, currency: Currency, titles: Titles
) -> Receipt:
    """Return the receipt of a sale; `body` and `quote` are those of its entry."""
    return Receipt(
        number=body["receipt"],
        mark=mark(parts.till_id, entry),
        order_id=body["order"],
        store_id=body["store"],
        till_id=body["till"],
        operator=body["operator"],
        at=datetime.fromisoformat(body["at"]),
        currency=currency,
        lines=_lines(quote, titles, by_weight={line["number"] for line in body["lines"] if line["by_weight"]}),
        discounts=_discounts(quote),
        gross_minor=quote.gross_minor,
        discount_minor=quote.discount_minor,
        payable_minor=quote.payable_minor,
        tenders=read_tenders(body["tenders"]),
        change_minor=body["change_minor"],
    )


def read_receipt(conn: Connection, parts: Parts, entry: Entry) -> tuple[Quote, Receipt]:
    """Read the price and the receipt of a sale out of its entry."""
    chain = catalog.chain(conn)
    assert chain is not None, "nothing was sold before the first pull"
    body = entry.read()
    quote = read_quote(body["quote"], chain.currency)
    titles = product_titles(conn, parts, [line.sku for line in quote.lines])
    return quote, sale_receipt(parts, entry, body=body, quote=quote, currency=chain.currency, titles=titles)


def refund_receipt(conn: Connection, parts: Parts, entry: Entry, *, lines: Sequence[Mapping[str, Any]]) -> Receipt:
    """Return the receipt of a refund; `lines` are those of its order, as `write_line` writes them."""
    body = entry.read()
    chain = catalog.chain(conn)
    assert chain is not None, "nothing was sold before the first pull"
    refund = read_refund(body["body"])
    by_number = {line["number"]: line for line in lines}
    titles = product_titles(conn, parts, [line["sku"] for line in lines])
    return Receipt(
        number=str(ReceiptNumber(parts.till_id, entry.epoch, entry.seq)),
        mark=mark(parts.till_id, entry),
        order_id=body["order"],
        store_id=body["store"],
        till_id=body["till"],
        operator=body["operator"],
        at=datetime.fromisoformat(body["at"]),
        currency=chain.currency,
        lines=_returned_lines(refund, by_number, titles),
        discounts=(),
        gross_minor=refund.amount_minor,
        discount_minor=0,
        payable_minor=refund.amount_minor,
        tenders=refund.tenders,
        refund_of=body["order"],
        uses=refund.uses,
        returned=refund.returned,
    )


def _discount(stage: Laid, amount_minor: int) -> ReceiptDiscount:
    title = stage.rule.name or stage.campaign_id
    return ReceiptDiscount(
        title, stage.campaign_id, stage.coupon_id, amount_minor=amount_minor, title_en=stage.rule.name_en
    )


def _discounts(quote: Quote) -> tuple[ReceiptDiscount, ...]:
    return tuple(_discount(stage, stage.discount_minor) for stage in quote.laid)


def _lines(quote: Quote, titles: Titles, *, by_weight: Collection[int]) -> tuple[ReceiptLine, ...]:
    reasons: defaultdict[int, list[ReceiptDiscount]] = defaultdict(list)
    for stage in quote.laid:
        for line, share in zip(quote.lines, stage.shares_minor, strict=True):
            if share:
                reasons[line.number].append(_discount(stage, share))
    return tuple(
        ReceiptLine(
            line.number,
            line.sku,
            titles.get(line.sku, line.sku),
            price_minor=line.price_minor,
            qty_milli=line.qty_milli,
            covered_units=line.covered_units,
            gross_minor=line.gross_minor,
            net_minor=line.net_minor,
            by_weight=line.number in by_weight,
            discounts=tuple(reasons[line.number]),
        )
        for line in quote.lines
    )


def _returned_lines(
    refund: Refund, by_number: Mapping[int, Mapping[str, Any]], titles: Titles
) -> tuple[ReceiptLine, ...]:
    """Show what came back by quantity; what each line is worth is part of the amount, not a price of its own."""
    lines = []
    for returned in refund.lines:
        line = by_number.get(returned.number, {})
        sku = str(line.get("sku", ""))
        lines.append(
            ReceiptLine(
                returned.number,
                sku,
                titles.get(sku, sku),
                price_minor=int(line.get("price_minor", 0)),
                qty_milli=returned.qty_milli,
                covered_units=0,
                gross_minor=0,
                net_minor=0,
                by_weight=bool(line.get("by_weight")),
            )
        )
    return tuple(lines)
