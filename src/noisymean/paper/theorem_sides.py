r"""Both sides of the paper's theorems, evaluated: by different routes wherever there are two.

Closed forms, enumeration of outcomes, a search, explicit datasets. Each function takes a generator, for those that draw, and
yields its evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from noisymean.ceilings import ceiling, ceiling_clt
from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.subsampled import RevealedMixture
from noisymean.leakage import explicit_pairs, leakage
from noisymean.mechanisms import ASGM, EASGM, FEASGM
from noisymean.noisy_sum import claimed
from noisymean.numerics.logs import Array
from noisymean.per_pair import per_pair
from noisymean.proofs import guarantee, guarantee_tight
from noisymean.runs import Run
from noisymean.tradeoff import Side, TradeOff

ALPHA = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
STEPS = 200

Averaged = EASGM | ASGM | FEASGM


@final
@dataclass(frozen=True)
class Sides:
    """One evaluation: at `at` the left side and the right side."""

    setting: str
    at: float
    left: float
    right: float


def _along(setting: str, left: Array, right: Array, at: Array = ALPHA) -> Iterator[Sides]:
    """Both sides at each point where both are numbers."""
    for point, one, other in zip(at.tolist(), np.asarray(left).tolist(), np.asarray(right).tolist(), strict=True):
        if one == one and other == other:
            yield Sides(setting, point, one, other)


def mixtures(generator: np.random.Generator) -> Iterator[tuple[str, Array, list[tuple[Array, Array]]]]:
    """Weights and pairs of laws on six outcomes."""
    for number_of in (2, 3, 5):
        weights = generator.dirichlet(np.ones(number_of))
        pairs = [(generator.dirichlet(np.ones(6)), generator.dirichlet(np.ones(6))) for _ in range(number_of)]
        yield f"{number_of} random laws on 6 outcomes", weights, pairs


def _revealed(weights: Array, pairs: list[tuple[Array, Array]]) -> RevealedMixture:
    return RevealedMixture(tuple(weights.tolist()), tuple(FiniteOutcomes(p, q) for p, q in pairs))


def jensen(generator: np.random.Generator) -> Iterator[Sides]:
    """The component shown, against hidden."""
    for setting, weights, pairs in mixtures(generator):
        p, q = (sum(w * pair[side] for w, pair in zip(weights, pairs, strict=True)) for side in (0, 1))
        yield from _along(
            setting, _revealed(weights, pairs)(ALPHA), FiniteOutcomes(np.asarray(p), np.asarray(q))(ALPHA)
        )


def min_equal(generator: np.random.Generator) -> Iterator[Sides]:
    """One threshold for all components against a search over allocations of the level; curves in closed form."""
    for mu, nu, weight in ((0.2, 1.5, 0.3), (0.5, 2.0, 0.5), (1.0, 3.0, 0.8)):
        curves = (gaussian_pair(1, mu, log_scale=0.0), gaussian_pair(1, nu, log_scale=0.0))
        by_threshold = RevealedMixture((weight, 1.0 - weight), curves)(ALPHA)
        by_search = [_least(alpha, weight, mu, nu) for alpha in ALPHA.tolist()]
        yield from _along(f"G_{mu:g} and G_{nu:g}, weight {weight:g}", by_threshold, np.array(by_search))


def _least(alpha: float, weight: float, mu: float, nu: float) -> float:
    """min of w G_mu(a) + (1-w) G_nu(b) over w a + (1-w) b = alpha."""

    def value(a: float) -> float:
        b = (alpha - weight * a) / (1.0 - weight)
        return float(weight * ndtr(-ndtri(a) - mu) + (1.0 - weight) * ndtr(-ndtri(b) - nu))

    low, high = max(0.0, (alpha - (1.0 - weight)) / weight), min(1.0, alpha / weight)
    return float(minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).fun)


def order(generator: np.random.Generator) -> Iterator[Sides]:
    """With one component, against the same component seen less clearly."""
    for setting, weights, pairs in mixtures(generator):
        p, q = pairs[0]
        # seen through a channel that now and then forgets the outcome, a pair is told apart less well
        blurred = [((0.7 * p + 0.3 / 6.0), (0.7 * q + 0.3 / 6.0)), *pairs[1:]]
        yield from _along(setting, _revealed(weights, pairs)(ALPHA), _revealed(weights, blurred)(ALPHA))


def straight(generator: np.random.Generator) -> Iterator[Sides]:
    """The revealed mixture, against the weighted sum at equal levels."""
    for setting, weights, pairs in mixtures(generator):
        mean = sum(w * FiniteOutcomes(p, q)(ALPHA) for w, (p, q) in zip(weights, pairs, strict=True))
        yield from _along(setting, _revealed(weights, pairs)(ALPHA), np.asarray(mean))


def falls_with_shift(generator: np.random.Generator) -> Iterator[Sides]:
    """A mean further away, against a nearer one."""
    for scale in (0.5, 0.8, 0.99):
        for small, large in pairwise((0.0, 0.1, 0.5, 1.0, 3.0)):
            near, far = (gaussian_pair(1, mu, log_scale=float(np.log(scale)))(ALPHA) for mu in (small, large))
            yield from _along(f"scale {scale:g}, mean {large:g} against {small:g}", far, near)


def falls_with_scale(generator: np.random.Generator) -> Iterator[Sides]:
    """A smaller scale, against a larger one."""
    for narrow, wide in pairwise((0.1, 0.5, 0.8, 0.99, 1.0)):
        # in closed form: the ball of level alpha is the same for both
        radius = ndtri(0.5 + 0.5 * ALPHA)
        curves = (2.0 * ndtr(-radius / scale) for scale in (narrow, wide))
        yield from _along(f"scale {narrow:g} against {wide:g}", *curves)


def exponentially_fast(generator: np.random.Generator) -> Iterator[Sides]:
    """Stein: at a fixed level -log f falls by the divergence of P from Q with every factor."""
    for scale in (0.5, 0.8, 0.9):
        divergence = np.log(scale) + 0.5 / scale**2 - 0.5
        fewer = int(40.0 / divergence)
        logs = [np.log(gaussian_pair(count, 0.0, log_scale=float(np.log(scale)))(0.5)) for count in (fewer, 4 * fewer)]
        yield Sides(
            f"N(0,1) against N(0, {scale:g}^2)",
            float(fewer),
            float((logs[0] - logs[1]) / (3 * fewer)),
            float(divergence),
        )


def _mechanisms(*kinds: type[EASGM] | type[ASGM] | type[FEASGM]) -> Iterator[Averaged]:
    for kind in kinds:
        for size, rate in ((3, "0.5"), (5, "0.9")):
            for dimension in (2, 1000):
                for sigma in (1.0, 10.0):
                    yield kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


def _words(mechanism: Averaged) -> str:
    return (
        f"{mechanism.name.upper()} N = {mechanism.dataset_size:,}, n = {mechanism.dimension:,}, q = {float(mechanism.rate):g},"
        f" sigma = {mechanism.noise_multiplier:g}"
    )


def _moving(mechanisms: Iterator[Averaged]) -> Iterator[Averaged]:
    """Those whose denominator moves."""
    return (one for one in mechanisms if not isinstance(one, FEASGM) or one.floors[0] != one.floors[1])


def holds_on_explicit_pairs(
    *kinds: type[EASGM] | type[ASGM] | type[FEASGM],
) -> Callable[[np.random.Generator], Iterator[Sides]]:
    """The guarantee, against what is achieved on explicit datasets."""

    def sides(generator: np.random.Generator) -> Iterator[Sides]:
        for mechanism in _moving(_mechanisms(*kinds)):
            yield from _along(_words(mechanism), guarantee(mechanism).lower(ALPHA), leakage(mechanism).upper(ALPHA))

    return sides


def _gradients(mechanism: Averaged, generator: np.random.Generator) -> Array:
    """Clipped gradients in random directions, in units of C."""
    drawn = generator.normal(size=(mechanism.dataset_size + 1, mechanism.dimension))
    lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.asarray(drawn / lengths * generator.uniform(0.2, 1.0, size=(len(drawn), 1)))


def below_the_ceiling(
    *kinds: type[EASGM] | type[ASGM] | type[FEASGM],
) -> Callable[[np.random.Generator], Iterator[Sides]]:
    """The guarantee for random gradients, against the ceiling."""

    def sides(generator: np.random.Generator) -> Iterator[Sides]:
        for mechanism in _moving(_mechanisms(*kinds)):
            given, bound = per_pair(mechanism, _gradients(mechanism, generator)), ceiling(mechanism)
            assert bound is not None
            yield from _along(f"{_words(mechanism)}, random gradients", given(ALPHA), bound(ALPHA))

    return sides


def worst_case_below_pair(generator: np.random.Generator) -> Iterator[Sides]:
    """The worst case over gradients, against the guarantee for random ones."""
    for mechanism in _moving(_mechanisms(FEASGM)):
        given = per_pair(mechanism, _gradients(mechanism, generator))
        yield from _along(f"{_words(mechanism)}, random gradients", guarantee(mechanism)(ALPHA), given(ALPHA))


def still_floor(generator: np.random.Generator) -> Iterator[Sides]:
    """The guarantee where the floor stays, against the closed form of SGM."""
    for size, rate in ((140_198, "0.005"), (1000, "0.01"), (7, "0.5")):
        mechanism = FEASGM(dataset_size=size - size % 2, dimension=1000, sample_rate=rate, noise_multiplier=2.0)
        q = float(mechanism.rate)
        sum_curve = q * ndtr(-ndtri(ALPHA) - 0.5) + (1.0 - q) * (1.0 - ALPHA)
        yield from _along(_words(mechanism), guarantee(mechanism)(ALPHA), sum_curve)


def flat_rate(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling of EASGM at a small rate, against that at q = 1."""
    for size in (4, 999):
        low, high = (_ceiling(EASGM, size, 26_010, rate)(ALPHA) for rate in ("0.005", "1"))
        yield from _along(f"N = {size}, n = 26,010, q = 0.005 against 1", low, high)


def _ceiling(kind: type[EASGM] | type[ASGM], size: int, dimension: int, rate: str, sigma: float = 10.0) -> TradeOff:
    bound = ceiling(kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma))
    assert bound is not None
    return bound


def easgm_limit(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling of EASGM in very many dimensions, against 0."""
    for size in (1, 4, 999, 59_999):
        yield from _along(f"N = {size:,}, n = 10^12", _ceiling(EASGM, size, 10**12, "0.3")(ALPHA), np.zeros_like(ALPHA))


def asgm_limit(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling of ASGM in very many dimensions, against its limit."""
    for size, rate in ((1, "0.5"), (4, "0.7"), (999, "0.1"), (59_999, "0.005")):
        q = float(rate)
        limit = (1.0 - q + q * (1.0 - q) ** size) * (1.0 - ALPHA)
        yield from _along(f"N = {size:,}, q = {rate}, n = 10^12", _ceiling(ASGM, size, 10**12, rate)(ALPHA), limit)


def easgm_under_claim(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling of EASGM in very many dimensions, against the claim."""
    for size, rate in ((4, "0.05"), (999, "0.005"), (59_999, "0.005")):
        mechanism = EASGM(dataset_size=size, dimension=10**12, sample_rate=rate, noise_multiplier=10.0)
        bound = ceiling(mechanism)
        assert bound is not None
        yield from _along(_words(mechanism), bound(ALPHA), claimed(mechanism)(ALPHA))


def asgm_under_claim(generator: np.random.Generator) -> Iterator[Sides]:
    """The limit of ASGM's ceiling, against the claim, both in closed form."""
    for size, rate in ((4, "0.99"), (20, "0.9"), (999, "0.7")):
        q = float(rate)
        limit = (1.0 - q + q * (1.0 - q) ** size) * (1.0 - ALPHA)
        sum_curve = q * ndtr(-ndtri(ALPHA) - 0.1) + (1.0 - q) * (1.0 - ALPHA)
        yield from _along(f"N = {size}, q = {rate}, sigma = 10, n to infinity", limit, sum_curve)


def same_at_one(generator: np.random.Generator) -> Iterator[Sides]:
    """ASGM against EASGM at q = 1."""
    for size, dimension in ((2, 3), (4, 100), (999, 26_010)):
        easgm, asgm = (
            kind(dataset_size=size, dimension=dimension, sample_rate=1, noise_multiplier=10.0) for kind in (EASGM, ASGM)
        )
        yield from _along(f"{_words(easgm)}, ASGM against EASGM", guarantee(asgm)(ALPHA), guarantee(easgm)(ALPHA))


def tight_at_one(generator: np.random.Generator) -> Iterator[Sides]:
    """One batch: the mechanism on a pair is one Gaussian against another, whose curve needs no lemma."""
    for size, dimension in ((2, 3), (4, 100), (9, 1000)):
        mechanism = EASGM(dataset_size=size, dimension=dimension, sample_rate=1, noise_multiplier=2.0)
        given = _gradients(mechanism, generator)
        shift = float(np.linalg.norm(size * given[-1] - given[:-1].sum(axis=0))) / ((size + 1) * 2.0)
        truth = gaussian_pair(dimension, shift, log_scale=-float(np.log1p(1.0 / size)))
        yield from _along(f"{_words(mechanism)}, random gradients", per_pair(mechanism, given)(ALPHA), truth(ALPHA))


def _settings_of_the_estimate() -> Iterator[Averaged]:
    for kind, rate in ((EASGM, "0.005"), (ASGM, "0.7")):
        for size in (1, 4, 999, 59_999):
            for dimension in (1000, 26_010, 1_485_217):
                yield kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=10.0)


def estimate(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling, against its estimate where that is defined."""
    for mechanism in _settings_of_the_estimate():
        bound, limit = ceiling(mechanism), ceiling_clt(mechanism)
        assert bound is not None
        assert limit is not None
        yield from _along(_words(mechanism), bound(ALPHA), limit(ALPHA))


def range_of_the_estimate(generator: np.random.Generator) -> Iterator[Sides]:
    """gamma, against one half."""
    for mechanism in _settings_of_the_estimate():
        limit = ceiling_clt(mechanism)
        assert limit is not None
        yield Sides(_words(mechanism), float(mechanism.dimension), limit.gamma, 0.5)


def _ceilings(
    varied: tuple[float | str, ...], bound: Callable[[float | str], TradeOff], words: str, *, rising: bool
) -> Iterator[Sides]:
    """The ceiling at one value of what is varied against the next, which is said to be higher or lower."""
    for first, second in pairwise(varied):
        low, high = (first, second) if rising else (second, first)
        yield from _along(f"{words} {low} against {high}", bound(low)(ALPHA), bound(high)(ALPHA))


def falls_with_fewer_records(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling of EASGM at fewer records, against more."""
    for dimension in (2, 100, 26_010):
        yield from _ceilings(
            (1, 4, 30, 999, 59_999),
            lambda size, n=dimension: _ceiling(EASGM, int(size), n, "0.3"),  # type: ignore[misc]
            f"n = {dimension:,}, N =",
            rising=True,
        )


def falls_with_dimension(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling in more dimensions, against fewer."""
    for kind in (EASGM, ASGM):
        for size in (1, 4, 999):
            yield from _ceilings(
                (2, 10, 100, 26_010, 1_485_217),
                lambda n, k=kind, N=size: _ceiling(k, N, int(n), "0.3"),  # type: ignore[misc]
                f"{kind.name.upper()} N = {size}, n =",
                rising=False,
            )


def falls_with_rate(generator: np.random.Generator) -> Iterator[Sides]:
    """The ceiling of ASGM at a higher rate, against a lower one."""
    for size, dimension in ((1, 100), (4, 100), (999, 26_010)):
        yield from _ceilings(
            ("0.005", "0.1", "0.5", "0.9", "1"),
            lambda rate, N=size, n=dimension: _ceiling(ASGM, N, n, str(rate)),  # type: ignore[misc]
            f"N = {size}, n = {dimension:,}, q =",
            rising=False,
        )


def asgm_has_no_better(generator: np.random.Generator) -> Iterator[Sides]:
    """A guarantee that is sound for every pair, against the ceiling."""
    for dimension in (20, 1000, 26_010):
        mechanism = ASGM(dataset_size=4, dimension=dimension, sample_rate="0.7", noise_multiplier=2.0)
        bound = ceiling(mechanism)
        assert bound is not None
        yield from _along(_words(mechanism), guarantee_tight(mechanism).lower(ALPHA), bound(ALPHA))


def _runs() -> Iterator[tuple[Averaged, int]]:
    yield EASGM(dataset_size=4, dimension=30, sample_rate="0.5", noise_multiplier=10.0), 3
    yield EASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0), STEPS
    yield FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0), STEPS
    yield ASGM(dataset_size=3, dimension=30, sample_rate="0.5", noise_multiplier=10.0), 3


_EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0])


def _kept_private(curve: DeltaCurve, side: Side) -> Array:
    """1 - delta at a few epsilons."""
    return np.array([-np.expm1(min(curve.log_delta(float(e), side), 0.0)) for e in _EPSILONS])


def hidden_above_transparent(generator: np.random.Generator) -> Iterator[Sides]:
    """1 - delta with everything shown, against that on an explicit pair with nothing shown."""
    for mechanism, steps in _runs():
        shown = _kept_private(Run.of(mechanism, steps).transparent(), Side.ABOVE)
        for pair in explicit_pairs(mechanism)[:1]:
            hidden = _kept_private(Rounds(((steps, pair),)), Side.BELOW)
            yield from _along(f"{_words(mechanism)}, {steps} rounds, {pair.datasets}", shown, hidden, _EPSILONS)


def transparent_below_ceiling(generator: np.random.Generator) -> Iterator[Sides]:
    """1 - delta of the composed guarantee, against that of the composed ceiling."""
    for mechanism, steps in _runs():
        bound = Run.of(mechanism, steps).ceiling()
        assert bound is not None
        shown = _kept_private(Run.of(mechanism, steps).transparent(), Side.ABOVE)
        yield from _along(f"{_words(mechanism)}, {steps} rounds", shown, _kept_private(bound, Side.BELOW), _EPSILONS)


def estimate_rounds(*kinds: type[EASGM] | type[FEASGM]) -> Callable[[np.random.Generator], Iterator[Sides]]:
    """The composed ceiling, against its estimate."""

    def sides(generator: np.random.Generator) -> Iterator[Sides]:
        for kind in kinds:
            for size, dimension in ((999, 26_010), (140_199, 26_010), (140_199, 1_485_217)):
                mechanism = kind(dataset_size=size, dimension=dimension, sample_rate="0.005", noise_multiplier=10.0)
                exact, limit = Run.of(mechanism, STEPS).ceiling(), ceiling_clt(mechanism, STEPS)
                if exact is not None and limit is not None:
                    yield from _along(f"{_words(mechanism)}, {STEPS} rounds", exact.tradeoff()(ALPHA), limit(ALPHA))

    return sides
