"""Whether the noise can be turned down, as designed records ask for, and what it does at a sigma of next to nothing.

noise of a millionth of C, or no more than a clipped record leaves room for   nothing to do
noise that goes with another power of sigma                                  other sigmas are asked for, at which it is as quiet
the same noise at every sigma                                                not sigma C
records that are not to be seen, whatever sigma is                           not a noisy sum: signs, Adam, what else
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.finding import Remark, Severity
from noisymean.probe.full import RECORDS, everyone
from noisymean.probe.records import NOISE, QUIET, UNTOUCHED, Axes, bare_gradients, deviation_of
from noisymean.probe.runs import designed
from noisymean.probe.through import Through
from noisymean.targets.protocol import Raised, Runnable

# the noise over what a clipped record shows
_LOUD = 1e-4
# the power of sigma that the noise goes with, where that is one
_ABOUT_ONE = 0.05
_LEAST_POWER = 0.1
# what changes from round to round, over all that is there
_OFFSET = 1e-3
_FAINT = 1e-12
_ROUNDED = (
    "what the noise is: there is some at sigma = 1, but none is left at a millionth of it, as if releases were rounded or"
    " cut off; probe what is rounded"
)
_UNSEEN = (
    "records cannot be told from the noise in what is released, whatever sigma is: it is not the noisy sum itself, but"
    " what an optimizer such as Adam, a sign or a scaling makes of it; probe what it is made of"
)


def quieted(subject: Runnable, seed: int) -> tuple[Runnable | None, list[Remark]]:
    """The subject, as quiet as it has to be, or None where it cannot be; and what there is to say."""
    if not subject.is_fast:
        return subject, []
    axes = Axes(RECORDS)
    try:
        found = [_shares(subject, axes, seed, sigma) for sigma in (NOISE, QUIET)]
        if found[0] is None and _is_rounded(subject, seed):
            return None, [Remark(Severity.UNKNOWN, _ROUNDED)]
        if None in found or max(one for one in found if one is not None) < _LOUD:
            return subject, []
        share, less = (float(one) for one in found if one is not None)
        if share < _LOUD:
            return subject, []
        power = math.log(share / less) / math.log(NOISE / QUIET) if less > 0.0 else 1.0
        if abs(power - 1.0) < _ABOUT_ONE:
            # what is faint is the record
            return subject, []
        if power < _LEAST_POWER:
            return None, [_of_floor(subject, axes, seed, share)]
    except Raised:
        # the rest of the probe says so
        return subject, []
    sigmas = {sigma: NOISE * (sigma / share) ** (1.0 / power) for sigma in (NOISE, QUIET)}
    words = f"at sigma = {NOISE:g} the noise is about {share / NOISE:.2g} times sigma C"
    quiet = Through(
        subject,
        lambda releases, _: releases,
        lambda run: replace(run, noise_multiplier=sigmas.get(run.noise_multiplier, run.noise_multiplier)),
    )
    return quiet, [Remark(Severity.FAULT, words)]


def _shares(subject: Runnable, axes: Axes, seed: int, sigma: float) -> float | None:
    """The noise over what a clipped record shows; None where either is nothing, or not finite."""
    releases = designed(subject, everyone(subject), axes.gradients(), seed, 3, noise=sigma)
    if not np.isfinite(releases).all():
        return None
    spare = releases[:, axes.count :]
    noise, changes = (float(deviation_of(one).max()) for one in (spare, np.diff(spare, axis=0)))
    if changes < _OFFSET * noise:
        # weights that are released have a place to begin at
        noise = changes
    shown = float(np.abs(releases[:, : axes.count]).max())
    return noise / shown if noise > 0.0 and shown > 0.0 else None


def _is_rounded(subject: Runnable, seed: int) -> bool:
    """Whether coordinates without gradients have noise at a sigma of one, where they have none at a millionth."""
    quiet, loud = (
        designed(subject, everyone(subject), bare_gradients(), seed, 3, noise=sigma)[:, UNTOUCHED]
        for sigma in (NOISE, 1.0)
    )
    return not np.diff(quiet, axis=0).any() and bool(np.isfinite(loud).all()) and bool(np.diff(loud, axis=0).any())


def _of_floor(subject: Runnable, axes: Axes, seed: int, share: float) -> Remark:
    """The same noise at every sigma, if the same seed shows the records once it is taken out; else something that is no sum."""
    rows = axes.gradients()
    loud, noise = (designed(subject, everyone(subject), scale * rows, seed, 3, noise=NOISE) for scale in (1.0, _FAINT))
    signal: Array = (loud - noise)[:, axes.count :]
    if np.abs(signal).max() > 1e-6 * np.abs(noise).max():
        return Remark(Severity.UNKNOWN, _UNSEEN)
    words = f"the noise does not follow sigma: at sigma = {NOISE:g} it is {share:.2g} of a clipped record"
    return Remark(Severity.FAULT, f"{words}; tell the noise that is built in, and leave the keyword out")
