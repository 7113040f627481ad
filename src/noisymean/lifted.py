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

from noisymean.compose.engine import Rounds
from noisymean.laws.coins import Block, Coins, Costs, fair, normal, renyi_hull, thinned
from noisymean.lift import Cells, Clip
from noisymean.numerics.logs import Array
from noisymean.planned import Plan, PlannedRounds
from noisymean.tradeoff import Side

# Shares of delta that the lattice, and clip and budget each, may have: any is valid, the best by a rough estimate is taken.
_SHARES = (0.1, 0.03, 0.01, 0.003, 0.001)
# Share for infinite losses of a block, and for what its Gaussian misses.
_REST = 1e-3
# A lattice term beyond this is hopeless.
_MOST_LATTICE = 60.0
# A block of coins so many times as wide as another is not looked at.
_MUCH_WIDER = 2.0
# With what share of the block's variance its Gaussian may begin.
_BEGINNINGS = (0.05, 0.15, 0.4, 1.0)
# How much farther out it is looked at than its variance of before asks for.
_FARTHER = 1.01


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
class LiftedRounds(PlannedRounds):
    """Upper bounds on delta(epsilon) of a run by the theorem."""

    @cached_property
    def _lattice(self) -> tuple[float, float]:
        """Sums over rounds of eps_r and of its square."""
        each = [(one.steps, lift.log_lattice) for one, lift in zip(self.moving, self._lifts, strict=True)]
        return sum(steps * eps for steps, eps in each), sum(steps * eps * eps for steps, eps in each)

    @property
    def possible(self) -> bool:
        """Whether there is a lift that is worth anything."""
        return all(lift.possible for lift in self._lifts) and math.isfinite(self._lattice[0])

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

    # --- plans: every one is valid ---------------------------------------------------------------------------------------

    def _planned(self, log_delta: float) -> Iterator[Plan]:
        if not self.possible:
            return
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
            yield Plan(rounds, shift, log_room + math.log1p(-spent), beside)

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
    variance = coins.variance * one.squares
    if not 0.0 < variance < math.inf:
        return None
    largest = -math.log1p(-min(max(1.0, coins.odds) * coins.largest, 0.5))
    best: Block | None = None
    least = math.inf
    for share in _BEGINNINGS:
        begin, total = share * variance, (1.0 + share) * variance
        for _ in range(3):
            nats_missed = math.log(max(total / (math.sqrt(2.0 * math.pi * begin) * missed), 2.0))
            # a little farther than that, for what the next budget is larger by
            costs = Costs(coins, begin, largest + _FARTHER * math.sqrt(2.0 * total * nats_missed))
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
