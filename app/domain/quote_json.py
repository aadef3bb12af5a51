"""Write a quote, basket lines, tenders and refunds as JSON data and read them back: the shapes of ledger and wire.

Amounts are integers of minor units, quantities integers of thousandths, under names that say so. The rules of every
stage are written out in full, so an entry explains itself without any other table.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.domain.basket import Cover, Line
from app.domain.money import Currency
from app.domain.quote import Laid, Quote, QuoteLine
from app.domain.refunds import Refund, RefundLine
from app.domain.refusals import Refusal
from app.domain.rule_json import read_rule, write_rule
from app.domain.tenders import Tender, TenderType

Json = dict[str, Any]


def write_line(line: Line) -> Json:
    """Return a basket line as JSON data."""
    return {
        "number": line.number,
        "sku": line.sku,
        "price_minor": line.price_minor,
        "qty_milli": line.qty_milli,
        "category": line.category,
        "brand": line.brand,
        "by_weight": line.by_weight,
    }


def read_line(data: Mapping[str, Any]) -> Line:
    """Read what `write_line` wrote."""
    return Line(
        **{key: data[key] for key in ("number", "sku", "price_minor", "qty_milli", "category", "brand", "by_weight")}
    )


def write_quote(quote: Quote, currency: Currency) -> Json:
    """Return a quote as JSON data, with its totals for readers who only look."""
    return {
        "gross_minor": quote.gross_minor,
        "discount_minor": quote.discount_minor,
        "payable_minor": quote.payable_minor,
        "member": quote.member_id,
        "lines": [
            {
                "number": line.number,
                "sku": line.sku,
                "price_minor": line.price_minor,
                "qty_milli": line.qty_milli,
                "covered_units": line.covered_units,
                "gross_minor": line.gross_minor,
                "discount_minor": line.discount_minor,
                "net_minor": line.net_minor,
            }
            for line in quote.lines
        ],
        "laid": [
            {
                "campaign": stage.campaign_id,
                "coupon": stage.coupon_id,
                "rule": write_rule(stage.rule, currency),
                "shares_minor": list(stage.shares_minor),
            }
            for stage in quote.laid
        ],
        "covers": [{"card": cover.card_id, "line": cover.line} for cover in quote.covers],
        "refused": {name: reason.to_json() for name, reason in quote.refused.items()},
        "skipped": {name: reason.to_json() for name, reason in quote.skipped.items()},
    }


def read_quote(data: Mapping[str, Any], currency: Currency) -> Quote:
    """Read what `write_quote` wrote; a rule that cannot be read raises ValueError."""
    return Quote(
        lines=tuple(QuoteLine(**{key: line[key] for key in QuoteLine.__dataclass_fields__}) for line in data["lines"]),
        laid=tuple(_read_laid(stage, currency) for stage in data["laid"]),
        covers=tuple(Cover(cover["card"], cover["line"]) for cover in data["covers"]),
        refused={name: Refusal.from_json(reason) for name, reason in data["refused"].items()},
        skipped={name: Refusal.from_json(reason) for name, reason in data["skipped"].items()},
        member_id=data["member"],
    )


def _read_laid(data: Mapping[str, Any], currency: Currency) -> Laid:
    rule = read_rule(data["rule"], currency)
    if isinstance(rule, Refusal):
        raise ValueError(f"the rule of campaign {data['campaign']!r} cannot be read: {dict(rule.facts)}")
    return Laid(data["campaign"], data["coupon"], rule, tuple(data["shares_minor"]))


def write_tenders(tenders: Iterable[Tender]) -> list[Json]:
    """Return tenders as `[{"type", "amount_minor"}]`."""
    return [{"type": tender.type.value, "amount_minor": tender.amount_minor} for tender in tenders]


def read_tenders(data: Sequence[Mapping[str, Any]]) -> tuple[Tender, ...]:
    """Read what `write_tenders` wrote; an unknown type raises ValueError."""
    return tuple(Tender(TenderType(tender["type"]), tender["amount_minor"]) for tender in data)


def write_refund(refund: Refund) -> Json:
    """Return a refund as JSON data."""
    return {
        "lines": [{"number": line.number, "qty_milli": line.qty_milli} for line in refund.lines],
        "amount_minor": refund.amount_minor,
        "tenders": write_tenders(refund.tenders),
        "uses": dict(refund.uses),
        "returned": list(refund.returned),
        "budget_minor": dict(refund.budget_minor),
        "whole": refund.whole,
    }


def read_refund(data: Mapping[str, Any]) -> Refund:
    """Read what `write_refund` wrote."""
    return Refund(
        lines=tuple(RefundLine(line["number"], line["qty_milli"]) for line in data["lines"]),
        amount_minor=data["amount_minor"],
        tenders=read_tenders(data["tenders"]),
        uses=dict(data["uses"]),
        returned=tuple(data["returned"]),
        budget_minor=dict(data["budget_minor"]),
        whole=data["whole"],
    )
