"""Play one coupon's whole life in the real window: claimed, scanned, held, paid, offline, synced, refunded."""

from PySide6.QtCore import Qt

from app.domain.refusals import Refusal
from app.domain.tenders import TenderType
from app.services.api import InterruptedKind
from ui.counter.counter_presenter import Page
from ui.demo.head_office import Claimed
from ui.demo.stage import Stage
from ui.verdict import Tone

CAN, KIBBLE, TOY, TREAT, SHAMPOO, WASH = "CN-11-85", "FD-D12-30", "TY-403", "TR-11", "CR-101", "WASH-M"
CARD = "P2001"
RICH, POOR, STRANGER = "M1001", "M1002", "M1003"
STORE = "riverside"


def play(stage: Stage) -> None:
    """Play every scene; raises NotTrue or NotShown where one does not come out as it says."""
    begin(stage)
    claimed = claim(stage)
    sell_with_a_coupon(stage, claimed)
    refuse_a_coupon(stage)
    mixed = sell_a_mixed_order(stage)
    offline = sell_offline(stage)
    come_back(stage, offline)
    take_back(stage, mixed)
    die_and_start_again(stage)
    close_the_day(stage)


def begin(stage: Stage) -> None:
    """Wait for the first sync."""
    stage.scene("1. The till starts and gets goods, members and coupons from the server")
    driver, status = stage.driver, stage.driver.window.counter.status
    driver.wait("the first sync", lambda: status.online and driver.window.counter.chain.till_id != "")
    driver.wait("the time of the first sync", lambda: bool(status.status and status.status.last_sync_at))
    driver.window.draw()
    stage.saw(driver.status())
    stage.check("the till is online and nothing waits", status.status is not None and status.status.pending_count == 0)
    driver.shoot("desk-empty")


def claim(stage: Stage) -> Claimed:
    """Let a member claim a coupon on the phone."""
    stage.scene(f"2. Member {POOR} claims a coupon of campaign cans-10-3 on the phone, at the server")
    claimed = stage.office.claim("cans-10-3", POOR, "story-claim")
    assert isinstance(claimed, Claimed), f"the claim was refused: {claimed}"
    stage.check(f"granted, code ...{claimed.code[-4:]}", stage.office.coupon_state(claimed.id) == "ISSUED")
    again = stage.office.claim("cans-10-3", POOR, "story-claim")
    stage.check("the same request again gets the same coupon", again == claimed)
    second = stage.office.claim("cans-10-3", POOR, "story-claim-2")
    stage.check(
        "a second one is refused: already_claimed", isinstance(second, Refusal) and second.code == "already_claimed"
    )
    return claimed


def sell_with_a_coupon(stage: Stage, claimed: Claimed) -> None:
    """Sell twelve cans, two of them free."""
    driver = stage.driver
    stage.scene("3. Twelve cans and the coupon that was claimed a moment ago: buy 10, get up to 3")
    stage.scan(CAN)
    for _ in range(2):
        ask_for_quantity(stage)
        driver.shoot("quantity")
        driver.press(Qt.Key.Key_Escape)
        driver.wait("the desk", lambda: driver.window.dialog is None)
        driver.press(Qt.Key.Key_F9)
    ask_for_quantity(stage)
    driver.type("12")
    driver.press(Qt.Key.Key_Return)
    driver.wait_for_price()
    before_minor = stage.payable_minor
    stage.scan(claimed.code)
    stage.saw(stage.says())
    stage.check(
        f"{stage.money(before_minor)} becomes {stage.money(stage.payable_minor)}: 12 units give 2",
        before_minor == 9000 and stage.payable_minor == 7500,
    )
    driver.shoot("desk-coupon")
    order_id = stage.order_id
    go_to_payment(stage)
    driver.type("100")
    driver.press(Qt.Key.Key_F5)
    driver.shoot("tender")
    driver.press(Qt.Key.Key_F12)
    change_minor = stage.wait_for_receipt()
    driver.shoot("receipt")
    stage.check(f"paid with 100.00 in cash, change {stage.money(change_minor)}", change_minor == 2500)
    next_customer(stage)
    stage.till.wake()
    driver.wait("the sale at the server", lambda: stage.office.order_state(order_id) == "PAID")
    stage.check("the server has the order: PAID, once", stage.office.payments(order_id) == 1)
    stage.check("the coupon is USED", stage.office.coupon_state(claimed.id) == "USED")
    stage.scan(claimed.code)
    stage.saw(stage.says())
    stage.check("scanned again, it is refused", is_refused(stage, "already_used"))


def ask_for_quantity(stage: Stage) -> None:
    """Open the question for the quantity of the line."""
    stage.driver.press(Qt.Key.Key_F3)
    stage.driver.wait("the question for the quantity", lambda: stage.driver.window.dialog is not None)


def refuse_a_coupon(stage: Stage) -> None:
    """Show that each "no" has its reason."""
    driver = stage.driver
    stage.scene("4. Coupons that do not do, each with its reason")
    stage.scan(KIBBLE, stage.coupon(POOR, "food-199-50").code)
    stage.saw(stage.says())
    stage.check("50 off from 199.00: too little in the basket", is_refused(stage, "below_minimum"))
    driver.shoot("coupon-refused")
    stage.scan(stage.coupon(STRANGER, "toys-tier").code)
    stage.saw(stage.says())
    stage.check("a coupon of another member", is_refused(stage, "wrong_member"))
    wrong = stage.coupon(POOR, "treats-85").code
    stage.scan(wrong[:-1] + str((int(wrong[-1]) + 1) % 10))
    stage.saw(stage.says())
    stage.check("a digit misread", is_refused(stage, "unreadable_code"))
    for _ in range(2):
        ask_to_cancel(stage)
        driver.shoot("confirm")
        driver.press(Qt.Key.Key_Escape)
        driver.wait("the desk", lambda: driver.window.dialog is None)
        driver.press(Qt.Key.Key_F9)
    ask_to_cancel(stage)
    driver.press(Qt.Key.Key_F10)
    driver.wait("an empty desk", lambda: driver.window.counter.desk.state.basket.empty)


def ask_to_cancel(stage: Stage) -> None:
    """Ask for the basket to be cleared, which is asked back."""
    stage.driver.press(Qt.Key.Key_F10)
    stage.driver.wait("the question whether to cancel", lambda: stage.driver.window.dialog is not None)


def sell_a_mixed_order(stage: Stage) -> str:
    """Sell goods and a wash, with the best coupons, a punch card, stored value and cash; return the order's number."""
    driver, desk = stage.driver, stage.driver.window.counter.desk
    stage.scene("5. A mixed order: best coupons in one key, punch card, stored value, cash")
    stage.scan(RICH, KIBBLE, KIBBLE, TREAT, TREAT, TREAT, SHAMPOO, *([TOY] * 5), *([CAN] * 13), WASH, CARD)
    before_minor = stage.payable_minor
    driver.press(Qt.Key.Key_F2)
    driver.wait_for_price()
    stage.saw(stage.says())
    items = desk.state.basket.items
    best = stage.office.best_price(
        STORE,
        RICH,
        [{"sku": item.sku, "qty": str(item.qty_milli // 1000)} for item in items],
        cards=[{"card": cover.card_id, "line": cover.line} for cover in desk.state.basket.covers],
    )
    stage.check(
        f"{stage.money(before_minor)} becomes {stage.money(stage.payable_minor)}; the server finds nothing better",
        stage.money(stage.payable_minor) == best and stage.payable_minor < before_minor,
    )
    driver.shoot("desk-best")
    order_id, used = stage.order_id, desk.state.quote.used if desk.state.quote else ()
    pay_with_stored_value_and_cash(stage)
    stage.till.wake()
    driver.wait("the sale at the server", lambda: stage.office.order_state(order_id) == "PAID")
    states = {stage.office.coupon_state(coupon_id) for coupon_id in used}
    stage.check(f"the server has it: PAID, {len(used)} coupons USED", states == {"USED"} and len(used) >= 4)
    order = stage.office.order(order_id)
    assert order is not None
    paid = {tender["type"]: tender["amount_minor"] for tender in order["tenders"]}
    stage.check(
        f"200.00 from stored value, {stage.money(paid.get('cash', 0))} in cash, one use of the card",
        paid.get("stored_value") == 20000 and len(order["quote"]["covers"]) == 1,
    )
    return order_id


def go_to_payment(stage: Stage) -> None:
    """Go on to the payment, once there is a price."""
    driver = stage.driver
    driver.wait("a price to pay", lambda: driver.window.counter.can_pay and driver.window.desk.pay.isEnabled())
    driver.press(Qt.Key.Key_F12)
    driver.wait_for_page(Page.TENDER)


def pay_with_stored_value_and_cash(stage: Stage) -> None:
    """Pay 200.00 from stored value and the rest in cash, with change."""
    driver = stage.driver
    go_to_payment(stage)
    driver.type("200")
    driver.press(Qt.Key.Key_F8)
    tender = driver.window.tender
    driver.wait("the rest", lambda: any(button.isVisible() for button in tender.quick))
    driver.touch(tender.quick[-1])
    driver.shoot("tender-mixed")
    state = driver.window.counter.tender.state
    assert state is not None
    given = ", ".join(f"{each.type.value} {stage.money(each.amount_minor)}" for each in state.tenders)
    stage.check(f"given: {given}", {each.type for each in state.tenders} == {TenderType.STORED_VALUE, TenderType.CASH})
    driver.touch(tender.finish)
    change_minor = stage.wait_for_receipt()
    stage.check(f"held at the server, paid, change {stage.money(change_minor)}", change_minor == state.change_minor)
    driver.shoot("receipt-mixed")
    next_customer(stage)


def sell_offline(stage: Stage) -> list[str]:
    """Pull the cable and go on selling, in cash and by a card terminal that is slow to answer; return the orders."""
    driver, status = stage.driver, stage.driver.window.counter.status
    stage.scene("6. The cable is pulled")
    stage.cable.cut()
    stage.till.wake()
    driver.wait("the status bar to notice", lambda: not status.online)
    stage.scan(TREAT, stage.coupon(POOR, "treats-85").code)
    stage.saw(stage.says())
    stage.check("a coupon needs the server", is_refused(stage, "needs_online"))
    driver.shoot("desk-offline")
    sold = [stage.order_id]
    go_to_payment(stage)
    driver.press(Qt.Key.Key_F5)
    driver.press(Qt.Key.Key_F12)
    next_customer(stage)
    stage.scan(TREAT)
    sold.append(stage.order_id)
    pay_by_card(stage)
    next_customer(stage)
    driver.wait("three entries in the status bar", lambda: bool(status.status and status.status.pending_count == 3))
    driver.window.draw()
    stage.saw(driver.status())
    stage.check("goods are sold all the same; both sales wait, and the payment that had no answer", not status.online)
    stage.check("the server knows of neither order", {stage.office.order_state(each) for each in sold} == {"unknown"})
    driver.shoot("desk-offline-sold")
    return sold


def pay_by_card(stage: Stage) -> None:
    """Pay by a card terminal that first gives no answer: asked again, never charged again."""
    driver, tender = stage.driver, stage.driver.window.counter.tender
    go_to_payment(stage)
    driver.press(Qt.Key.Key_F6)
    driver.press(Qt.Key.Key_F12)
    driver.wait("the card terminal", lambda: driver.window.dialog is not None)
    driver.shoot("terminal")
    driver.press(Qt.Key.Key_F7)
    driver.wait("the order to be UNKNOWN", lambda: tender.state is not None and tender.state.pending is not None)
    stage.saw(stage.says())
    driver.shoot("tender-unknown")
    driver.switch_language()
    driver.press(Qt.Key.Key_F2)
    driver.wait("the card terminal again", lambda: driver.window.dialog is not None)
    driver.shoot("terminal")
    driver.switch_language()
    driver.press(Qt.Key.Key_F5)
    stage.wait_for_receipt()
    stage.check("the terminal gave no answer, was asked again, and had taken the money", tender.state is None)


def next_customer(stage: Stage) -> None:
    """Leave the receipt."""
    stage.wait_for_receipt()
    stage.driver.press(Qt.Key.Key_Return)
    stage.driver.wait_for_page(Page.DESK)


def come_back(stage: Stage, sold: list[str]) -> None:
    """Plug the cable in again, and lose the server's first answer: everything lands exactly once all the same."""
    driver, status = stage.driver, stage.driver.window.counter.status
    stage.scene("7. The cable is back, and the server's first answer gets lost on the way")
    stage.till.lose_next_answer()
    stage.cable.mend()
    stage.till.wake()
    driver.wait("the answer to be lost", lambda: stage.till.has_lost_answer)
    stage.check("both sales are at the server", {stage.office.order_state(each) for each in sold} == {"PAID"})
    driver.wait("the status", lambda: bool(status.status and status.status.pending_count == 3))
    stage.check("the till does not know it: three entries wait", not status.online)
    stage.till.wake()
    driver.wait(
        "everything to be synced", lambda: bool(status.online and status.status and status.status.pending_count == 0)
    )
    driver.window.draw()
    stage.saw(driver.status())
    stage.check("sent again, each landed exactly once", [stage.office.payments(each) for each in sold] == [1, 1])
    stage.check("and there is nothing for a person to look at", stage.office.findings() == {})


def take_back(stage: Stage, order_id: str) -> None:
    """Take the mixed order back: coupons, card and stored value return with it."""
    driver, refund = stage.driver, stage.driver.window.counter.refund
    stage.scene("8. The mixed order comes back, by the number on its receipt")
    order = stage.office.order(order_id)
    assert order is not None
    used = [stage_of["coupon"] for stage_of in order["quote"]["laid"] if stage_of["coupon"]]
    driver.press(Qt.Key.Key_F7)
    driver.wait_for_page(Page.REFUND)
    driver.scan(order_id)
    driver.wait("the order's lines", lambda: bool(refund.state.rows) and not refund.state.busy)
    driver.press(Qt.Key.Key_F2)
    driver.wait("what comes back", lambda: refund.state.confirmable)
    driver.shoot("refund")
    driver.press(Qt.Key.Key_F12)
    driver.wait("the refund", lambda: refund.state.done is not None or is_refused(stage))
    done = refund.state.done
    stage.saw(stage.says())
    driver.shoot("refund-done")
    stage.check("the server took everything back", done is not None and done.state == "REFUNDED")
    assert done is not None
    paid_back = {each.type: each.amount_minor for each in done.refund.tenders}
    stage.check("200.00 of it to stored value", paid_back.get(TenderType.STORED_VALUE) == 20000)
    stage.check(
        f"the {len(used)} coupons are ISSUED again", {stage.office.coupon_state(each) for each in used} == {"ISSUED"}
    )
    stage.check("the card has its 10 uses again", done.uses_after == {CARD: 10})
    driver.press(Qt.Key.Key_Escape)
    driver.wait_for_page(Page.DESK)
    stage.till.wake()
    status = driver.window.counter.status
    driver.wait("the refund in the server's books", lambda: bool(status.status and status.status.pending_count == 0))


def die_and_start_again(stage: Stage) -> None:
    """Let the till die between commit and receipt, and see what it says when it is back."""
    driver = stage.driver
    stage.scene("9. The till dies after a sale is in the ledger, before its receipt is shown")
    stage.scan(TOY)
    order_id = stage.order_id
    go_to_payment(stage)
    driver.press(Qt.Key.Key_F5)
    stage.till.die_after_next_commit()
    driver.press(Qt.Key.Key_F12)
    driver.wait("its death", lambda: stage.till.has_died)
    stage.till.start_again()
    driver = stage.driver
    driver.wait_for_page(Page.INTERRUPTED)
    found = driver.window.counter.interrupted.state.items
    driver.shoot("interrupted")
    stage.check(
        "started again it says: sold, receipt not shown",
        [(each.order_id, each.kind) for each in found] == [(order_id, InterruptedKind.RECEIPT_NOT_SHOWN)],
    )
    stage.till.wake()
    driver.wait("the sale at the server", lambda: stage.office.order_state(order_id) == "PAID")
    stage.check("and the sale is at the server, once", stage.office.payments(order_id) == 1)


def close_the_day(stage: Stage) -> None:
    """Look at what the till may do by itself, and give it back for the night."""
    stage.scene("10. The day is closed: the till gives its rights back to head office")
    driver, rights = stage.driver, stage.driver.window.counter.rights
    driver.press(Qt.Key.Key_Escape)
    driver.wait_for_page(Page.DESK)
    driver.wait("the line", lambda: driver.window.counter.status.online)
    driver.press(Qt.Key.Key_F1)
    driver.wait_for_page(Page.RIGHTS)
    driver.wait("the rights", lambda: rights.state.view is not None)
    driver.shoot("rights")
    for _ in range(2):
        ask_to_close_the_day(stage)
        driver.shoot("close-day")
        driver.press(Qt.Key.Key_Escape)
        driver.wait("the page", lambda: driver.window.dialog is None)
        driver.switch_language()
    ask_to_close_the_day(stage)
    driver.press(Qt.Key.Key_F10)
    driver.wait("the end of the day", lambda: rights.state.end is not None and not rights.state.end.waiting_count)
    driver.wait("what is left", lambda: rights.state.view is not None and rights.state.view.day_closed)
    stage.saw(stage.says())
    driver.shoot("day-closed")
    view, end = rights.state.view, rights.state.end
    assert view is not None and end is not None
    stage.check(
        f"leases {end.closed} and coupons {end.returned} went back, nothing is left here",
        (view.free_leases, view.free_coupons, view.kept) == (0, 0, 0) and end.closed + end.returned > 0,
    )


def ask_to_close_the_day(stage: Stage) -> None:
    """Ask for the day to be closed, which is asked back."""
    stage.driver.press(Qt.Key.Key_F12)
    stage.driver.wait("the question whether to close the day", lambda: stage.driver.window.dialog is not None)


def is_refused(stage: Stage, code: str = "") -> bool:
    """Tell whether the window says no, for this reason ("" = any)."""
    verdict = stage.driver.verdict()
    if verdict is None or verdict.tone is not Tone.REFUSED:
        return False
    return not code or (isinstance(verdict.message, Refusal) and verdict.message.code == code)
