"""Theorems on one round of EASGM, ASGM and FEASGM: Sections 3.2 to 3.6 and 5.1 of the paper, and Appendix A.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from noisymean.ceilings import ceiling, ceiling_clt
from noisymean.central_limit import CentralLimit
from noisymean.laws.gaussian import gaussian_pair
from noisymean.leakage import leakage
from noisymean.mechanisms import ASGM, EASGM, FEASGM
from noisymean.noisy_sum import claimed
from noisymean.numerics.logs import Array
from noisymean.paper.theorems.theorem import ALPHA, EQUAL, Evaluation, along, lemma, passage, theorem
from noisymean.per_pair import per_pair
from noisymean.proofs import guarantee, guarantee_tight

MANY = 10**12
Averaged = EASGM | ASGM | FEASGM
Kind = type[EASGM] | type[ASGM] | type[FEASGM]
_SIDES = "Left: the guarantee. Right: what an attacker achieves on explicit datasets."


def made(kind: Kind, size: int, dimension: int, rate: str, sigma: float = 10.0) -> Averaged:
    """A mechanism by its numbers."""
    return kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


def moving(kind: Kind) -> Iterator[Averaged]:
    """Small mechanisms of a kind, those whose denominator stays left out: they are SGM."""
    for (size, rate), dimension, sigma in product(((3, "0.5"), (5, "0.9")), (2, 1000), (1.0, 10.0)):
        mechanism = made(kind, size, dimension, rate, sigma)
        if not mechanism.is_sum:
            yield mechanism


def words(mechanism: Averaged) -> str:
    """`EASGM N = 3, n = 2, q = 0.5, sigma = 1`."""
    return f"{mechanism.name.upper()} {mechanism.numbers(greek=False)}"


def ceiling_at_alpha(mechanism: Averaged) -> Array:
    """The paper's upper bound on the guarantee."""
    bound = ceiling(mechanism)
    assert bound is not None
    return bound(ALPHA)


def sum_at_alpha(rate: float, sigma: float) -> Array:
    """The claim, in closed form: the noisy sum of a Poisson sample."""
    return np.asarray(rate * ndtr(-ndtri(ALPHA) - 1.0 / sigma) + (1.0 - rate) * (1.0 - ALPHA))


def limit_of_asgm(size: int, rate: float) -> Array:
    """What the ceiling of ASGM tends to as n grows: the chance that the batch does not tell, times the identity."""
    return np.asarray((1.0 - rate + rate * (1.0 - rate) ** size) * (1.0 - ALPHA))


def random_gradients(mechanism: Averaged, generator: np.random.Generator) -> Array:
    """Clipped gradients of D' in random directions, in units of C; the last is the new record's."""
    drawn = generator.normal(size=(mechanism.dataset_size + 1, mechanism.dimension))
    lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.asarray(drawn / lengths * generator.uniform(0.2, 1.0, size=(len(drawn), 1)))


# --- Sections 3.2 to 3.4: guarantees and their ceilings ---------------------------------------------------------------


def _holds_on_explicit_pairs(kind: Kind, generator: np.random.Generator) -> Iterator[Evaluation]:
    """The guarantee, against what is achieved on explicit datasets."""
    for mechanism in moving(kind):
        yield from along(words(mechanism), guarantee(mechanism).lower(ALPHA), leakage(mechanism).upper(ALPHA))


easgm_guarantee = theorem(
    "EASGM_HIGH",
    "Section 3.2",
    "A guarantee of EASGM for every pair of datasets.",
    remark=_SIDES,
)(partial(_holds_on_explicit_pairs, EASGM))
asgm_guarantee = theorem(
    "ASGM_HIGH",
    "Section 3.3",
    "A guarantee of ASGM for every pair of datasets.",
    remark=_SIDES,
)(partial(_holds_on_explicit_pairs, ASGM))


def _below_the_ceiling(kind: Kind, generator: np.random.Generator) -> Iterator[Evaluation]:
    """The guarantee for random gradients, against the ceiling."""
    for mechanism in moving(kind):
        given = per_pair(mechanism, random_gradients(mechanism, generator))
        yield from along(f"{words(mechanism)}, random gradients", given(ALPHA), ceiling_at_alpha(mechanism))


easgm_ceiling = theorem(
    "upperbound_EASGM",
    "Section 3.4.1",
    "The per-pair guarantee of EASGM is at most the curve of the noise's scale in n - 1 dimensions.",
)(partial(_below_the_ceiling, EASGM))


@theorem("EASGM_flaws", "Section 3.4.1", "As n grows that bound tends to 0 at every level.", EQUAL)
def easgm_limit(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling of EASGM in very many dimensions, against 0."""
    for size in (1, 4, 999, 59_999):
        bound = ceiling_at_alpha(made(EASGM, size, MANY, "0.3"))
        yield from along(f"N = {size:,}, n = 10^12", bound, np.zeros_like(ALPHA))


@passage("EASGM below SGM", "Section 3.4.1", "For n large enough the bound of EASGM is below the claim at every level.")
def easgm_under_claim(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling of EASGM in very many dimensions, against the claim."""
    for size, rate in ((4, "0.05"), (999, "0.005"), (59_999, "0.005")):
        mechanism = made(EASGM, size, MANY, rate)
        yield from along(words(mechanism), ceiling_at_alpha(mechanism), claimed(mechanism)(ALPHA))


@passage("tight at q = 1", "Section 3.4.1", "At q = 1 the per-pair guarantee is exact.", EQUAL)
def tight_at_one(generator: np.random.Generator) -> Iterator[Evaluation]:
    """One batch: the mechanism on a pair is one Gaussian against another, whose curve needs no lemma."""
    for size, dimension in ((2, 3), (4, 100), (9, 1000)):
        mechanism = made(EASGM, size, dimension, "1", 2.0)
        given = random_gradients(mechanism, generator)
        shift = float(np.linalg.norm(size * given[-1] - given[:-1].sum(axis=0))) / ((size + 1) * 2.0)
        truth = gaussian_pair(dimension, shift, log_scale=-float(np.log1p(1.0 / size)))
        yield from along(f"{words(mechanism)}, random gradients", per_pair(mechanism, given)(ALPHA), truth(ALPHA))


asgm_ceiling = theorem(
    "upperbound_ASGM",
    "Section 3.4.2",
    "The per-pair guarantee of ASGM is at most that curve mixed with the identity.",
)(partial(_below_the_ceiling, ASGM))


@theorem("ASGM_flaws", "Section 3.4.2", "As n grows that bound tends to (1 - q + q (1-q)^N) times the identity.", EQUAL)
def asgm_limit(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling of ASGM in very many dimensions, against its limit."""
    for size, rate in ((1, "0.5"), (4, "0.7"), (999, "0.1"), (59_999, "0.005")):
        bound = ceiling_at_alpha(made(ASGM, size, MANY, rate))
        yield from along(f"N = {size:,}, q = {rate}, n = 10^12", bound, limit_of_asgm(size, float(rate)))


@passage(
    "ASGM below SGM",
    "Section 3.4.2",
    "For N large and q near 1 the limit of ASGM's bound is below the claim at every level.",
)
def asgm_under_claim(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The limit of ASGM's ceiling, against the claim, both in closed form."""
    for size, rate in ((4, 0.99), (20, 0.9), (999, 0.7)):
        setting = f"N = {size}, q = {rate}, sigma = 10, n to infinity"
        yield from along(setting, limit_of_asgm(size, rate), sum_at_alpha(rate, 10.0))


@passage("the same at q = 1", "Section 3.4.2", "At q = 1 ASGM and EASGM have the same guarantee.", EQUAL)
def same_at_one(generator: np.random.Generator) -> Iterator[Evaluation]:
    """ASGM against EASGM at q = 1."""
    for size, dimension in ((2, 3), (4, 100), (999, 26_010)):
        easgm, asgm = (made(kind, size, dimension, "1") for kind in (EASGM, ASGM))
        yield from along(f"{words(easgm)}, ASGM against EASGM", guarantee(asgm)(ALPHA), guarantee(easgm)(ALPHA))


@passage(
    "ASGM and the dimension",
    "Abstract, Section 1, Section 3.1",
    "The guarantee of ASGM weakens as the dimension grows, below the bound of Theorem upperbound_ASGM.",
    otherwise="The ceiling bounds guarantees that reveal the batch. Revealing its size only is sound as well, does not depend on"
    " n, and lies above the ceiling (docs/theory.md, ASGM: reveal the size): what the dimension tells about an ASGM is limited.",
)
def asgm_has_no_better(generator: np.random.Generator) -> Iterator[Evaluation]:
    """A guarantee that is sound for every pair, against the ceiling."""
    for dimension in (20, 1000, 26_010):
        mechanism = made(ASGM, 4, dimension, "0.7", 2.0)
        yield from along(words(mechanism), guarantee_tight(mechanism).lower(ALPHA), ceiling_at_alpha(mechanism))


# --- Section 3.5: the estimate by a central limit theorem -------------------------------------------------------------


def _estimates() -> Iterator[tuple[Averaged, CentralLimit]]:
    rates: dict[Kind, str] = {EASGM: "0.005", ASGM: "0.7"}
    for kind, size, dimension in product(rates, (1, 4, 999, 59_999), (1000, 26_010, 1_485_217)):
        mechanism = made(kind, size, dimension, rates[kind])
        estimate = ceiling_clt(mechanism)
        assert estimate is not None
        yield mechanism, estimate


@passage(
    "estimation, its range",
    "Section 3.5, Theorem estimation",
    "The central limit estimate needs gamma < 1/2 and holds on [gamma, 1 - gamma].",
    remark="Left: gamma in the settings of Figure 5 and at n = 1,000.",
)
def range_of_the_estimate(generator: np.random.Generator) -> Iterator[Evaluation]:
    """gamma, against one half; at the dimension."""
    for mechanism, estimate in _estimates():
        yield Evaluation(words(mechanism), float(mechanism.dimension), estimate.gamma, 0.5)


@theorem("upperbound_estimate", "Section 3.5", "The estimate bounds the ceilings of EASGM and ASGM from above.")
def estimate_above_ceiling(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling, against its estimate where that is defined."""
    for mechanism, estimate in _estimates():
        yield from along(words(mechanism), ceiling_at_alpha(mechanism), estimate(ALPHA))


# --- Section 3.6: what the ceilings depend on -------------------------------------------------------------------------


def _one_against_the_next(setting: str, rising: Mapping[Any, Averaged]) -> Iterator[Evaluation]:
    """The ceiling at one value of what is varied against that at the next, which is said to be higher."""
    for (low, first), (high, second) in pairwise(rising.items()):
        yield from along(f"{setting} {low} against {high}", ceiling_at_alpha(first), ceiling_at_alpha(second))


@lemma("number_of_data", "Section 3.6", "The bound of EASGM falls as N falls.")
def falls_with_fewer_records(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling of EASGM at fewer records, against more."""
    for n in (2, 100, 26_010):
        by_size = {size: made(EASGM, size, n, "0.3") for size in (1, 4, 30, 999, 59_999)}
        yield from _one_against_the_next(f"n = {n:,}, N =", by_size)


@lemma("dimension", "Section 3.6", "The bounds of EASGM and ASGM fall as n grows.")
def falls_with_dimension(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling in more dimensions, against fewer."""
    for kind in (EASGM, ASGM):
        for size in (1, 4, 999):
            by_dimension = {n: made(kind, size, n, "0.3") for n in (1_485_217, 26_010, 100, 10, 2)}
            yield from _one_against_the_next(f"{kind.name.upper()} N = {size}, n =", by_dimension)


@lemma("sample_ratio", "Section 3.6", "The bound of ASGM falls as q grows.")
def falls_with_rate(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling of ASGM at a higher rate, against a lower one."""
    for size, n in ((1, 100), (4, 100), (999, 26_010)):
        by_rate = {rate: made(ASGM, size, n, rate) for rate in ("1", "0.9", "0.5", "0.1", "0.005")}
        yield from _one_against_the_next(f"N = {size}, n = {n:,}, q =", by_rate)


@passage("rate of EASGM", "Section 5.1", "The bound of EASGM does not depend on q.", EQUAL)
def rate_of_easgm(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The ceiling of EASGM at a small rate, against that at q = 1."""
    for size in (4, 999):
        low, high = (ceiling_at_alpha(made(EASGM, size, 26_010, rate)) for rate in ("0.005", "1"))
        yield from along(f"N = {size}, n = 26,010, q = 0.005 against 1", low, high)


# --- Appendix A.1: the floor ------------------------------------------------------------------------------------------


@theorem(
    "per_pair_FEASGM",
    "Appendix A.1",
    "FEASGM's guarantee for given gradients is at least the worst case over gradients.",
)
def worst_case_below_pair(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The worst case over gradients, against the guarantee for random ones."""
    for mechanism in moving(FEASGM):
        given = per_pair(mechanism, random_gradients(mechanism, generator))
        yield from along(f"{words(mechanism)}, random gradients", guarantee(mechanism)(ALPHA), given(ALPHA))


@passage(
    "FEASGM, equal floors",
    "Appendix A.1, Theorem guarantee_of_FEASGM",
    "Where the floor does not move FEASGM is SGM.",
    EQUAL,
)
def equal_floors(generator: np.random.Generator) -> Iterator[Evaluation]:
    """The guarantee where the floor stays, against the closed form of SGM."""
    for size, rate in ((140_198, "0.005"), (1000, "0.01"), (6, "0.5")):
        mechanism = made(FEASGM, size, 1000, rate, 2.0)
        yield from along(words(mechanism), guarantee(mechanism)(ALPHA), sum_at_alpha(mechanism.q, 2.0))


feasgm_guarantee = theorem(
    "guarantee_of_FEASGM",
    "Appendix A.1",
    "Where it moves, the guarantee of EASGM with K for N holds for every pair.",
)(partial(_holds_on_explicit_pairs, FEASGM))
feasgm_ceiling = theorem(
    "upperbound_FEASGM",
    "Appendix A.1",
    "The per-pair guarantee of FEASGM is at most the curve of the scale K/(K+1) in n - 1 dimensions.",
)(partial(_below_the_ceiling, FEASGM))
