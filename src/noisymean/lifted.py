r"""The theorem: for all gradients T rounds are dominated by T rounds of the all-zero pair in n + 1 dimensions, beside coins.

    delta(eps + eps_lat)  <=  delta_lat + e^eps_lat ( delta[Z^T (x) W](eps) + delta_X + 2 beta )

Z is the all-zero pair padded by one dimension (`laws.all_zero`), W the block of coins that the records of D flip (`laws.coins`),
biased as the lift says (`lift`). eps_lat pays for the lattice, beta for keeping the biases between two ends, delta_X for the
budget that they keep to. Every choice of the shares of delta is valid; docs/theory.md, "The all-zero pair is the worst, up to N
coins", has the proof. Each direction has its own lift:

    told from    lifted arm    rate    against    jumps are a times as long    in units of its noise
    D -> D'      D'            q'      q          a = r = c/c'                 omega = 1/(s sigma)
    D' -> D      D             q       q'         a = 1/r                      omega = r/sigma
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.compose.engine import Rounds
from noisymean.compose.traced import traced
from noisymean.errors import check_probability
from noisymean.laws.all_zero import all_zero_from_above
from noisymean.laws.coins import Block, Coins, Costs, fair, normal, renyi_hull, thinned
from noisymean.lift import Cells, Clip, Lift
from noisymean.mechanisms import DatasetDenominator
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Law, Side

# Shares of delta that the lattice, and clip and budget each, may have: any is valid, the best by a rough estimate is taken.
_SHARES = (0.1, 0.03, 0.01, 0.003, 0.001)
# Share for infinite losses of a block, and for what its Gaussian misses.
_REST = 1e-3
# A lattice term beyond this is hopeless.
_MOST_LATTICE = 60.0
# f(alpha) is asked for beside this share of the least of all errors, which lies between these two.
_SHARE_AT_ALPHA, _LEAST_AT_ALPHA, _MOST_AT_ALPHA = 1e-3, 1e-15, 1e-3
_POINTS = 65
_ULP = 1e-15
# A block of coins so many times as wide as another is not looked at.
_MUCH_WIDER = 2.0
# How often the shares of delta are planned again where delta is what is asked for, from when on they stay as they are, and down
# to which logarithm.
_REPLANNED, _SAME_PLAN, _LEAST_LOG_DELTA = 6, 0.05, -650.0
# With what share of the block's variance its Gaussian may begin.
_BEGINNINGS = (0.05, 0.15, 0.4, 1.0)


@final
@dataclass(frozen=True)
class Moving:
    """`steps` rounds of a mechanism whose denominator, rate or noise moves with N."""

    mechanism: DatasetDenominator
    steps: int

    @cached_property
    def zero(self) -> tuple[Law, ...]:
        """The all-zero pair with one dimension more, which makes all gradients equally long (docs/theory.md, "Padding")."""
        return all_zero_from_above(self.mechanism.neighbours, (self.mechanism.dimension or 0) + 1)

    def lift(self, *, reverse: bool) -> Lift:
        """The lift of D', or of D."""
        moved, count = self.mechanism.neighbours, self.mechanism.dataset_size or 0
        (q, q_with), sigma = moved.rates, moved.noises[0]
        if reverse:
            return Lift(count, q, q_with, -moved.log_shrink, math.exp(moved.log_shrink) / sigma)
        return Lift(count, q_with, q, moved.log_shrink, math.exp(-moved.log_scale) / sigma)


class _Plan(NamedTuple):
    """delta(eps + shift) <= e^log_room less what was spent, once the rounds have no more than e^log_left at eps."""

    rounds: Rounds
    shift: float
    log_left: float
    # log of all that is spent beside the rounds, and of what multiplies them
    log_spent: float


class Terms(NamedTuple):
    """What an epsilon of the theorem is made of."""

    # the all-zero pair in n + 1 dimensions by itself
    start: float
    # what is added by leaving shares of delta to clip, budget and block,
    shares: float
    # by the coins,
    coins: float
    # and by the lattice
    lattice: float


@final
@dataclass(frozen=True, eq=False)
class LiftedRounds:
    """Upper bounds on delta(epsilon) of a run by the theorem; `still` are rounds with a law of their own."""

    moving: tuple[Moving, ...]
    still: tuple[tuple[int, Law], ...] = ()
    reverse: bool = False

    def inverse(self) -> LiftedRounds:
        """The other direction, with its own lift."""
        return self._inverse

    @cached_property
    def _inverse(self) -> LiftedRounds:
        other = LiftedRounds(self.moving, self.still, not self.reverse)
        other.__dict__["_inverse"] = self
        return other

    @cached_property
    def _lifts(self) -> tuple[Lift, ...]:
        return tuple(one.lift(reverse=self.reverse) for one in self.moving)

    @cached_property
    def _lattice(self) -> tuple[float, float]:
        """Sums over rounds of eps_r and of its square."""
        each = [(one.steps, lift.log_lattice) for one, lift in zip(self.moving, self._lifts, strict=True)]
        return sum(steps * eps for steps, eps in each), sum(steps * eps * eps for steps, eps in each)

    @property
    def possible(self) -> bool:
        """Whether there is a lift that is worth anything."""
        return all(lift.possible for lift in self._lifts) and math.isfinite(self._lattice[0])

    def epsilon(self, delta: float, side: Side) -> float:
        """An upper bound on epsilon(delta)."""
        return self.epsilon_of_log(math.log(delta), side)

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float:
        """The same for a delta that may be too small to be written down; inf where the theorem says nothing."""
        best = math.inf
        for plan in self._plans(log_delta):
            if math.isinf(best) or plan.rounds.at_most(best - plan.shift, plan.log_left, rough=False) is not False:
                best = min(best, plan.shift + plan.rounds.epsilon_of_log(plan.log_left, Side.ABOVE, near=near))
                near = best - plan.shift
        return best

    def terms(self, delta: float) -> Terms | None:
        """What the best bound on epsilon(delta) is made of; None where there is none."""
        plans = self._plans(math.log(delta))
        if not plans:
            return None
        found = [(plan.shift + plan.rounds.epsilon_of_log(plan.log_left, Side.ABOVE), plan) for plan in plans]
        total, best = min(found, key=lambda one: one[0])
        alone = Rounds((*self._starts, *self.still), self.reverse)
        start, shared = (alone.epsilon_of_log(log, Side.ABOVE) for log in (math.log(delta), best.log_left))
        return Terms(start, shared - start, total - best.shift - shared, best.shift)

    @property
    def _starts(self) -> tuple[tuple[int, Law], ...]:
        return tuple((one.steps, law) for one in self.moving for law in one.zero)

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True) -> bool | None:
        """Whether epsilon(delta) <= epsilon is seen at once."""
        plans = self._plans(log_delta)
        seen = any(
            plan.rounds.at_most(epsilon - plan.shift, plan.log_left, rough=rough)
            for plan in plans
            if epsilon > plan.shift
        )
        return True if seen else None

    def log_delta(self, epsilon: float, side: Side) -> float:
        """An upper bound on log delta(epsilon): shares are planned for what the rounds themselves had in the plan before."""
        best, guess = 0.0, -12.0
        for _ in range(_REPLANNED):
            next_guess = 0.0
            for plan in self._plans(guess):
                at = epsilon - plan.shift
                main = plan.shift + (float(plan.rounds.log_delta(at, Side.ABOVE)) if at > 0.0 else 0.0)
                best = min(best, float(np.logaddexp(main, plan.log_spent)))
                next_guess = min(next_guess, main)
            if abs(next_guess - guess) < _SAME_PLAN or next_guess >= 0.0:
                break
            # nothing is planned for less than a double holds
            guess = max(next_guess, _LEAST_LOG_DELTA)
        return best

    def lower(self, alpha: ArrayLike, points: int = _POINTS) -> Array:
        """A number that is never above T(M(D), M(D')) at alpha, from `points` tests of the all-zero pairs and coins.

        With f their trade-off function the theorem says that 1 - T <= spent + e^shift (1 - f), tangent by tangent.
        """
        alpha = np.asarray(check_probability("alpha", alpha), dtype=np.float64)
        inner = alpha[(alpha > 0.0) & (alpha < 1.0)]
        least = float(np.min(np.minimum(inner, 1.0 - inner), initial=_MOST_AT_ALPHA))
        plans = self._plans(math.log(max(_SHARE_AT_ALPHA * least, _LEAST_AT_ALPHA)))
        found = np.zeros_like(alpha)
        for plan in plans:
            told = traced(plan.rounds, alpha, points, chord=False)
            found = np.maximum(found, 1.0 - math.exp(plan.log_spent) - math.exp(plan.shift) * (1.0 - told) - _ULP)
        return found

    # --- plans: every one is valid ---------------------------------------------------------------------------------------

    def _plans(self, log_delta: float) -> tuple[_Plan, ...]:
        if log_delta not in self._known:
            self._known[log_delta] = tuple(self._planned(log_delta)) if self.possible else ()
        return self._known[log_delta]

    @cached_property
    def _known(self) -> dict[float, tuple[_Plan, ...]]:
        return {}

    def _planned(self, log_delta: float) -> Iterator[_Plan]:
        surely, squares = self._lattice
        ways = [(surely, 0.0)] + [
            (0.5 * squares + math.sqrt(2.0 * squares * (-math.log(share) - log_delta)), share) for share in _SHARES
        ]
        of_delta = self._spread / math.sqrt(2.0 * max(-log_delta, 1.0))
        shift, lattice_share = min(ways, key=lambda one: one[0] + of_delta * one[1])
        if shift > _MOST_LATTICE:
            return
        log_room = log_delta + math.log1p(-lattice_share) - shift
        cells = [lift.cells(log_room) for lift in self._lifts]
        kept = [(share, found) for share in _SHARES if (found := self._budgets(cells, log_room, share)) is not None]
        if not kept:
            return
        share, chosen = min(kept, key=lambda one: self._cost(one[0], one[1], log_room))
        each = [_worth_trying(_blocks(one, log_room, len(chosen), flipped=self.reverse)) for one in chosen]
        if not all(each):
            return
        for kind in range(max(map(len, each))):
            blocks = [found[min(kind, len(found) - 1)] for found in each]
            spent = 2.0 * share + sum(block.delta for block in blocks) * math.exp(-log_room)
            if not spent < 1.0:
                continue
            coins = tuple((1, block.law) for block in blocks)
            rounds = Rounds((*self._starts, *coins, *self.still), self.reverse)
            beside = float(np.logaddexp(shift + log_room + math.log(spent), log_delta + _log(lattice_share)))
            yield _Plan(rounds, shift, log_room + math.log1p(-spent), beside)

    def _budgets(self, of_lifts: list[Cells], log_room: float, share: float) -> list[_Budget] | None:
        """Clip and budget of each segment, for a share of delta each; None where there is none."""
        surely, _ = self._lattice
        found = []
        for one, lift, cells in zip(self.moving, self._lifts, of_lifts, strict=True):
            coins_in_all = one.steps * lift.count
            # 2 beta = share of delta: beta = e^(T eps_r) T N kappa0 E|x - clipped x|
            most = math.log(share) + log_room - surely - math.log(2.0 * len(self.moving))
            clip = cells.clip(math.exp(most) / (coins_in_all * lift.other)) if coins_in_all else Clip(0.0, 0.0, 0.0)
            if clip is None or not (coins := Coins(lift.other, clip.low, clip.high)).possible:
                return None
            nats = surely - log_room - math.log(share / len(self.moving))
            squares = cells.budget(cells.squares(clip), coins.largest**2, lift.count, one.steps, nats)
            found.append(_Budget(coins, cells, clip, lift.count, one.steps, nats, squares))
        return found

    def _cost(self, share: float, budgets: list[_Budget], log_room: float) -> float:
        """What a share of delta takes of epsilon, and what the coins under its budget add: roughly, as of normal losses."""
        reach = math.sqrt(2.0 * max(-log_room, 1.0))
        of_coins = sum(one.squares * one.coins.variance for one in budgets)
        wide = math.hypot(self._spread, math.sqrt(of_coins))
        return 2.0 * share * self._spread / reach + of_coins * (0.5 + 0.5 * reach / max(wide, 1e-300))

    @cached_property
    def _spread(self) -> float:
        """Deviation of the loss of all starts in the arm that is measured."""
        at = np.zeros(1) if self.reverse else np.ones(1)
        each = [(steps, law.cumulants) for steps, law in self._starts]
        return math.sqrt(sum(steps * float(one.moments(at).variance[0]) for steps, one in each if one is not None))


class _Budget(NamedTuple):
    """The coins of one segment, and what the sum of their squares keeps to."""

    coins: Coins
    cells: Cells
    clip: Clip
    records: int
    steps: int
    nats: float
    squares: float


def _blocks(one: _Budget, log_room: float, parts: int, *, flipped: bool) -> Iterator[Block]:
    """The coins of one segment, bounded in each way that works."""
    if one.coins.largest == 0.0:
        yield fair()
        return
    rest = _REST * math.exp(log_room) / parts
    for block in (
        thinned(one.coins, one.records * one.steps, rest, flipped=flipped),
        renyi_hull(one.coins, one.squares, rest, flipped=flipped),
        _as_normal(one, rest),
    ):
        if block is not None:
            yield block


def _worth_trying(blocks: Iterable[Block]) -> list[Block]:
    """The narrowest first, without those that are much wider."""
    found = sorted(blocks, key=lambda block: block.variance)
    return [block for block in found if block.variance <= _MUCH_WIDER * found[0].variance]


def _as_normal(one: _Budget, missed: float) -> Block | None:
    """The block as a Gaussian that begins with the best of a few variances; None where coins are too large for it."""
    coins, cells, clip = one.coins, one.cells, one.clip
    low, high = cells.ends(clip)
    mean = float(cells.mass @ np.maximum(np.square(low), np.square(high)))
    variance = coins.variance * one.records * one.steps * mean
    if not 0.0 < variance < math.inf:
        return None
    largest = -math.log1p(-min(max(1.0, coins.odds) * coins.largest, 0.5))
    best: Block | None = None
    least = math.inf
    for share in _BEGINNINGS:
        begin, total = share * variance, (1.3 + share) * variance
        for _ in range(3):
            nats_missed = math.log(max(total / (math.sqrt(2.0 * math.pi * begin) * missed), 2.0))
            costs = Costs(coins, begin, largest + math.sqrt(2.0 * total * nats_missed))
            worst = float(np.max(costs.of(np.array([clip.low, clip.high]))))
            if not math.isfinite(worst):
                break
            most: Array = np.maximum(costs.of(low), costs.of(high))
            total = begin + cells.budget(most, worst, one.records, one.steps, one.nats)
            if costs.missed(total) <= missed:
                if total < least:
                    least, best = total, normal(costs, total - begin)
                break
    return best


def _log(share: float) -> float:
    return math.log(share) if share > 0.0 else -math.inf
