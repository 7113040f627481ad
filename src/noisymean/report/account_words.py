"""An account in words: the same for a terminal, the page of a report and the page with sliders.

Somebody typed every statement about the run and nobody has looked at a program. Every number is for one way of drawing batches
and for one kind of neighbours: a sentence that says *holds* says so too.
"""

from __future__ import annotations

from collections.abc import Callable

from noisymean.accountant import alternatives
from noisymean.accounts import Account
from noisymean.grounds import About, Ground, Known
from noisymean.mechanisms import Adjacency, Sampling
from noisymean.outward import Rounding, at_least, at_most
from noisymean.words import BEYOND_DOUBLES, MEANINGS, NO_UPPER_BOUND, NONE_KNOWN
from noisymean.written import plain

# The side to which each of the three numbers is rounded, in the order in which they are shown.
ROUNDED: dict[str, Rounding] = {"claimed": at_most, "leakage": at_least, "guarantee": at_most}


def number(answer: Account, which: str, spec: str = ".6g", written: Callable[[str], str] = plain) -> str:
    """One of the three numbers, rounded to its own side; only a guarantee can be unknown, the others are too large to be held."""
    value = answer.value(getattr(answer, which))
    if value is None:
        return NONE_KNOWN if which == "guarantee" else BEYOND_DOUBLES
    return written(ROUNDED[which](value, spec))


def meanings(answer: Account) -> dict[str, str]:
    """What each of the three numbers is, in a line."""
    if answer.value(answer.guarantee) is None:
        return {**MEANINGS, "guarantee": NO_UPPER_BOUND}
    any_pair = not answer.mechanism.knows_size and answer.adjacency is Adjacency.ADD_REMOVE
    for_any = "pair of neighbours" if any_pair else f"record {answer.change}"
    return {**MEANINGS, "guarantee": f"{MEANINGS['guarantee']}, for any {for_any}"}


def why_no_guarantee(answer: Account) -> str | None:
    """The reasons that the accountant gives; None where it gives none."""
    return "; ".join(map(str, answer.unproved)) or None


def spoken(answer: Account) -> str:
    """The verdict in a word; *holds* with what it rests on."""
    return f"holds, {answer.condition}" if answer.verdict == "holds" else answer.verdict


def lost_and_claimed(answer: Account) -> str:
    """Why a claim is violated."""
    symbol = "epsilon" if answer.asked_delta else "delta"
    return f"at least {symbol} = {number(answer, 'leakage')} is lost where {number(answer, 'claimed')} is claimed"


def broken_elsewhere(asked: str, verdict: str) -> str:
    """Beside a curve below the claimed one, where the promise is not known to be broken at what was asked."""
    kept = "is kept" if verdict == "holds" else "is not known to be broken"
    return (
        f"At {asked}, the promise {kept}. It is not kept as a whole: where the curve of the leakage lies below the"
        " claimed one, an attacker does better than the noisy sum would let anyone do."
    )


def remedy(answer: Account) -> str:
    """What a violated or unknown promise needs: a constant denominator, and batches drawn as accountants assume, or allocated.

    Beside each what the same noise would cost then. A rate or noise that follows the number of records has to be a constant too.
    """
    constant, also = "divide by a public constant", _constants(answer)
    if answer.sampling is Sampling.POISSON:
        return f"{constant}{also}"
    others = alternatives(answer)
    if others:
        each = " or ".join(
            f"{_NAMES[one.sampling]} ({'epsilon' if one.asked_delta else 'delta'} {number(one, 'guarantee', '.4g')})"
            for one in others
        )
        drawn = f"draw batches by {each}, for one record added or removed at the same noise"
    else:
        drawn = f"draw batches by {' or '.join(_NAMES.values())}"
    # the noisy sum has its constant already
    first = f"{constant}, and {drawn}" if any(one.mechanism.size_matters for one in answer.segments) else drawn
    return f"{first}{also}"


def _constants(answer: Account) -> str:
    """What else is computed from the number of records; the rate of other batches goes with the way of drawing them."""
    each = [one.mechanism for one in answer.segments]
    moving = [
        *(["the sampling rate"] if any(one.is_poisson and one.rate_from_size for one in each) else []),
        *(["the noise multiplier"] if any(one.noise_moves for one in each) else []),
    ]
    return f", and make {' and '.join(moving)} {'constants' if len(moving) > 1 else 'a constant'} too" if moving else ""


_NAMES = {Sampling.POISSON: "Poisson sampling", Sampling.BALLS_IN_BINS: "random allocation"}


def at_another_size(size: str, leaked: str, claimed: str, other: Account) -> str:
    """A result is for one number of records: what another gives; the numbers as they are shown elsewhere."""
    return f"at N = {size} instead, the leakage is {leaked} (claimed {claimed}): {spoken(other)}"


def grounds(answer: Account, source: str = "") -> tuple[Ground, ...]:
    """Each statement, and the option that makes it; `source`: the file that repeats the options."""
    mechanism, size = answer.mechanism, answer.mechanism.dataset_size
    named = f"--mechanism {mechanism.name}"
    rows = (
        (
            About.SAMPLER,
            "Poisson" if mechanism.is_poisson else mechanism.batches_in_words(),
            "--sampling, or its default",
        ),
        (About.RATE, mechanism.rate_in_words(), mechanism.rate_option),
        (About.DENOMINATOR, mechanism.denominator_in_words(), named),
        (About.NOISE, *mechanism.noise_in_words()),
        (About.ADJACENCY, f"one record {answer.change}", "--adjacency and --pair, or their defaults"),
        (About.RECORDS, "any number", "left out" if mechanism.knows_size else f"{named} does not depend on it")
        if size is None
        else (About.RECORDS, f"{size:,}", "--dataset-size"),
        (About.STEPS, f"{answer.steps:,}", "--steps or --epochs"),
    )
    # what is meant unless it is said is what accountants claim, or else nobody's word
    meant = answer.adjacency_told or answer.adjacency is Adjacency.ADD_REMOVE
    return tuple(
        Ground(
            about,
            value,
            Known.TOLD if meant or about is not About.ADJACENCY else Known.ASSUMED,
            how if not source else f"{source}: {how}",
        )
        for about, value, how in rows
    )


def all_typed(found: tuple[Ground, ...]) -> str:
    """What a verdict rests on, in one line."""
    listed = "; ".join(f"{one.about} {one.value}" for one in found)
    return f"it rests on what was typed, none of it seen: {listed}"
