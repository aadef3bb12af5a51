"""Judge one entry: each kind has its judge, and each judge stands with its subject (PROTOCOL 3.4)."""

from typing import Any

from sqlalchemy import Connection

from app.domain.states import OrderEvent
from server.services import orders
from server.services.context import Context
from server.services.given_out import judge_claim
from server.services.homes import judge_return
from server.services.leases import judge_close
from server.services.refunds import judge_refund
from server.services.sales import judge_late_payment, judge_sale
from server.services.staff import judge_approval
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict
from sync import protocol


def judge(conn: Connection, context: Context, told: Told, *, body: Any) -> Verdict:
    """Judge an entry by what its kind says of an order, a right or a person; `body` as `read_body` read it."""
    match told.kind:
        case protocol.SALE:
            return judge_sale(conn, told, body)
        case protocol.REFUND:
            return judge_refund(conn, context.chain, told, body=body)
        case protocol.CANCEL:
            answer = orders.cancel(conn, told.attempt(body), reason=body["reason"])
            return _verdict(conn, told, body, answer=answer, event=OrderEvent.CANCEL)
        case protocol.PAYMENT_UNKNOWN:
            answer = orders.payment_unknown(conn, told.attempt(body))
            return _verdict(conn, told, body, answer=answer, event=OrderEvent.NO_ANSWER)
        case protocol.LATE_PAYMENT:
            return judge_late_payment(conn, told, body)
        case protocol.CLAIM:
            return judge_claim(conn, context, told, body=body)
        case protocol.LEASE_CLOSE:
            return judge_close(conn, context, told, body=body)
        case protocol.COUPON_RETURN:
            return judge_return(conn, context, told, body=body)
        case protocol.APPROVAL:
            return judge_approval(conn, told, body=body)
        case protocol.PIN_FAILED:
            return IN_ORDER
    raise AssertionError(f"read_body reads no {told.kind}")


def _verdict(conn: Connection, told: Told, body: Any, *, answer: dict[str, Any], event: str) -> Verdict:
    """Turn a step that the order does not have into a finding: the till and the server disagree about it."""
    if answer["outcome"] == "ok":
        return IN_ORDER
    detail = {"order": body["order"], "attempt": body["attempt"], "event": str(event), "facts": answer["facts"]}
    return conflict(conn, told, answer["outcome"], key=f"{body['order']}/{told.entry_id}", detail=detail)
