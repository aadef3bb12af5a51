"""Run the desk: scans, the basket, its price, the member's coupons. Plain Python; the view draws `state`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

from app.domain.basket import MAX_LINES, MILLI, check_qty, parse_qty
from app.domain.best import Best
from app.domain.quote import Quote
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import BasketRequest, MemberView, ScanAnswer, ScanKind, UsableCoupon
from app.services.ports import Busy, Offline
from app.services.till import Till
from ui.counter import best_search
from ui.counter.basket import Basket, Item
from ui.counter.best_search import BestSearch
from ui.counter.desk_state import Asked, DeskState
from ui.counter.fetching import CouponFetch, Wanted
from ui.jobs import Jobs
from ui.verdict import Tone, Verdict, accepted, notice, refused, waiting, warning
from ui.words import Name, campaign_name

# These may turn good while goods are scanned, coupons taken off, or the line comes back, so such a coupon stays on the
# order and is tried again with each price. Every other reason is final at this counter, now.
MAY_HEAL = frozenset(
    {
        RefusalCode.BELOW_MINIMUM,
        RefusalCode.NOTHING_ELIGIBLE,
        RefusalCode.NOT_STACKABLE,
        RefusalCode.NEEDS_MEMBER,
        RefusalCode.NEEDS_ONLINE,
        RefusalCode.NEEDS_APPROVAL,
        RefusalCode.RISK_LIMIT,
        RefusalCode.RISK_SPENT,
    }
)


_Looked = tuple[MemberView | None, list[UsableCoupon] | Refusal, Mapping[str, tuple[str, str]]]


class DeskPresenter:
    """Hold the desk's state and change it; everything slow goes through `jobs`.

    `refresh` pulls from the head office (may take seconds, raises `Offline` or `Busy`); None where there is no
    head office to ask. `online` tells whether the last contact succeeded.
    """

    def __init__(
        self,
        till: Till,
        jobs: Jobs,
        *,
        changed: Callable[[], None],
        refresh: Callable[[], None] | None = None,
        online: Callable[[], bool] = lambda: False,
    ) -> None:
        self._till, self._jobs = till, jobs
        self._changed, self._refresh, self._online = changed, refresh, online
        self.state = DeskState(Basket(till.new_order_id()))
        self._good = self.state.basket  # the last basket that the till priced; a refused change goes back to it
        self._search: BestSearch | None = None
        self._turn = 0  # counts changes: an answer to an earlier question is not shown
        self.fetch = CouponFetch(till, jobs, came=self._fetched, told=self._say)

    # ------------------------------------------------------------------ scanning

    def scan(self, text: str) -> None:
        """Take what was scanned or typed."""
        if text.strip():
            self._jobs.local(lambda: self._look(text), lambda found: self._scanned(text, *found))

    def _look(self, text: str) -> tuple[ScanAnswer, Name]:
        """Look a text up, with both names of the goods (or of a card's service); runs away from the screen."""
        answer = self._till.scan(text)
        sku = answer.sku or answer.service
        names = self._till.product_names((sku,)) if sku else {}
        return answer, Name(*names.get(sku or "", (answer.title, "")))

    def _scanned(self, text: str, answer: ScanAnswer, name: Name, *, asked_again: bool = False) -> None:
        if answer.refusal is not None:
            unknown = answer.refusal.code is RefusalCode.UNKNOWN_CODE
            if unknown and not asked_again and self._refresh is not None and self._online():
                self._ask_head_office(text, self._refresh)
            else:
                self._say(refused(answer.refusal))
        elif answer.kind is ScanKind.PRODUCT:
            self._product(answer, name)
        elif answer.kind is ScanKind.COUPON:
            self._coupon(answer)
        elif answer.kind is ScanKind.MEMBER:
            self._member(answer)
        else:
            self._card(answer, name)

    def _ask_head_office(self, text: str, refresh: Callable[[], None]) -> None:
        """Pull, and look again: the coupon may have been claimed a moment ago on the customer's phone."""

        def look_again() -> tuple[ScanAnswer, Name]:
            try:
                refresh()
            except Offline:
                return ScanAnswer(refusal=refuse(RefusalCode.NEEDS_ONLINE)), Name("", "")
            except Busy as busy:
                later = refuse(RefusalCode.BUSY, retry_after_s=ceil(busy.retry_after_s))
                return ScanAnswer(refusal=later), Name("", "")
            return self._look(text)

        self._say(waiting("verdict.asking_head_office"))
        self._jobs.network(look_again, lambda found: self._scanned(text, *found, asked_again=True))

    def _product(self, answer: ScanAnswer, name: Name) -> None:
        sku, price_minor = answer.sku or "", answer.price_minor or 0
        self._name({sku: name})
        if answer.by_weight:
            weigh = notice("verdict.weigh", title="verdict.title_weigh", subject=name, price_minor=price_minor)
            asked = Asked(sku, name, True, price_minor=price_minor)
            self._put(replace(self.state, asked=asked, verdict=weigh))
        else:
            self._add(Item(sku, MILLI), price_minor=price_minor)

    def _add(self, item: Item, *, price_minor: int) -> None:
        basket, number = self.state.basket.with_item(item)
        if len(basket.items) > MAX_LINES:
            self._say(refused(refuse(RefusalCode.INVALID_QUANTITY, max_lines=MAX_LINES)))
            return
        name = self.state.names.get(item.sku, item.sku)
        verdict = accepted("verdict.added", title="verdict.title_added", subject=name, price_minor=price_minor)
        self._change(basket, verdict, selected=number)

    def _coupon(self, answer: ScanAnswer) -> None:
        coupon_id = answer.id or ""
        title = Name(answer.title or coupon_id, answer.title_en)
        self._name({coupon_id: title})
        basket = self.state.basket
        if answer.verdict is not None and answer.verdict.code is not RefusalCode.NEEDS_APPROVAL:
            self._say(self._fetched_or_refused(coupon_id, answer.verdict, member_id=answer.member_id))
        elif basket.member_id and answer.member_id and basket.member_id != answer.member_id:
            self._say(refused(refuse(RefusalCode.WRONG_MEMBER, coupon=coupon_id), subject=title))
        elif coupon_id in basket.use:
            self._say(notice("verdict.coupon_there", subject=title))
        else:
            self._use(coupon_id, member_id=answer.member_id)

    def _fetched_or_refused(self, coupon_id: str, reason: Refusal, *, member_id: str | None) -> Verdict:
        """Begin to fetch a coupon that another till has, where head office can be asked; else say no."""
        title = self.state.names.get(coupon_id, coupon_id)
        if reason.code is not RefusalCode.LEASED_ELSEWHERE or not self._online():
            return refused(reason, subject=title)
        self.fetch.begin(Wanted(coupon_id, self.state.basket.order_id, member_id, title))
        return waiting("verdict.asking_for_coupon")

    def _fetched(self, wanted: Wanted) -> None:
        if wanted.order_id == self.state.basket.order_id:
            self._use(wanted.coupon_id, member_id=wanted.member_id)

    def _use(self, coupon_id: str, *, member_id: str | None) -> None:
        basket = self.state.basket.with_coupon(coupon_id)
        basket = replace(basket, member_id=basket.member_id or member_id)
        title = self.state.names.get(coupon_id, coupon_id)
        noted = notice("verdict.coupon_noted", title="verdict.title_noted", subject=title)
        self._change(basket, noted, judge=lambda quote: self._judge_coupon(coupon_id, quote))

    def _judge_coupon(self, coupon_id: str, quote: Quote) -> Verdict:
        title = self.state.names.get(coupon_id, coupon_id)
        reason = quote.refused.get(coupon_id)
        if reason is None:
            off_minor = sum(stage.discount_minor for stage in quote.laid if stage.coupon_id == coupon_id)
            return accepted("verdict.coupon_used", title="verdict.title_used", subject=title, off_minor=off_minor)
        if reason.code is RefusalCode.NEEDS_APPROVAL:
            return Verdict(Tone.WARNING, reason, None, title)
        return self._fetched_or_refused(coupon_id, reason, member_id=quote.member_id)

    def judge(self, coupon_id: str) -> None:
        """Price the basket anew and say what became of one of its coupons."""
        self._change(self.state.basket, None, judge=lambda quote: self._judge_coupon(coupon_id, quote))

    def _member(self, answer: ScanAnswer) -> None:
        basket = self.state.basket
        if basket.member_id is not None and basket.member_id != answer.id:
            self._say(warning("verdict.other_member", title="verdict.title_not_done"))
            return
        known = accepted("verdict.member", title="verdict.title_member", subject=answer.title)
        self._change(replace(basket, member_id=answer.id), known)
        self._freshen()

    def _card(self, answer: ScanAnswer, service: Name) -> None:
        card_id, basket = answer.id or "", self.state.basket
        self._name({card_id: service})
        if answer.verdict is not None:
            self._say(refused(answer.verdict, subject=service))
        elif basket.member_id and basket.member_id != answer.member_id:
            self._say(refused(refuse(RefusalCode.WRONG_MEMBER, card=card_id), subject=service))
        else:
            self.cover(card_id, service=answer.service or "", member_id=answer.member_id)

    def _freshen(self) -> None:
        """Pull behind the cashier's back: the member may have claimed a coupon a moment ago."""
        refresh = self._refresh
        if refresh is None or not self._online():
            return

        def pull() -> bool:
            try:
                refresh()
            except (Offline, Busy):
                return False  # it comes with the next sync; the status bar says how old the copy is
            return True

        self._jobs.network(pull, lambda pulled: self.reprice() if pulled else None)

    # ------------------------------------------------------------------ lines

    def select(self, number: int) -> None:
        """Choose the line that keys and buttons work on."""
        if 1 <= number <= len(self.state.basket.items) and number != self.state.selected:
            self._put(replace(self.state, selected=number))

    def step(self, units: int) -> None:
        """Raise or lower the selected line by whole units."""
        item = self._selected()
        if item is None:
            return
        if item.by_weight:
            self.ask_quantity()
            return
        qty_milli = check_qty(item.qty_milli + units * MILLI, by_weight=False)
        if isinstance(qty_milli, Refusal):
            if units < 0:
                self._say(notice("verdict.last_unit", subject=self.state.names.get(item.sku, item.sku)))
            else:
                self._say(refused(qty_milli))
            return
        self._change(self.state.basket.with_qty(self.state.selected, qty_milli), None)

    def ask_quantity(self) -> None:
        """Ask for the quantity or the weight of the selected line."""
        item = self._selected()
        if item is not None:
            name = self.state.names.get(item.sku, item.sku)
            shown = name if isinstance(name, Name) else Name(name, "")
            asked = Asked(item.sku, shown, item.by_weight, number=self.state.selected, qty_milli=item.qty_milli)
            self._put(replace(self.state, asked=asked))

    def enter_quantity(self, text: str) -> Refusal | None:
        """Take what the cashier entered; returns why it makes no sense, then the question stays."""
        asked = self.state.asked
        if asked is None:
            return None
        qty_milli = parse_qty(text, by_weight=asked.by_weight)
        if isinstance(qty_milli, Refusal):
            return qty_milli
        self._put(replace(self.state, asked=None))
        if asked.number is None:
            self._add(Item(asked.sku, qty_milli, asked.by_weight), price_minor=asked.price_minor)
        elif asked.number <= len(self.state.basket.items):
            self._change(self.state.basket.with_qty(asked.number, qty_milli), None)
        return None

    def drop_question(self) -> None:
        """Take the question back; goods that were not weighed are not added."""
        asked = self.state.asked
        verdict = self.state.verdict
        if asked is not None and asked.number is None:
            verdict = notice("verdict.not_weighed", title="verdict.title_not_done", subject=asked.name)
        self._put(replace(self.state, asked=None, verdict=verdict))

    def remove(self) -> None:
        """Take the selected line off."""
        item = self._selected()
        if item is not None:
            name = self.state.names.get(item.sku, item.sku)
            gone = notice("verdict.removed", title="verdict.title_removed", subject=name)
            self._change(self.state.basket.without_line(self.state.selected), gone)

    def _selected(self) -> Item | None:
        number = self.state.selected
        if 1 <= number <= len(self.state.basket.items):
            return self.state.basket.items[number - 1]
        self._say(notice("verdict.no_line"))
        return None

    # ------------------------------------------------------------------ rights

    def toggle_coupon(self, coupon_id: str) -> None:
        """Put a coupon of the member on the order, or take it off."""
        basket = self.state.basket
        if coupon_id in basket.use:
            gone = notice("verdict.coupon_off", subject=self.state.names.get(coupon_id, coupon_id))
            self._change(basket.without_coupon(coupon_id), gone)
        else:
            self._use(coupon_id, member_id=None)

    def cover(self, card_id: str, *, service: str, member_id: str | None = None) -> None:
        """Let the next use of a punch card cover a unit of its service in the basket."""
        basket, title = self.state.basket, self.state.names.get(card_id, card_id)
        line = basket.uncovered_line(service)
        if line is None:
            self._change(
                replace(basket, member_id=basket.member_id or member_id), notice("verdict.card_noted", subject=title)
            )
            return
        covered = replace(basket.with_cover(card_id, line), member_id=basket.member_id or member_id)

        def judge(quote: Quote) -> Verdict:
            reason = quote.refused.get(card_id)
            if reason is not None:
                return refused(reason, subject=title)
            return accepted("verdict.card_used", title="verdict.title_used", subject=title, line=line)

        self._change(covered, None, judge=judge, selected=line)

    def cover_selected(self) -> None:
        """Let the member's card for the selected line's service cover one unit of it."""
        item = self._selected()
        if item is None:
            return
        cards = self.state.member.cards if self.state.member else ()
        card = next((card for card in cards if card.service == item.sku), None)
        if card is None:
            self._say(notice("verdict.no_card", subject=self.state.names.get(item.sku, item.sku)))
        else:
            self.cover(card.id, service=card.service)

    def uncover(self, card_id: str) -> None:
        """Take every use of a card off the order."""
        gone = notice("verdict.card_off", subject=self.state.names.get(card_id, card_id))
        self._change(self.state.basket.without_card(card_id), gone)

    def remove_member(self) -> None:
        """Take the member off, with coupons and cards, also one that is fetched yet."""
        if self.state.basket.member_id is not None:
            self.fetch.stop()
            self._change(self.state.basket.without_member(), notice("verdict.member_off"))

    def best(self) -> None:
        """Put the combination of the member's coupons on the order that makes it cheapest.

        Asked again while a hard search runs, it takes the best found so far.
        """
        if not self.state.basket.items:
            self._say(notice("verdict.basket_empty"))
            return
        if self._search is not None:
            self._search.stop()
            return
        turn = self._turn
        self._say(waiting("verdict.searching_best"))
        self._search = BestSearch(
            self._till,
            self._jobs,
            better=lambda best: self._best_so_far(turn, best),
            wanted=lambda: self._turn == turn,
        )
        self._search.start(self.state.basket.request(), lambda best: self._best(turn, best))

    def _best_so_far(self, turn: int, best: Best) -> None:
        if turn == self._turn and self._search is not None:
            self._say(best_search.so_far(best, self.state.quote))

    def _best(self, turn: int, best: Best | Refusal) -> None:
        self._search = None
        if turn != self._turn:
            if self.state.basket.items:
                self._say(notice("verdict.best_outdated"))
            return
        if isinstance(best, Refusal):
            self._say(refused(best))
            return
        verdict = best_search.found(best, self.state.quote, self.state.names)
        if verdict is None:
            self._say(notice("verdict.best_already", title="verdict.title_best"))
        else:
            self._change(replace(self.state.basket, use=best.coupon_ids), verdict)

    # ------------------------------------------------------------------ the order as a whole

    def checkout_request(self) -> BasketRequest:
        """Return what is paid: the basket with the rights that hold, as the shown price has them."""
        quote = self.state.quote
        assert quote is not None, "only a priced basket is paid"
        used = tuple(coupon_id for coupon_id in self.state.basket.use if coupon_id in quote.used)
        return replace(self.state.basket.request(), member_id=quote.member_id, use=used, covers=quote.covers)

    def start_over(self, verdict: Verdict | None = None) -> None:
        """Clear the desk for the next customer."""
        self.fetch.stop()
        self._turn += 1
        self._good = Basket(self._till.new_order_id())
        self._put(DeskState(self._good, verdict=verdict))

    def reprice(self) -> None:
        """Price the basket again: facts may have changed (a sync, another language of the day: the clock)."""
        self._change(self.state.basket, self.state.verdict)

    def say(self, verdict: Verdict) -> None:
        """Show a verdict from elsewhere."""
        self._say(verdict)

    # ------------------------------------------------------------------ pricing

    def _change(
        self,
        basket: Basket,
        verdict: Verdict | None,
        *,
        judge: Callable[[Quote], Verdict] | None = None,
        selected: int | None = None,
    ) -> None:
        """Take the changed basket and price it; `judge` makes the verdict once the price is there."""
        self._turn += 1
        turn = self._turn
        number = self.state.selected if selected is None else selected
        number = min(max(number, 1), len(basket.items))
        shown = verdict if verdict is not None or judge is not None else self.state.verdict
        self._put(replace(self.state, basket=basket, fresh=False, selected=number, verdict=shown))
        if not basket.items:
            self._good = basket
            self._put(replace(self.state, quote=None, fresh=True))
            self._look_up(turn)
            return
        request, order_id = basket.request(), basket.order_id

        def priced(quote: Quote | Refusal) -> None:
            if turn == self._turn:
                self._priced(turn, quote, judge=judge)

        self._jobs.local(lambda: self._till.quote(request, order_id=order_id), priced)

    def _priced(self, turn: int, quote: Quote | Refusal, *, judge: Callable[[Quote], Verdict] | None) -> None:
        if isinstance(quote, Refusal):
            back = self._good
            self._say(refused(quote))
            if back != self.state.basket:
                self._change(back, self.state.verdict)
            return
        # A coupon or card brings its member; from here on the member is named, so it stays when the coupon goes.
        basket = replace(self.state.basket, member_id=quote.member_id)
        dropped = {name: reason for name, reason in quote.refused.items() if reason.code not in MAY_HEAL}
        for name in dropped:
            # What is refused takes no place and nothing off, so the price stands without it.
            basket = basket.without_coupon(name).without_card(name)
        self._good = basket
        self._put(replace(self.state, basket=basket, quote=quote, fresh=True))
        for name, reason in dropped.items():
            self._say(refused(reason, subject=self.state.names.get(name, name)))
        if judge is not None:
            self._say(judge(quote))
        if turn == self._turn:
            self._look_up(turn)

    def _look_up(self, turn: int) -> None:
        """Show the member and what its coupons would do for this basket, once the price is on the screen."""
        request = self.state.basket.request()
        if request.member_id is None:
            self._put(replace(self.state, member=None, coupons=()))
            return
        member_id = request.member_id

        def look() -> _Looked:
            if turn != self._turn:  # overtaken while it waited: the next price brings its own look
                return None, [], {}
            member = self._till.member(member_id)
            services = {card.service for card in member.cards} if member else set()
            return member, self._till.usable_coupons(request), self._till.product_names(services)

        def seen(found: _Looked) -> None:
            if turn != self._turn:
                return
            member, coupons, services = found
            listed = () if isinstance(coupons, Refusal) else tuple(coupons)
            named = {sku: Name(*both) for sku, both in services.items()}
            self._name({each.coupon.id: campaign_name(each.coupon.rule, each.coupon.campaign_id) for each in listed})
            self._name(named)
            for card in member.cards if member else ():
                self._name({card.id: named.get(card.service, card.service_title)})
            self._put(replace(self.state, member=member, coupons=listed))

        self._jobs.aside(look, seen)

    # ------------------------------------------------------------------ the state

    def _say(self, verdict: Verdict) -> None:
        self._put(replace(self.state, verdict=verdict))

    def _name(self, names: Mapping[str, Name | str]) -> None:
        self.state = replace(self.state, names={**self.state.names, **names})

    def _put(self, state: DeskState) -> None:
        self.state = state
        self._changed()
