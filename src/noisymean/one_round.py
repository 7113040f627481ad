r"""All curves of one round at once, all T(M(D), M(D')) with |D| = N and |D'| = N + 1, in the paper's direction.

claimed          q G_{1/sigma} + (1-q) Id, what accountants report  Bu et al. 2020                               `noisy_sum`
guarantee        sound for every pair of datasets                   Theorems EASGM_HIGH, ASGM_HIGH, FEASGM          `proofs`
guarantee_tight  sound, and at least as good                        docs/theory.md, "Tighter"                       `proofs`
per_pair         sound for *given* gradients                        Eq. lower_bound_EASGM, Low_ASGM, _FEASGM     `per_pair`
ceiling          no transparent guarantee of this kind is better    Theorems upperbound_EASGM, _ASGM, _FEASGM       `ceilings`
ceiling_clt      the ceiling by a central limit theorem             Theorem upperbound_estimate               `central_limit`
leakage          achieved on an explicit pair of datasets           docs/theory.md, "Certified leakage"            `leakage`
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from noisymean.ceilings import ceiling, ceiling_clt
from noisymean.checks import whole
from noisymean.curves import Curves
from noisymean.errors import InvalidInput, Unproved, check_probability
from noisymean.leakage import leakage
from noisymean.mechanisms import Mechanism, need_mechanism
from noisymean.noisy_sum import claimed
from noisymean.proofs import BestOf, guarantee, other_proofs
from noisymean.verdict import check_order
from noisymean.words import Reason


def curve(mechanism: Mechanism, alpha: ArrayLike | None = None, *, points: int = 201) -> Curves:
    """Every curve of one round of `mechanism` at `alpha` (default: `points` values from 0 to 1).

    >>> import noisymean as nm
    >>> mechanism = nm.EASGM(dataset_size=59_999, dimension=1_485_217, sample_rate=0.005, noise_multiplier=10.0)
    >>> curves = nm.curve(mechanism, alpha=[0.05, 0.1])
    >>> bool((curves.guarantee <= curves.guarantee_tight).all() and (curves.guarantee_tight <= curves.leakage).all())
    True
    """
    need_mechanism(mechanism)
    if alpha is None:
        alpha = np.linspace(0.0, 1.0, whole("points", points, 2, 10**6))
    values = np.atleast_1d(np.asarray(check_probability("alpha", alpha), dtype=np.float64))
    if values.size == 0:
        raise InvalidInput("alpha", "[]", "at least one number from 0 to 1")
    attacks = leakage(mechanism)
    leaked, winner = attacks.best(values)
    unknown: Reason | None = None
    sound, tight = None, None
    limit, bound = ceiling_clt(mechanism), ceiling(mechanism)
    try:
        sound = guarantee(mechanism).lower(values)
        tight = np.maximum(sound, BestOf(other_proofs(mechanism)).lower(values, leaked))
    except Unproved as fault:
        unknown = fault.reason
    check_order(-leaked, None if tight is None else -tight, f"one round of {mechanism}, as curves")
    claim = claimed(mechanism)
    return Curves(
        mechanism=mechanism,
        alpha=values,
        claimed=claim(values),
        claimed_ends=(claim.lower(values), claim.upper(values)),
        guarantee=sound,
        guarantee_tight=tight,
        ceiling=None if bound is None else bound.upper(values),
        ceiling_clt=None if limit is None else limit(values),
        leakage=leaked,
        pairs=tuple(attacks.pairs[index].datasets for index in winner),
        clt=limit,
        unknown=unknown,
    )
