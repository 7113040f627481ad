"""The noisy sum of Poisson-sampled, clipped gradients: q G_{1/sigma} + (1-q) Id, Bu et al. 2020. What is claimed, and the truth
where dividing changes nothing.
"""

from __future__ import annotations

from noisymean.laws.closed import Gaussian
from noisymean.laws.subsampled import Subsampled
from noisymean.mechanisms import Mechanism, need_mechanism


def claimed(mechanism: Mechanism) -> Subsampled:
    """The SGM curve that implementations report, whatever they divide by, at the rate that their accountant is told."""
    need_mechanism(mechanism)
    return Subsampled(Gaussian(1.0 / mechanism.noise_multiplier), mechanism.told_rate().value)


def noisy_sum(mechanism: Mechanism) -> Subsampled:
    """The SGM curve at the rate and noise of D', which are real: the truth where the denominator stays."""
    mechanism.need_poisson()
    return Subsampled(Gaussian(1.0 / mechanism.noises[1]), mechanism.rate_with)
