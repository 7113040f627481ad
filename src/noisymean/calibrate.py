r"""The noise that a target epsilon needs under the mechanism that really runs, on the safe side.

The guarantee falls as sigma grows, but for EASGM, FEASGM and Opacus' loader it does not fall to zero: the denominator changes
the scale of the noise whatever its size, so a target may be out of reach of any noise. That is said, with the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, final

from scipy.optimize import brentq

from noisymean.accountant import Question, account, guaranteed_one_way
from noisymean.accounts import Account
from noisymean.errors import InvalidInput, Undefined, check_number
from noisymean.mechanisms import Mechanism
from noisymean.outward import at_least, at_most
from noisymean.results import Lines, Result
from noisymean.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NOISE = 1e6
LEAST_NOISE = 1e-2
_TOLERANCE = 1e-4
_TRIES = 4


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
        """That of the account."""
        return self.account.plot()


def calibrate(
    kind: type[Mechanism],
    *,
    target_epsilon: float,
    delta: float,
    steps: int,
    **fields: Any,
) -> Calibration:
    """The least sigma, to 0.01 %, for which `steps` rounds are guaranteed (target_epsilon, delta); re-checked by `account`.

    >>> import noisymean as nm
    >>> found = nm.calibrate(nm.SGM, target_epsilon=2.0, delta=1e-5, steps=1000, sample_rate=0.01)
    >>> found.account.guarantee.epsilon <= 2.0
    True
    """
    check_number("target_epsilon", target_epsilon, above=0.0, most=1e6)

    def build(noise: float) -> Mechanism:
        return kind(noise_multiplier=noise, **fields)  # type: ignore[call-arg]

    # validates steps, delta and the other fields, and says what the most noise gives
    quietest = account(build(MOST_NOISE), steps=steps, delta=delta)
    floor = quietest.guarantee.epsilon
    if floor is None or floor > target_epsilon:
        return Calibration(None, target_epsilon, quietest, _out_of_reach(target_epsilon, quietest))

    @cache
    def epsilon(log2_noise: float, *, size: int | None, reverse: bool) -> float:
        mechanism = build(2.0**log2_noise).resized(size)
        return guaranteed_one_way(Run.of(mechanism, steps), Question(delta), reverse=reverse).value

    # the pair and the direction that are worst at the first noise nearly always are at the last; if not, the check finds out
    ways = [
        partial(epsilon, size=one.smaller, reverse=reverse) for one in quietest.neighbours for reverse in (False, True)
    ]
    for way in sorted(ways, key=lambda way: -way(0.0)):
        noise = 2.0 ** _crossing(way, target_epsilon)
        for _ in range(_TRIES):
            # the root is two-sided; the noise that is handed out has been checked itself
            noise *= 1.0 + _TOLERANCE / 4
            checked = account(build(noise), steps=steps, delta=delta)
            if checked.guarantee.epsilon is not None and checked.guarantee.epsilon <= target_epsilon:
                return Calibration(noise, target_epsilon, checked, "")
    raise Undefined("target_epsilon", target_epsilon, "kept in both directions by some noise, and none was found")


def _crossing(epsilon: Callable[[float], float], target: float) -> float:
    """log2 of the noise at which epsilon crosses the target; nearly a straight line in logarithms."""

    def miss(log2_noise: float) -> float:
        return math.log(max(epsilon(log2_noise), 1e-300) / target)

    return float(brentq(miss, *_bracket(epsilon, target), xtol=_TOLERANCE / 4))


def _bracket(epsilon: Callable[[float], float], target: float) -> tuple[float, float]:
    """log2 of noises on either side of the target."""
    high = 0.0
    while epsilon(high) > target:
        high += 1.0
        if 2.0**high > MOST_NOISE:
            raise InvalidInput("target_epsilon", target, "reachable with noise_multiplier <= 1e6")
    low = high - 1.0
    while epsilon(low) <= target:
        low, high = low - 1.0, low
        if 2.0**low < LEAST_NOISE:
            raise InvalidInput("target_epsilon", target, f"small enough to need noise_multiplier >= {LEAST_NOISE:g}")
    return low, high


def _out_of_reach(target: float, quietest: Account) -> str:
    if quietest.guarantee.epsilon is None:
        return f"epsilon={target:g} cannot be promised: {'; '.join(map(str, quietest.unproved))}"
    leaked = quietest.leakage.epsilon or 0.0
    proof = f"it leaks {at_least(leaked, '.4g')} with any noise" if leaked > target else "no proof of less is known"
    return (
        f"no noise reaches epsilon={target:g}: the denominator depends on the number of records and {proof}; "
        "divide by a public constant instead (then it is SGM)"
    )
