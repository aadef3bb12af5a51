"""Show members, orders and receipts, and how the till is doing."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from app.domain.quote import Quote
from app.domain.quote_json import read_line, read_quote, read_refund, read_tenders
from app.domain.receipt_number import ReceiptNumber
from app.domain.refunds import REFUNDABLE, Refund, SoldOrder
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rights import uses_id, value_id
from app.services.api import CardView, ChainView, MemberView, OrderView, Receipt, TillStatus
from app.services.parts import Parts
from app.services.ports import Busy, Json, Offline, SoldOrderView
from app.services.receipts import product_titles, read_receipt
from app.store import catalog, meta, orders, rights
from app.store.errors import StoreError
from app.store.orders import OrderRow


def chain(parts: Parts) -> ChainView | None:
    """Return the chain's settings; see `Till.chain`."""
    with parts.database.read() as conn:
        known = catalog.chain(conn)
        zone = catalog.store_zone(conn, parts.store_id)
    if known is None or zone is None:
        return None
    return ChainView(known.currency, known.cash_step_minor, parts.till_id, store_id=parts.store_id, store_zone=zone.key)


def member(parts: Parts, member_id: str) -> MemberView | None:
    """Show a member with punch cards; see `Till.member`. What this till has leased of them is theirs as well."""
    with parts.database.read() as conn:
        row = catalog.member(conn, member_id)
        if row is None:
            return None
        cards = catalog.cards_of(conn, member_id)
        titles = product_titles(conn, parts, [card.service for card in cards])
        shown = tuple(
            CardView(
                card.id,
                card.service,
                titles[card.service],
                uses_left=card.uses_left + (rights.left(conn, uses_id(card.id)) or 0),
                until_at=card.until_at,
            )
            for card in cards
        )
        balance_minor = row.balance_minor + (rights.left(conn, value_id(member_id)) or 0)
    return MemberView(row.id, row.tier, row.label, balance_minor=balance_minor, cards=shown)


def product_names(parts: Parts, skus: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return both names of products; see `Till.product_names`."""
    with parts.database.read() as conn:
        return {sku: (each.name, each.name_en) for sku, each in catalog.products(conn, skus).items()}


def order(parts: Parts, number: str) -> OrderView | Refusal:
    """Show an order by its id or its receipt's number; see `Till.order`.

    One that this till has sold may have come back at another till: online, the server is asked all the same.
    """
    with parts.database.read() as conn:
        order_id = _order_of_receipt(conn, parts, number) or number
        row = orders.get(conn, order_id)
    if parts.head_office.online:
        try:
            answer = parts.head_office.order(order_id)
        except (Offline, Busy):
            answer = refuse(RefusalCode.NEEDS_ONLINE, refund_of=order_id)
        # A sale whose entry is still on its way is HELD there, or unknown; what is in our own ledger is sold.
        behind = row is not None and row.entry_seq is not None and _before_sale(answer)
        if isinstance(answer, SoldOrderView) and answer.quote and not behind:
            return _of_server(parts, answer)
        if row is None:
            return answer if isinstance(answer, Refusal) else _of_server(parts, answer)
    if row is None:
        return refuse(RefusalCode.NEEDS_ONLINE, refund_of=order_id)
    return _of_till(parts, row)


def _order_of_receipt(conn: Connection, parts: Parts, text: str) -> str | None:
    """Return the order of a receipt that this till gave; None for any other text."""
    number = ReceiptNumber.read(text)
    ours = number is not None and number.till_id.casefold() == parts.till_id.casefold()
    if number is None or not ours:
        return None
    entry = parts.database.ledger.entry(conn, number.seq, epoch=number.epoch)
    order_id = entry.read().get("order") if entry is not None else None  # not every entry speaks of an order
    return None if order_id is None else str(order_id)


def _before_sale(answer: SoldOrderView | Refusal) -> bool:
    return isinstance(answer, SoldOrderView) and answer.state not in REFUNDABLE


def _of_till(parts: Parts, row: OrderRow) -> OrderView:
    with parts.database.read() as conn:
        known = catalog.chain(conn)
        assert known is not None, "no order was priced before the first pull"
        quote = read_quote(row.quote, known.currency) if row.quote else None
        refunds = tuple(read_refund(each.body["body"]) for each in orders.refunds_of(conn, row.id) if each.body)
        titles = product_titles(conn, parts, [line.sku for line in quote.lines] if quote else [])
    return OrderView(
        row.id,
        row.state,
        local=True,
        quote=quote,
        tenders=read_tenders(row.tenders) if row.entry_seq is not None else (),
        refunds=refunds,
        titles=titles,
        sold=_sold(row.id, row.state, row.lines, quote=quote, tenders=row.tenders, refunds=refunds)
        if row.entry_seq is not None
        else None,
    )


def _of_server(parts: Parts, answer: SoldOrderView) -> OrderView:
    with parts.database.read() as conn:
        known = catalog.chain(conn)
        quote = read_quote(answer.quote, known.currency) if known and answer.quote else None
        titles = product_titles(conn, parts, [line.sku for line in quote.lines] if quote else [])
    refunds = tuple(read_refund(each) for each in answer.refunds)
    return OrderView(
        answer.order_id,
        answer.state,
        local=False,
        quote=quote,
        tenders=read_tenders(answer.tenders),
        refunds=refunds,
        titles=titles,
        sold=_sold(answer.order_id, answer.state, answer.lines, quote=quote, tenders=answer.tenders, refunds=refunds),
    )


def _sold(
    order_id: str,
    state: str,
    lines: Sequence[Json],
    *,
    quote: Quote | None,
    tenders: Sequence[Json],
    refunds: Sequence[Refund],
) -> SoldOrder | None:
    """Gather what `decide_refund` wants, for a look at what a return would give; None where nothing was sold."""
    if quote is None or state not in REFUNDABLE:
        return None
    sold = SoldOrder(
        order_id, state, tuple(read_line(line) for line in lines), quote=quote, tenders=read_tenders(tenders)
    )
    return sold.after(refunds)


def receipt(parts: Parts, order_id: str) -> Receipt | None:
    """Return the receipt of an order sold here; see `Till.receipt`."""
    with parts.database.read() as conn:
        row = orders.get(conn, order_id)
        if row is None or row.entry_seq is None:
            return None
        entry = parts.database.ledger.entry(conn, row.entry_seq, epoch=row.entry_epoch)
        assert entry is not None, "the ledger has no gaps"
        return read_receipt(conn, parts, entry)[1]


def status(parts: Parts) -> TillStatus:
    """Return what the status bar shows; see `Till.status`."""
    database, head_office = parts.database, parts.head_office
    try:
        with database.read() as conn:
            pending, parked = database.ledger.counts(conn)
            known = meta.load(conn)
    except StoreError:
        return TillStatus(
            head_office.online,
            head_office.offline_since,
            None,
            parked_count=None,
            last_sync_at=None,
            damaged=database.damaged,
            trouble=head_office.trouble,
        )
    since = None if head_office.online else head_office.offline_since or known.last_sync_at
    return TillStatus(
        head_office.online,
        since,
        pending,
        parked_count=parked,
        last_sync_at=known.last_sync_at,
        damaged=database.damaged,
        trouble=head_office.trouble,
        copy_lag=database.copy_lag,
        clock_unsure=known.clock_doubt(parts.now()),
        clock_offset_ms=known.clock_offset_ms,
        under_way=head_office.under_way,
    )
