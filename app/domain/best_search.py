"""Search one part of a member's coupons for its best choice: branch and bound in the order of evaluation.

A node is a legal choice with the nets that it leaves; its branches are the runs that may be laid next, none before the
last one laid, so each choice (as a count of each run) is reached along one path. Why none that matters is cut off:

1. Laying a coupon never raises a net. So what a coupon can take off at a node (`_Option.most_minor`) bounds what it
   takes off anywhere below: amounts and percentages grow with the eligible net, the k-th dearest unit never gets
   dearer, a threshold missed stays missed, a budget only shrinks. Of tiers the best within reach counts.
2. Hence what the runs behind can take off in all is at most the sum, over the groups, of the best campaign's best
   coupons (an order takes one campaign of a group, and `max_per_order` of it).
3. Only choices that cost no more than the best so far (the goal) matter. Just after a coupon is laid in such a choice
   the part still costs at most the goal and what the coupons behind can take off, or they would not bring it down to
   the goal. So the coupon saw at most that and its own share, and takes off no more than it would there; runs are
   bounded from the last to the first. This tells that two thresholds cannot both be reached.
4. A branch that cannot cost less than the best is kept only where it may cost the same with fewer coupons, or with as
   many that expire earlier (`_may_tie`). The tie rule compares sorted lists, and which of two comes first does not
   change when both get the same more.
5. Two nodes with the same nets and the same runs left have the same future: the better of them by the tie rule stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.domain.best_runs import Run, end_of
from app.domain.facts import CouponFacts
from app.domain.pricing import Board
from app.domain.refusals import Refusal

Rank = tuple[int, int, list[datetime], list[str]]
STEP = 32
"""Nodes between two looks from outside: a few milliseconds' work at most."""

SEEN_MAX = 20_000
"""Most nodes remembered, about 30 MB on 50 lines; beyond them equal nodes are searched twice, which only costs time."""
TIGHTENINGS = 4
"""How often a bound is fed into itself. Each round is a bound; on a full basket they would fall by 1 fen at a time."""


def rank(payable_minor: int, coupons: Sequence[CouponFacts]) -> Rank:
    """Order choices as RULES do: the amount to pay, the number, the sorted ends, the sorted ids."""
    return payable_minor, len(coupons), sorted(map(end_of, coupons)), sorted(coupon.id for coupon in coupons)


@dataclass(frozen=True, slots=True)
class _Tally:
    """Count what a campaign has in the order: coupons, the smallest `max_per_order` of them, budget spent."""

    count: int
    limit: int
    spent_minor: int


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """Hold a legal choice: the nets after it, what the part's lines cost, and which runs may follow.

    `used` counts the coupons taken of a run. `silences` tells whether one of them turns promotions off.
    """

    nets: list[int]
    payable_minor: int
    runs: tuple[Run, ...]
    chosen: tuple[CouponFacts, ...] = ()
    used: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    tallies: Mapping[str, _Tally] = field(default_factory=dict)
    silences: bool = False


@dataclass(slots=True)
class _Option:
    """Describe a run that may follow: `copies` of its coupons are left, its campaign has `room` for so many.

    `net_minor` is the eligible net here; `now_minor` what one takes off when laid next (0 = it would be refused);
    `most_minor` what one can take off here or at any node below; `left_minor` is left of its budget (None = no budget).
    """

    run: Run
    room: int
    copies: int
    net_minor: int
    now_minor: int
    most_minor: int
    left_minor: int | None

    @property
    def coupon(self) -> CouponFacts:
        """Return the coupon of the run that goes next."""
        return self.run.coupons[len(self.run.coupons) - self.copies]


@dataclass(slots=True)
class _Pile:
    """Add up what a campaign's runs from here to the last can take off: at most `room` coupons, none above the top."""

    sum_minor: int = 0
    top_minor: int = 0
    room: int = 0

    def beside(self, option: _Option, alike_minor: int) -> int:
        """Return what the campaign can take off beside one coupon of a run before, whose others give `alike_minor`."""
        each_minor = max(self.top_minor, option.most_minor)
        return min(self.sum_minor + alike_minor, (max(self.room, option.room) - 1) * each_minor)


@dataclass(slots=True)
class _Fork:
    """Hold a node's options; `lax_bounds`, made for a tie, allow a choice that costs what the best does."""

    node: _Node
    options: list[_Option]
    lax_bounds: list[int | None] | None = None


class Search:
    """Find the best choice among the runs of one part; `best` and `best_rank` hold it."""

    def __init__(
        self,
        board: Board,
        runs: Sequence[Run],
        *,
        spent: Mapping[str, int],
        must_silence: bool,
        ceiling: Rank,
    ) -> None:
        """Take the board with the promotions laid, and what they spent of campaigns' budgets.

        `must_silence`: only choices with a `no_promotions` coupon count. `ceiling` is a rank that has to be beaten.
        """
        self._board = board
        self._must_silence = must_silence
        self._blanks = {run.place: _Tally(0, run.rule.max_per_order, spent.get(run.campaign_id, 0)) for run in runs}
        self._seen: dict[tuple[object, ...], Rank] = {}
        self._unit_offs: dict[tuple[int, ...], int] = {}
        lines = sorted({i for run in runs for i in run.eligible})
        self._root = _Node(list(board.nets), sum(board.nets[i] for i in lines), tuple(runs))
        self.best: tuple[CouponFacts, ...] | None = None
        self.best_rank = ceiling

    def steps(self) -> Iterator[None]:
        """Search to the end; stop every few milliseconds, so that whoever iterates may look at `best` and leave."""
        self._offer(self._root, self._root.payable_minor, ())
        waiting = self._branches(self._root)
        laid_count = 0
        while waiting:
            fork, k, bound_minor = waiting.pop()
            if not self._worth(fork, k, bound_minor):
                continue
            waiting.extend(self._branches(self._lay(fork.node, fork.options, k)))
            laid_count += 1
            if laid_count % STEP == 0:
                yield

    def _offer(self, node: _Node, payable_minor: int, more: tuple[CouponFacts, ...]) -> None:
        silences = node.silences or any(coupon.rule.no_promotions for coupon in more)
        size = len(node.chosen) + len(more)
        if (self._must_silence and not silences) or (payable_minor, size) > self.best_rank[:2]:
            return
        chosen = (*node.chosen, *more)
        found = rank(payable_minor, chosen)
        if found < self.best_rank:
            self.best, self.best_rank = chosen, found

    def _branches(self, node: _Node) -> list[tuple[_Fork, int, int]]:
        """Offer every choice that is one coupon wider, and return the ways on, the most promising last."""
        options = self._options(node)
        if self._seen_better(node, options):
            return []
        for option in options:
            if option.now_minor:
                self._offer(node, node.payable_minor - option.now_minor, (option.coupon,))
        bounds = self._bounds(node, options, self.best_rank[0] - 1)
        fork = _Fork(node, options)
        ways = [(bound, k) for k, bound in enumerate(bounds) if bound is not None]
        return [(fork, k, bound) for bound, k in sorted(ways, reverse=True)]

    def _options(self, node: _Node) -> list[_Option]:
        nets = node.nets
        sums: dict[tuple[int, ...], int] = {}
        options = []
        for run in node.runs:
            if node.groups.get(run.rule.group, run.campaign_id) != run.campaign_id:
                continue
            tally = node.tallies.get(run.campaign_id) or self._blanks[run.place]
            room = min(tally.limit, run.rule.max_per_order) - tally.count
            copies = len(run.coupons) - node.used.get(run.place, 0)
            if room <= 0 or not copies:
                continue
            if run.eligible not in sums:
                sums[run.eligible] = sum([nets[i] for i in run.eligible])
            net_minor = sums[run.eligible]
            now_minor = self._unit_off(run, nets) if run.by_unit else run.off(net_minor)
            most_minor = now_minor if run.by_unit else run.most(net_minor)
            left_minor = None
            if run.budget_minor is not None:
                left_minor = run.budget_minor - tally.spent_minor
                now_minor = now_minor if now_minor <= left_minor else 0
                most_minor = min(most_minor, left_minor)
            if most_minor > 0:
                options.append(_Option(run, room, copies, net_minor, now_minor, most_minor, left_minor))
        return options

    def _unit_off(self, run: Run, nets: list[int]) -> int:
        """Return what a unit benefit takes off; kept, since most stages before it touch other lines."""
        key = (run.place, *[nets[i] for i in run.eligible])
        if key not in self._unit_offs:
            self._board.nets = nets
            shares = self._board.shares(run.rule, run.eligible)
            self._unit_offs[key] = 0 if isinstance(shares, Refusal) else sum(shares)
        return self._unit_offs[key]

    def _bounds(self, node: _Node, options: Sequence[_Option], goal_minor: int) -> list[int | None]:
        """Bound from below what a choice costs that lays option k next and then goes on, if it costs at most the goal.

        None where there is no such choice, or nothing to go on with. A bound above the goal proves that there is none.
        """
        bounds: list[int | None] = [None] * len(options)
        piles: dict[tuple[str, str], _Pile] = {}
        groups: dict[str, int] = {}
        all_minor = 0
        silencer = node.silences or not self._must_silence
        for k in range(len(options) - 1, -1, -1):
            option = options[k]
            run, most_minor = option.run, option.most_minor
            group = run.rule.group
            pile = piles.get((group, run.campaign_id))
            if pile is None:
                pile = piles[(group, run.campaign_id)] = _Pile()
            others_minor = all_minor - groups.get(group, 0)
            count = min(option.copies, option.room)
            net_minor = option.net_minor
            alike_minor = run.most_of(count - 1, net_minor, each_minor=most_minor)
            behind_minor = others_minor + pile.beside(option, alike_minor)
            for _ in range(TIGHTENINGS):
                if net_minor <= goal_minor + behind_minor + most_minor:
                    break
                net_minor = goal_minor + behind_minor + most_minor
                most_minor = min(most_minor, net_minor if run.by_unit else run.most(max(0, net_minor)))
            if most_minor <= 0:
                continue
            silencer = silencer or run.rule.no_promotions
            if option.now_minor and behind_minor and silencer:
                alike_minor = run.most_of(count - 1, option.net_minor - option.now_minor, each_minor=most_minor)
                behind_minor = others_minor + pile.beside(option, alike_minor)
                bounds[k] = max(0, node.payable_minor - option.now_minor - behind_minor)
            pile.sum_minor += run.most_of(count, net_minor, each_minor=most_minor)
            pile.top_minor, pile.room = max(pile.top_minor, most_minor), max(pile.room, option.room)
            best_minor = max(groups.get(group, 0), min(pile.sum_minor, pile.room * pile.top_minor))
            all_minor += best_minor - groups.get(group, 0)
            groups[group] = best_minor
        return bounds

    def _worth(self, fork: _Fork, k: int, bound_minor: int) -> bool:
        """Tell whether laying option k may lead to a better choice than the best so far."""
        best_minor, best_count = self.best_rank[0], self.best_rank[1]
        if bound_minor < best_minor:
            return True
        # Not cheaper, then. It goes on with at least one coupon more, and a tie needs as few as the best has.
        if len(fork.node.chosen) + 2 > best_count:
            return False
        if fork.lax_bounds is None:
            fork.lax_bounds = self._bounds(fork.node, fork.options, best_minor)
        lax_minor = fork.lax_bounds[k]
        return lax_minor is not None and lax_minor <= best_minor and self._may_tie(fork, k)

    def _may_tie(self, fork: _Fork, k: int) -> bool:
        """Tell whether a choice below may cost what the best does, with fewer coupons or such that expire earlier."""
        best_minor, best_count, best_ends, best_ids = self.best_rank
        first = fork.options[k]
        chosen = (*fork.node.chosen, first.coupon)
        behind = [
            option
            for option in fork.options[k + 1 :]
            if option.run.campaign_id == first.run.campaign_id or option.run.rule.group != first.run.rule.group
        ]
        offs = [option.most_minor for option in behind for _ in range(min(option.copies, option.room))]
        offs.extend([first.most_minor] * (min(first.copies, first.room) - 1))
        missing_minor = fork.node.payable_minor - first.now_minor - best_minor
        more = 0
        for off_minor in sorted(offs, reverse=True):
            if missing_minor <= 0 and more:
                break
            missing_minor -= off_minor
            more += 1
        if missing_minor > 0 or len(chosen) + more > best_count:
            return False
        if len(chosen) + more < best_count:
            return True
        left = [coupon for option in behind for coupon in option.run.coupons[-option.copies :]]
        left.extend(first.run.coupons[len(first.run.coupons) - first.copies + 1 :])
        ends = sorted([*map(end_of, chosen), *sorted(map(end_of, left))[:more]])
        ids = sorted([*(coupon.id for coupon in chosen), *sorted(coupon.id for coupon in left)[:more]])
        return (ends, ids) < (best_ends, best_ids)

    def _lay(self, node: _Node, options: Sequence[_Option], k: int) -> _Node:
        option = options[k]
        run = option.run
        self._board.nets = list(node.nets)
        shares = self._board.shares(run.rule, run.eligible)
        assert not isinstance(shares, Refusal) and sum(shares) == option.now_minor, "the bound and the price disagree"
        self._board.take(run.eligible, shares)
        tally = node.tallies.get(run.campaign_id) or self._blanks[run.place]
        return _Node(
            nets=self._board.nets,
            payable_minor=node.payable_minor - option.now_minor,
            runs=tuple(other.run for other in options[k:]),
            chosen=(*node.chosen, option.coupon),
            used={**node.used, run.place: len(run.coupons) - option.copies + 1},
            groups={**node.groups, run.rule.group: run.campaign_id},
            tallies={
                **node.tallies,
                run.campaign_id: _Tally(
                    tally.count + 1, min(tally.limit, run.rule.max_per_order), tally.spent_minor + option.now_minor
                ),
            },
            silences=node.silences or run.rule.no_promotions,
        )

    def _seen_better(self, node: _Node, options: Sequence[_Option]) -> bool:
        """Tell whether a node with the same future was there before and is better by the tie rule."""
        future = tuple([(option.run.place, option.copies, option.room, option.left_minor) for option in options])
        key = (tuple(node.nets), future, node.silences)
        here = rank(node.payable_minor, node.chosen)
        known = self._seen.get(key)
        if known is not None and known <= here:
            return True
        if known is not None or len(self._seen) < SEEN_MAX:
            self._seen[key] = here
        return False
