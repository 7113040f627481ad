r"""dp_accounting: an event for the mean that is released, and an accountant that composes it with ordinary events.

    event = NormalizedGaussianDpEvent(noise_multiplier=1.0, sampling_probability=0.01, dataset_size=60_000,
                                      dimension=26_010, denominator=Denominator.FLOOR)
    NormalizedAccountant().compose(event, 100).get_epsilon(1e-5)

The event is one round of DP-SGD: a Poisson sample of `dataset_size` records, clipped gradients summed, noise of
`noise_multiplier` times the clipping bound added to each of `dimension` coordinates, the result divided. What the accountant says
is `guarantee`, an upper bound for one record added to that dataset or removed from it, whichever is worse; where none is known
it is inf, with a warning.
"""

from __future__ import annotations

import math
import warnings
from enum import Enum
from fractions import Fraction

from noisymean.accountant import Question, guaranteed, pairs_of
from noisymean.errors import InvalidInput, MissingDependency, Undefined
from noisymean.mechanisms import (
    ASGM,
    EASGM,
    FEASGM,
    LEAST_NOISE,
    MOST_NOISE,
    SGM,
    Adjacency,
    Mechanism,
    Segment,
    exact_rate,
    with_public_size,
)
from noisymean.runs import Run

try:
    import attr
    import dp_accounting as dp
except ModuleNotFoundError as fault:
    if fault.name not in ("dp_accounting", "attr"):
        raise
    raise MissingDependency("dp_accounting", "accounting") from None

_ADJACENCY = {
    dp.NeighboringRelation.ADD_OR_REMOVE_ONE: Adjacency.ADD_REMOVE,
    dp.NeighboringRelation.REPLACE_SPECIAL: Adjacency.ZERO_OUT,
}


class Denominator(Enum):
    """What the noisy sum is divided by."""

    CONSTANT = "a constant"
    EXPECTED = "N q"
    FLOOR = "floor(N q)"
    BATCH = "|B|"


_KINDS: dict[Denominator, type[SGM] | type[EASGM] | type[FEASGM] | type[ASGM]] = {
    Denominator.CONSTANT: SGM,
    Denominator.EXPECTED: EASGM,
    Denominator.FLOOR: FEASGM,
    Denominator.BATCH: ASGM,
}


@attr.s(frozen=True, slots=True, auto_attribs=True, kw_only=True)
class NormalizedGaussianDpEvent(dp.DpEvent):  # type: ignore[misc]
    """One round: the noisy sum of a Poisson sample, divided."""

    noise_multiplier: float
    sampling_probability: float | Fraction
    denominator: Denominator
    dataset_size: int
    dimension: int

    def mechanism(self) -> Mechanism:
        """The same in our words; InvalidInput if a number is out of its range."""
        sigma = min(self.noise_multiplier, MOST_NOISE)
        rate = exact_rate(self.sampling_probability)
        if not isinstance(self.denominator, Denominator):
            raise InvalidInput("denominator", self.denominator, "a noisymean Denominator")
        kind = _KINDS[self.denominator]
        if kind is SGM:
            return SGM(sample_rate=rate, noise_multiplier=sigma)
        return kind(dataset_size=self.dataset_size, dimension=self.dimension, sample_rate=rate, noise_multiplier=sigma)


class NormalizedAccountant(dp.PrivacyAccountant):  # type: ignore[misc]
    """Composes NormalizedGaussianDpEvent with Gaussian and Poisson-sampled Gaussian events, in any nesting of compositions.

    Under REPLACE_SPECIAL the number of records is public, so N q and floor(N q) are constants.
    """

    def __init__(self, neighboring_relation: dp.NeighboringRelation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        if neighboring_relation not in _ADJACENCY:
            raise InvalidInput("neighboring_relation", neighboring_relation, "ADD_OR_REMOVE_ONE or REPLACE_SPECIAL")
        super().__init__(neighboring_relation)
        self._non_private = False
        self._rounds: list[Segment] = []

    def _maybe_compose(
        self, event: dp.DpEvent, count: int, do_compose: bool
    ) -> dp.PrivacyAccountant.CompositionErrorDetails | None:
        match event:
            case dp.NoOpDpEvent():
                return None
            case dp.NonPrivateDpEvent():
                self._non_private |= do_compose
                return None
            case dp.SelfComposedDpEvent():
                return self._maybe_compose(event.event, event.count * count, do_compose)
            case dp.ComposedDpEvent():
                faults = (self._maybe_compose(one, count, do_compose) for one in event.events)
                return next((fault for fault in faults if fault is not None), None)
            case dp.GaussianDpEvent():
                one = _noisy_sum(event.noise_multiplier, 1.0)
            case dp.PoissonSampledDpEvent(event=dp.GaussianDpEvent(noise_multiplier=noise)):
                one = _noisy_sum(noise, event.sampling_probability)
            case NormalizedGaussianDpEvent():
                one = event
            case _:
                return _fault(event, "Unsupported event.")
        if one.noise_multiplier < 0.0 or not 0.0 <= one.sampling_probability <= 1.0:
            return _fault(event, "noise_multiplier must be >= 0 and sampling_probability in [0, 1].")
        if one.denominator is Denominator.CONSTANT and one.sampling_probability == 0.0:
            return None
        if one.noise_multiplier < LEAST_NOISE:
            self._non_private |= do_compose and count > 0
            return None
        try:
            mechanism = with_public_size(one.mechanism(), _ADJACENCY[self.neighboring_relation])
        except InvalidInput as reason:
            return _fault(event, str(reason))
        if do_compose and count:
            self._rounds.append(Segment(mechanism, count))
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """The epsilon that is guaranteed for all that was composed; inf where none is known."""
        if self._non_private:
            return math.inf if target_delta < 1.0 else 0.0
        if target_delta >= 1.0:
            return 0.0
        if self._rounds and target_delta <= 0.0:
            return math.inf
        return self._guaranteed(math.inf, delta=target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """The delta that is guaranteed for all that was composed; 1 where none is known."""
        return 1.0 if self._non_private else self._guaranteed(1.0, epsilon=target_epsilon)

    def _guaranteed(self, unknown: float, **asked: float) -> float:
        """The worse of the pairs of neighbours that the dataset belongs to; `unknown` where nothing is proved."""
        if not self._rounds:
            return 0.0
        composed, question = Run(tuple(self._rounds)).merged(), Question(**asked)
        both = self.neighboring_relation is dp.NeighboringRelation.ADD_OR_REMOVE_ONE
        try:
            return max(guaranteed(run, question).value for run in (pairs_of(composed).values() if both else [composed]))
        except Undefined as reason:
            warnings.warn(f"no guarantee is known: {reason}", stacklevel=3)
            return unknown


def _noisy_sum(noise: float, rate: float) -> NormalizedGaussianDpEvent:
    """An ordinary event: no number of records and no dimension matter to it."""
    return NormalizedGaussianDpEvent(
        noise_multiplier=noise, sampling_probability=rate, denominator=Denominator.CONSTANT, dataset_size=0, dimension=1
    )


def _fault(event: dp.DpEvent, message: str) -> dp.PrivacyAccountant.CompositionErrorDetails:
    return dp.PrivacyAccountant.CompositionErrorDetails(invalid_event=event, error_message=message)


def event_of(mechanism: SGM | EASGM | FEASGM | ASGM) -> NormalizedGaussianDpEvent:
    """One round of `mechanism` as an event.

    >>> event_of(SGM(sample_rate=0.01, noise_multiplier=1.0)).denominator
    <Denominator.CONSTANT: 'a constant'>
    """
    return NormalizedGaussianDpEvent(
        noise_multiplier=mechanism.noise_multiplier,
        sampling_probability=mechanism.rate,
        denominator=next(one for one, kind in _KINDS.items() if isinstance(mechanism, kind)),
        dataset_size=mechanism.dataset_size or 0,
        dimension=mechanism.dimension or 1,
    )
