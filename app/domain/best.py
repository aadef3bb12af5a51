"""Find the best combination of a member's coupons: the true optimum, never a greedy guess (RULES, "Stacking").

Exact means: of all subsets that `price` uses whole, the first by `best_search.rank`. How that is found without trying
them all, and why nothing is missed:

- A subset is legal when its coupons go together (`clash`: a matter of pairs and of counts per campaign, so the order of
  scanning has no say) and each of them, laid in the order of evaluation, takes something off within its budget.
- An exclusive coupon is legal alone only: those are tried one by one.
- `no_promotions` changes what all others see, so subsets without such a coupon are searched on the lines after the
  promotions, subsets with one on the lines before them. Each subset is searched on exactly one of the two.
- Coupons that share no line, group or campaign are searched apart (`components`), and the best parts make the best
  whole: amounts and numbers add up, and which of two sorted lists comes first does not change when both get the same
  more.
- Within a part, `best_search` lists its reasons.

The last step asks `price` itself, so no mistake here can make an order cheaper than its rules.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.domain.best_runs import Run, components, runs_of
from app.domain.best_search import Rank, Search, rank
from app.domain.conditions import coupon_reason
from app.domain.facts import CouponFacts, OrderFacts
from app.domain.pricing import Board, evaluation_key, price
from app.domain.punching import cover_units
from app.domain.quote import Quote


@dataclass(frozen=True, slots=True)
class Best:
    """Tell the coupons to use, in the order in which they are laid, and what the order then costs.

    `exact` is False where the search was stopped: then it is the best found so far, and legal.
    """

    coupon_ids: tuple[str, ...]
    quote: Quote
    exact: bool


def best_combination(facts: OrderFacts, *, keep_going: Callable[[Best], bool] | None = None) -> Best:
    """Return the legal subset of `facts.coupons` with the lowest amount to pay.

    Tie: fewer coupons, then those that expire first (the sorted ends compared, one without end last), then coupon id.
    `keep_going` is asked every few milliseconds with the best so far; False ends the search. Whoever must not wait
    for a hard case runs this on another thread and answers False when the time is up.
    """
    order = _Order(facts, keep_going)
    return order.best(exact=order.search())


class _Order:
    """Search one order; `chosen` is the best whole choice so far."""

    def __init__(self, facts: OrderFacts, keep_going: Callable[[Best], bool] | None) -> None:
        self._facts = facts
        self._keep_going = keep_going
        self._plain = price(replace(facts, coupons=()))
        self._chosen: tuple[CouponFacts, ...] = ()
        self._rank = rank(self._plain.payable_minor, ())
        self._told: Best | None = None

    def best(self, *, exact: bool) -> Best:
        """Price the best choice so far."""
        quote = price(replace(self._facts, coupons=self._chosen))
        assert quote.payable_minor == self._rank[0] and len(quote.used) == len(self._chosen), "price has the last word"
        return Best(quote.used, quote, exact)

    def search(self) -> bool:
        """Look at every legal subset, or prove that it is not needed; False when `keep_going` ended it before."""
        facts = self._facts
        usable = [
            coupon
            for coupon in sorted({coupon.id: coupon for coupon in facts.coupons}.values(), key=evaluation_key)
            if coupon_reason(coupon, place=facts.place, now=facts.now, order_id=facts.order_id, member=facts.member)
            is None
        ]
        for coupon in usable:
            if coupon.rule.exclusive:
                self._try((coupon,))
        board = Board.of(facts.lines, cover_units(facts)[0])
        runs = runs_of([coupon for coupon in usable if not coupon.rule.exclusive], board)
        spent = Counter[str]()
        for stage in self._plain.laid:
            spent[stage.campaign_id] += stage.discount_minor
        promoted = Board(board.lines, board.grosses, board.units, [line.net_minor for line in self._plain.lines])
        if not spent:
            # No promotion takes part, so nothing is lost with it.
            return self._search_board(board, runs, spent=spent, must_silence=False)
        loud = [run for run in runs if not run.rule.no_promotions]
        return self._search_board(promoted, loud, spent=spent, must_silence=False) and (
            len(loud) == len(runs) or self._search_board(board, runs, spent=Counter(), must_silence=True)
        )

    def _try(self, coupons: tuple[CouponFacts, ...]) -> None:
        quote = price(replace(self._facts, coupons=coupons))
        if len(quote.used) == len(coupons):
            self._take(quote.payable_minor, coupons)

    def _take(self, payable_minor: int, coupons: tuple[CouponFacts, ...]) -> None:
        found = rank(payable_minor, coupons)
        if found < self._rank:
            self._chosen, self._rank, self._told = coupons, found, None

    def _may_go_on(self) -> bool:
        if self._keep_going is None:
            return True
        if self._told is None:
            self._told = self.best(exact=False)
        return self._keep_going(self._told)

    def _search_board(self, board: Board, runs: Sequence[Run], *, spent: Counter[str], must_silence: bool) -> bool:
        """Search the parts, the one that has to silence the promotions last; without it nothing is legal."""
        parts = components(runs)
        parts.sort(key=lambda part: must_silence and any(run.rule.no_promotions for run in part))
        apart: tuple[CouponFacts, ...] = ()
        payable_minor = sum(board.nets)
        for part in parts:
            last = must_silence and part is parts[-1]
            here_minor = sum(board.nets[i] for i in {i for run in part for i in run.eligible})
            others_minor = payable_minor - here_minor
            ceiling: Rank = rank(here_minor, ())
            if last:
                # Whatever costs more than the best so far is of no use; a tie is settled when the whole is compared.
                ceiling = (self._rank[0] - others_minor, len(self._facts.coupons) + 1, [], [])
            search = Search(board, part, spent=spent, must_silence=last, ceiling=ceiling)
            for _ in search.steps():
                if search.best is not None and (last or not must_silence):
                    self._take(others_minor + search.best_rank[0], (*apart, *search.best))
                if not self._may_go_on():
                    return False
            if search.best is not None:
                apart = (*apart, *search.best)
                payable_minor = others_minor + search.best_rank[0]
            if not must_silence or (last and search.best is not None):
                self._take(payable_minor, apart)
        return True
