r"""The noise that a target epsilon needs under the mechanism that really runs, on the safe side.

The guarantee falls as sigma grows, but for EASGM, FEASGM and Opacus' loader it does not fall to zero: the denominator changes
the scale of the noise whatever its size, so a target may be out of reach of any noise. That is said, with the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, is_dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any, final

from noisymean.accountant import Question, account, guaranteed_one_way, pairs_of
from noisymean.accounts import Account, Pair
from noisymean.checks import member, real
from noisymean.errors import InvalidInput, Undefined
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.outward import at_least, at_most
from noisymean.results import Lines, Result
from noisymean.runs import Run
from noisymean.tradeoff import Side

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NOISE = 1e6
LEAST_NOISE = 1e-2
_TOLERANCE = 1e-4
_TRIES = 4
_MOST_STEPS = 60
# log2 of a noise below which sums over rounds take longer.
_SCARCE = -1.0


@final
@dataclass(frozen=True)
class Calibration(Result):
    """The least noise found whose guarantee is within the target; None with the reason when no noise reaches it."""

    noise_multiplier: float | None
    target_epsilon: float
    account: Account
    reason: str

    @property
    def reachable(self) -> bool:
        """Whether some noise reaches the target."""
        return self.noise_multiplier is not None

    def to_dict(self) -> dict[str, object]:
        """Plain data, as `calibrate --json` prints it."""
        account = self.account
        return {
            "mechanism": account.mechanism.name,
            "target_epsilon": self.target_epsilon,
            "noise_multiplier": self.noise_multiplier,
            "reachable": self.reachable,
            "reason": self.reason,
            "steps": account.steps,
            "delta": account.claimed.delta,
            "claimed": {"epsilon": account.claimed.epsilon},
            "leakage": account.to_dict()["leakage"],
            "guarantee": {"epsilon": account.guarantee.epsilon},
            "sampling": account.sampling.value,
            "adjacency": account.adjacency.value,
        }

    def columns(self) -> Mapping[str, Sequence[object]]:
        """The noise beside the three numbers of its account: one row."""
        account = self.account
        three = {name: [getattr(account, name).epsilon] for name in ("claimed", "leakage", "guarantee")}
        return {"noise_multiplier": [self.noise_multiplier], "target_epsilon": [self.target_epsilon], **three}

    def lines(self) -> Lines:
        """The noise, and the account of the run with it."""
        shown = self.account.lines()
        found = self.reason if self.noise_multiplier is None else f"noise multiplier {at_most(self.noise_multiplier)}"
        return replace(shown, heading=f"{found[0].upper()}{found[1:]}\n{shown.heading}")

    def plot(self) -> Figure:
        """The figure of the account at the noise that was found."""
        return self.account.plot()


def _check_fields(kind: type[Mechanism], given: Mapping[str, object]) -> None:
    """What a mechanism of that kind is made with, but for its noise."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism) and is_dataclass(kind)):
        raise InvalidInput("kind", kind, "a class of mechanisms", "e.g. noisymean.SGM")
    known = {one.name: one for one in dataclass_fields(kind) if one.name != "noise_multiplier"}
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(name, value, f"left out: {kind.__name__} is made with {', '.join(known)}")
    for name, one in known.items():
        if name not in given and one.default is MISSING:
            raise InvalidInput(name, None, f"given, for {kind.__name__}")


def calibrate(
    kind: type[Mechanism],
    *,
    target_epsilon: float,
    delta: float,
    steps: int,
    adjacency: Adjacency | str | None = None,
    **fields: Any,
) -> Calibration:
    """The least sigma, to 0.01 %, for which `steps` rounds are guaranteed (target_epsilon, delta); re-checked by `account`.

    >>> import noisymean as nm
    >>> found = nm.calibrate(nm.SGM, target_epsilon=2.0, delta=1e-5, steps=1000, sample_rate=0.01)
    >>> found.account.guarantee.epsilon <= 2.0
    True
    """
    target_epsilon = real("target_epsilon", target_epsilon, above=0.0, most=1e6)
    _check_fields(kind, fields)

    def build(noise: float) -> Mechanism:
        return kind(noise_multiplier=noise, **fields)  # type: ignore[call-arg]

    question = Question.of(delta, None)
    most_noise = Run.of(build(MOST_NOISE), steps)
    neighbours = most_noise.adjacency if adjacency is None else member("adjacency", adjacency, Adjacency)
    both = most_noise.size_moves and neighbours is Adjacency.ADD_REMOVE
    pairs = pairs_of(most_noise) if both else {Pair.LARGER: most_noise}
    ways = [(one.dataset_size, reverse) for one in pairs.values() for reverse in (False, True)]
    # neighbours of one size whose batches are drawn by Poisson sampling have proofs of their own, in `account`
    accounted = most_noise.is_poisson and neighbours is not Adjacency.ADD_REMOVE

    def guaranteed(noise: float, way: tuple[int | None, bool], enough: float = -math.inf) -> float:
        size, reverse = way
        if accounted:
            sound = account(build(noise), steps=steps, delta=delta, adjacency=neighbours).guarantee.epsilon
            return math.inf if sound is None else sound
        run = Run.of(build(noise).resized(size), steps)
        return guaranteed_one_way(run, question, reverse=reverse, enough=enough, adjacency=neighbours).value

    try:
        # of the most noise nothing has to be known but that it is enough
        reachable = all(guaranteed(MOST_NOISE, way, enough=target_epsilon) <= target_epsilon for way in ways)
    except Undefined:
        reachable = False
    if not reachable:
        quietest = account(build(MOST_NOISE), steps=steps, delta=delta, adjacency=neighbours)
        floor = quietest.guarantee.epsilon
        if floor is None or floor > target_epsilon:
            return Calibration(None, target_epsilon, quietest, _out_of_reach(target_epsilon, quietest))

    def claimed(log2_noise: float) -> float:
        return question.ask(Run.of(build(2.0**log2_noise), steps).merged().claimed(), Side.ABOVE)

    # dividing by what moves only leaks more than the noisy sum, whose search costs next to nothing unless noise is scarce
    begin = _SCARCE if claimed(_SCARCE) <= target_epsilon else _crossing(claimed, target_epsilon, 0.0)
    # the pair and the direction that are worst at the first noise nearly always are at the last; if not, the check finds out
    worst, most = ways[0], -math.inf
    for way in ways:
        if (found := guaranteed(2.0**begin, way, enough=most)) > most:
            worst, most = way, found
    for _ in range(_TRIES):
        begin = _crossing(lambda at, way=worst: guaranteed(2.0**at, way), target_epsilon, begin)  # type: ignore[misc]
        over = [way for way in ways if way != worst and guaranteed(2.0**begin, way, target_epsilon) > target_epsilon]
        if over:
            worst = over[0]
            continue
        # the noise that is handed out has been checked itself
        checked = account(build(2.0**begin), steps=steps, delta=delta, adjacency=neighbours)
        if checked.guarantee.epsilon is not None and checked.guarantee.epsilon <= target_epsilon:
            return Calibration(2.0**begin, target_epsilon, checked, "")
        begin += _TOLERANCE / 4
    raise Undefined("target_epsilon", target_epsilon, "kept in both directions by some noise, and none was found")


def _crossing(epsilon: Callable[[float], float], target: float, begin: float) -> float:
    """log2 of a noise at which epsilon is at most the target and hardly less; nearly a straight line in logarithms."""

    def miss(log2_noise: float) -> float:
        return math.log(max(epsilon(log2_noise), 1e-300) / target)

    low, more, high, less = _bracket(miss, target, begin)
    for count in range(_MOST_STEPS):
        slope = (more - less) / (high - low)
        if high - low <= _TOLERANCE or -less <= 0.5 * _TOLERANCE * slope:
            break
        # beyond where the line crosses, so that the next point is on the safe side and nearly as good
        middle = min(low + more / slope + 0.2 * _TOLERANCE, high - 0.2 * _TOLERANCE)
        if count % 3 == 2 or not low < middle < high:
            middle = 0.5 * (low + high)
        found = miss(middle)
        low, more, high, less = (middle, found, high, less) if found > 0.0 else (low, more, middle, found)
    return high


def _bracket(miss: Callable[[float], float], target: float, begin: float) -> tuple[float, float, float, float]:
    """log2 of noises on either side of the target, each with its miss: the first too little noise, the second enough."""
    at, found, step = begin, miss(begin), 0.0
    while True:
        # about as far as epsilon is off, if it falls with the noise; then further and further
        step = max(2.0 * step, min(max(1.1 * abs(found) / math.log(2.0), 4.0 * _TOLERANCE), 1.0))
        further = at + step if found > 0.0 else at - step
        if 2.0**further > MOST_NOISE:
            raise InvalidInput("target_epsilon", target, "reachable with noise_multiplier <= 1e6")
        if 2.0**further < LEAST_NOISE:
            raise InvalidInput("target_epsilon", target, f"small enough to need noise_multiplier >= {LEAST_NOISE:g}")
        there = miss(further)
        if (there > 0.0) is not (found > 0.0):
            return (at, found, further, there) if found > 0.0 else (further, there, at, found)
        at, found = further, there


def _out_of_reach(target: float, quietest: Account) -> str:
    if quietest.guarantee.epsilon is None:
        return f"epsilon={target:g} cannot be promised: {'; '.join(map(str, quietest.unproved))}"
    leaked = quietest.leakage.epsilon or 0.0
    proof = f"it leaks {at_least(leaked, '.4g')} with any noise" if leaked > target else "no proof of less is known"
    return (
        f"no noise reaches epsilon={target:g}: the denominator depends on the number of records and {proof}; "
        "divide by a public constant instead (then it is SGM)"
    )
