"""Let punch cards cover units before anything is priced (RULES, "Order of evaluation", step 1)."""

from collections import Counter

from app.domain.basket import MILLI, Cover, Line
from app.domain.facts import CardFacts, OrderFacts
from app.domain.refusals import Refusal, RefusalCode, refuse


def cover_units(facts: OrderFacts) -> tuple[tuple[Cover, ...], dict[str, Refusal]]:
    """Return the covers that hold, and the refused cards with their reasons.

    One cover takes one use and one whole unit of its line. A card that is refused for one of its covers covers nothing,
    since a customer who offers a card for two washes is asked before only one of them is taken; nor does it keep
    another card from its units. Of two cards for the same unit the first stays.
    """
    lines = {line.number: line for line in facts.lines}
    refused: dict[str, Refusal] = {}
    covered: Counter[int] = Counter()
    for card_id in dict.fromkeys(cover.card_id for cover in facts.covers):
        wanted = Counter(cover.line for cover in facts.covers if cover.card_id == card_id)
        reason = facts.unknown.get(card_id) or _card_reason(facts.cards[card_id], facts, wanted.total())
        for number, units in wanted.items():
            taken = units + covered[number]
            reason = reason or _unit_reason(facts.cards[card_id], number, line=lines.get(number), units=taken)
        if reason is None:
            covered.update(wanted)
        else:
            refused[card_id] = reason
    return tuple(cover for cover in facts.covers if cover.card_id not in refused), refused


def _card_reason(card: CardFacts, facts: OrderFacts, uses: int) -> Refusal | None:
    if card.until_at is not None and facts.now >= card.until_at:
        return refuse(RefusalCode.EXPIRED, card=card.id, until_at=card.until_at.isoformat())
    if card.blocked is not None:
        return card.blocked
    if facts.member is None or facts.member.id != card.member_id:
        return refuse(RefusalCode.WRONG_MEMBER, card=card.id)
    if uses > card.uses_left:
        return refuse(RefusalCode.INSUFFICIENT_USES, card=card.id, uses_left=card.uses_left)
    return None


def _unit_reason(card: CardFacts, number: int, *, line: Line | None, units: int) -> Refusal | None:
    fits = line is not None and line.sku == card.service and not line.by_weight and units * MILLI <= line.qty_milli
    return None if fits else refuse(RefusalCode.NOTHING_ELIGIBLE, card=card.id, line=number)
