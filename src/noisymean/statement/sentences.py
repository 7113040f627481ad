"""The sentences of a statement, each by what it is about.

Whoever copies one of them into a paper must not say anything false with it. So every number is rounded to its own side; a claim
that does not hold is never called the privacy of the run; every bound names its neighbours and how batches are drawn; and what
no bound covers is said in the same breath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction

from noisymean.accounts import Account, Pair
from noisymean.gdp import SMALL_REGRET, GaussianDP
from noisymean.mechanisms import EASGM, FEASGM, SGM, Adjacency, Mechanism, Sampling, Segment
from noisymean.outward import Rounding, at_least, at_most, plain
from noisymean.report import account_words
from noisymean.words import (
    BEYOND_DOUBLES,
    NONE_KNOWN,
    EpochsDiffer,
    HoldsForOthers,
    Note,
    NotPoisson,
    OneSize,
    ReplacedIsBoth,
    SizeIsPublic,
    capital,
    rate_text,
    sentence,
    typeset,
)

# What the sentences about adjacency, sampler and verdict say already.
_SAID = (SizeIsPublic, ReplacedIsBoth, NotPoisson, OneSize, HoldsForOthers)
_MACHINE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e[+-]?\d+")
_LONG = re.compile(r"(?<![\w.,])\d{5,18}(?![\w.]*\d)")
_GREEK = {"epsilon": "ε", "delta": "δ", "sigma": "σ"}
_GREEK_NAMES = re.compile(rf"\b({'|'.join(_GREEK)})\b")
_DIGITS, _FEW_DIGITS = ".4g", ".2g"


class Topic(StrEnum):
    """What a sentence is about, in the order in which they are read."""

    TRAINING = "training"
    UNIT = "privacy unit"
    CLAIM = "claim"
    GUARANTEE = "guarantee"
    GAUSSIAN = "Gaussian DP"
    PUBLIC = "what is public"
    NOTES = "notes"
    GROUNDS = "what it rests on"
    COVERS = "what it covers"
    REMEDY = "remedy"


def for_people(text: str) -> str:
    """Words of ours that were written for a terminal, without the notation of machines.

    >>> for_people("calibrated to epsilon = 3 at delta = 1e-05; floor(N*q) = 700")
    'calibrated to ε = 3 at δ = 10⁻⁵; ⌊N·q⌋ = 700'
    """
    greek = _GREEK_NAMES.sub(lambda found: _GREEK[found[0]], text)
    with_powers = _MACHINE.sub(lambda found: plain(found[0]), typeset(greek))
    return _LONG.sub(lambda found: f"{int(found[0]):,}", with_powers)


def number(value: float | None, side: Rounding, digits: str = _DIGITS, unknown: str = BEYOND_DOUBLES) -> str:
    """A bound for people, rounded to its side."""
    return unknown if value is None else plain(side(value, digits))


def exactly(value: float) -> str:
    """A number that somebody typed, as it is."""
    short = f"{value:.6g}"
    return plain(short if float(short) == value else repr(value))


def all_sentences(answer: Account, gaussian: GaussianDP | None, unit: str, *, unit_told: bool) -> dict[Topic, str]:
    """Every sentence there is to be said, by topic; none is empty."""
    made = {
        Topic.TRAINING: training(answer),
        Topic.UNIT: _unit(answer, unit, told=unit_told),
        Topic.CLAIM: _claim(answer),
        Topic.GUARANTEE: _guarantee(answer),
        Topic.GAUSSIAN: "" if gaussian is None else gaussian_words(gaussian, _conditions(answer)),
        Topic.PUBLIC: public(answer),
        Topic.NOTES: _notes(answer),
        Topic.GROUNDS: _grounds(answer),
        Topic.COVERS: covered(answer),
        Topic.REMEDY: remedy(answer),
    }
    return {topic: text for topic, text in made.items() if text}


# --- the three numbers -----------------------------------------------------------------------------------------------------


def symbol(answer: Account) -> str:
    """What is bounded."""
    return "ε" if answer.asked_delta else "δ"


def given(answer: Account) -> str:
    """`δ = 10⁻⁵`: what it is bounded at."""
    value = answer.claimed.delta if answer.asked_delta else answer.claimed.epsilon
    return f"{'δ' if answer.asked_delta else 'ε'} = {exactly(value or 0.0)}"


def claimed_number(answer: Account) -> str:
    """What accountants report, rounded up."""
    return number(answer.value(answer.claimed), at_most)


def leaked_number(answer: Account) -> str:
    """What certainly leaks, rounded down."""
    return number(answer.value(answer.leakage), at_least)


def guaranteed(answer: Account) -> float | None:
    """What is guaranteed; None where nothing is, or a delta of 1, which every program has."""
    value = answer.value(answer.guarantee)
    return None if value is None or (not answer.asked_delta and value >= 1.0) else value


def guaranteed_number(answer: Account) -> str:
    """The same, rounded up."""
    return number(guaranteed(answer), at_most, unknown=NONE_KNOWN)


# --- sentences -------------------------------------------------------------------------------------------------------------


def training(answer: Account) -> str:
    """What ran."""
    several = len(answer.segments) > 1
    each = "; ".join(f"{_steps(one.steps)}, {_round(one)}" for one in answer.segments)
    lead = f"The model was trained with DP-SGD in {_steps(answer.steps)}"
    how = (
        " In each step the gradient of every record of the batch is clipped to one bound, and the noise is added to every"
        " coordinate of the sum of the clipped gradients, before it is divided."
    )
    if several:
        return f"{lead}: {each}.{how}"
    return f"{lead}, {_round(answer.segments[0])}.{how}"


def _steps(count: int) -> str:
    return f"{count:,} noisy step{'s' if count > 1 else ''}"


def _round(segment: Segment) -> str:
    said, _ = segment.mechanism.noise_in_words()
    multiplier = segment.mechanism.noise_multiplier
    more = "" if said == f"{multiplier:g}" else f" ({for_people(said)})"
    return (
        f"on batches {drawn(segment)}, with Gaussian noise of standard deviation {exactly(multiplier)} times the clipping"
        f" bound{more}, the noisy sum divided by {denominator(segment)}"
    )


def drawn(segment: Segment) -> str:
    """How batches are drawn, and at which rate."""
    one = segment.mechanism
    rate = for_people(one.rate_in_words())
    if one.rate_in_words() == rate_text(one.rate) and Fraction(one.rate_in_words()) != one.rate:
        rate = f"about {rate}"
    if one.is_poisson:
        return f"{one.drawn.in_words} (each record by itself, with probability {rate})"
    size = "" if one.size_of_batches is None else f", in batches of {one.size_of_batches:,}"
    return f"{one.drawn.in_words} (rate {rate}{size}{', a smaller last one dropped' if one.drops_last else ''})"


def denominator(segment: Segment) -> str:
    """What the noisy sum is divided by."""
    if isinstance(segment.mechanism, SGM):
        return "a constant that does not depend on the data"
    words = for_people(segment.mechanism.denominator_in_words())
    named = isinstance(segment.mechanism, EASGM | FEASGM)
    return f"{words} (N records, sampled at the rate q)" if named else words


def _unit(answer: Account, unit: str, *, told: bool) -> str:
    assumed = "" if told else " (assumed: nobody said what a record stands for)"
    whole = (
        ""
        if not told
        else " The bounds are for this unit if all that it contributes is one record, sampled and clipped as a whole."
    )
    return f"The privacy unit is {unit}{assumed}. {neighbours(answer)}{whole}"


def neighbours(answer: Account) -> str:
    """What neighbouring datasets differ in."""
    differ = f"Neighbouring datasets differ in one record {answer.change}"
    match answer.adjacency:
        case Adjacency.ADD_REMOVE:
            other = {one.pair.change for one in answer.neighbours} ^ {one.change for one in Pair}
            one_way = any(one.mechanism.knows_size for one in answer.segments) and other
            return f"{differ}; nothing is said about one {' or '.join(other)}." if one_way else f"{differ}."
        case Adjacency.ZERO_OUT:
            return (
                f"{differ}, that is put in place of one whose gradient is zero: both datasets have the same number of records,"
                " and nothing is said about a record added or removed."
            )
        case Adjacency.REPLACE_ONE:
            return f"{differ} by any other: both datasets have the same number of records."


def _claim(answer: Account) -> str:
    reported = f"{symbol(answer)} = {claimed_number(answer)} at {given(answer)}"
    about = "for Poisson sampling and one record added or removed"
    accountants = f"An accountant of the noisy sum reports {reported} {about}."
    # accountants make their claim for one record added or removed, and for nothing else
    usual = answer.adjacency is Adjacency.ADD_REMOVE
    match answer.verdict:
        case "violated" if usual:
            return (
                f"{accountants} That is not the privacy of this training: {_lost(answer)}."
                f" The claim of {symbol(answer)} = {claimed_number(answer)} is violated."
            )
        case "violated":
            return (
                f"{accountants} That says nothing of one record {answer.change}: {_lost(answer)}."
                f" As a claim for one record {answer.change}, {symbol(answer)} = {claimed_number(answer)} is violated."
            )
        case "holds" if guaranteed(answer) is None:
            return f"{accountants} Every program satisfies that, whatever it does."
        case "holds":
            return (
                f"The training is (ε, δ)-differentially private with {symbol(answer)} = {guaranteed_number(answer)} at"
                f" {given(answer)}, {_conditions(answer)}."
            )
        case "undetermined" if answer.holds_for_others:
            return (
                f"{accountants} What is guaranteed for one record {answer.change} is no larger, but nobody has said that the"
                " claim is for these neighbours, and so whether it holds is undetermined."
            )
        case "undetermined":
            return (
                f"{accountants} Whether that holds for this training is undetermined: no proof that is known supports it, and no"
                f" pair of datasets that is known violates it; {_lost(answer)}."
            )


def _lost(answer: Account) -> str:
    pair = for_people(str(answer.leakage.pair))
    return (
        f"of two neighbouring datasets ({pair}; C is the clipping bound) and for whoever sees every step, no {symbol(answer)}"
        f" below {leaked_number(answer)} holds at {given(answer)}"
    )


def _conditions(answer: Account) -> str:
    """What every bound is for, with the number of records where it is for no other."""
    size = _size_that_matters(answer)
    records = "" if size is None else f", where the dataset has {size:,} records"
    return f"{answer.condition}{records}, if it ran as it is described here"


def _guarantee(answer: Account) -> str:
    bounded = f"{symbol(answer)} at {given(answer)}"
    if answer.value(answer.guarantee) is None:
        reasons = account_words.why_no_guarantee(answer)
        why = "" if reasons is None else f": {for_people(reasons)}"
        return f"No upper bound on {bounded} is known for this training{why}."
    if guaranteed(answer) is None:
        return f"No upper bound on {bounded} is known for this training but 1, which every program satisfies."
    if answer.verdict == "holds":
        return ""
    return f"What is guaranteed is {symbol(answer)} = {guaranteed_number(answer)} at {given(answer)}, {_conditions(answer)}."


def _size_that_matters(answer: Account) -> int | None:
    moves = any(one.mechanism.knows_size for one in answer.segments)
    return (
        next((one.mechanism.dataset_size for one in answer.segments if one.mechanism.knows_size), None)
        if moves
        else None
    )


def gaussian_words(found: GaussianDP, conditions: str) -> str:
    """mu-GDP with its regret, or why not."""
    if found.mu is None or found.regret is None:
        return f"No μ of Gaussian differential privacy is given{'' if found.why is None else f': {found.why}'}."
    lead = f"The training is μ-Gaussian differentially private with μ = {number(found.mu, at_most)}"
    if found.slack:
        slack = exactly(found.slack)
        lead += (
            f" up to {slack}, {conditions}: nowhere is its trade-off function more than {slack} below that of N(0, 1) and"
            " N(μ, 1)."
        )
        if found.everywhere is not None:
            lead += f" Without that exception, μ = {number(found.everywhere, at_most)} is proved."
    else:
        lead += f", {conditions}: its trade-off function is nowhere below that of N(0, 1) and N(μ, 1)."
    if found.regret == 0.0:
        return f"{lead} The regret of giving this μ in place of the whole curve is 0: it is the whole curve."
    least = number(found.regret, at_most, _FEW_DIGITS)
    regret = f"The regret of giving this μ in place of the whole curve is at most {least}"
    if found.fits:
        return f"{lead} {regret}."
    return f"{lead} {regret}; that is not below {SMALL_REGRET:g}, so μ alone does not stand for the curve."


def public(answer: Account) -> str:
    """Which quantities no bound protects."""
    constants = ["the number of steps", "the clipping bound", "δ" if answer.asked_delta else "ε"]
    moving: list[str] = []
    each = [one.mechanism for one in answer.segments]
    (moving if any(_rate_moves(one) for one in each) else constants).append("the sampling rate")
    (moving if any(one.noise_moves for one in each) else constants).append("the noise multiplier")
    (moving if any(one.size_matters for one in each) else constants).append("the denominator")
    taken = f"Taken to be public, and chosen without a look at the data: {_listed(constants)}."
    if answer.adjacency is not Adjacency.ADD_REMOVE:
        also = f" and, with it, {_listed(moving)}" if moving else ""
        are = "are" if moving else "is"
        return f"{taken} The number of records{also} {are} public as well: neighbouring datasets have the same."
    if moving:
        bounds = "the loss counts" if guaranteed(answer) is None else "the bounds count"
        return (
            f"{taken} {capital(_listed(moving))} {'come' if len(moving) > 1 else 'comes'} from the data, and {bounds} what that"
            " gives away. Whoever prints the number of records publishes it: no bound covers that."
        )
    return f"{taken} The number of records is not among them: whoever prints it publishes it, and no bound covers that."


def _rate_moves(one: Mechanism) -> bool:
    """Whether the rate comes from the number of records: that of a loader, of batches that are cut or of a fixed size."""
    return one.rate_from_size or (one.knows_size and not one.is_poisson and one.size_of_batches is not None)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _notes(answer: Account) -> str:
    return " ".join(sentence(for_people(str(one))) for one in _worth_noting(answer))


def _worth_noting(answer: Account) -> Iterator[Note | str]:
    said = _SAID if answer.adjacency is Adjacency.ADD_REMOVE else (*_SAID, EpochsDiffer)
    yield from (one for one in answer.remarks if not isinstance(one, said))
    sizes = [one.mechanism.dataset_size for one in answer.segments if one.mechanism.dataset_size]
    delta = answer.claimed.delta if answer.asked_delta else answer.value(answer.guarantee)
    if sizes and delta is not None and delta * max(sizes) >= 1.0:
        yield "the δ is not below one over the number of records: publishing a record at random would satisfy it"


def _grounds(answer: Account) -> str:
    records = ", number of records" if any(one.mechanism.dataset_size is not None for one in answer.segments) else ""
    told = f"sampler, rate, denominator, noise, adjacency{records} and steps are as somebody described them"
    assumed = "" if answer.adjacency_told or answer.adjacency is Adjacency.ADD_REMOVE else "; the adjacency is assumed"
    return f"The numbers of this statement rest on what was typed, none of it seen: {told}{assumed}. No program was looked at."


def covered(answer: Account) -> str:
    """What the bounds are about, and what not."""
    steps = "the noisy step" if answer.steps == 1 else f"all {_steps(answer.steps)}"
    return (
        f"The bounds are for the release of {steps}, so for every checkpoint and the final model, which alone may give away"
        f" less. {not_covered()}"
    )


def not_covered() -> str:
    """What a reader may take to be in the bounds, and is not."""
    return (
        "Not covered: hyperparameters that were chosen, and statistics or preprocessing that were computed, on the same data;"
        " other releases of these data; several units at once; the random generator and floating point arithmetic."
    )


def tuning() -> str:
    """Of what is not covered, the part that a registry asks for."""
    return (
        "Not counted in these parameters: hyperparameters that were chosen, and statistics or preprocessing that were computed,"
        " on the same data. Whether there were any is not known to whoever wrote this."
    )


def remedy(answer: Account) -> str:
    """What to do where the claim does not hold; empty where there is nothing to do."""
    drawn_as_claimed = answer.sampling is Sampling.POISSON
    constant = not any(one.mechanism.size_matters for one in answer.segments)
    # the code may be right where the claim is only made for the wrong neighbours
    right_code = drawn_as_claimed and (constant or answer.adjacency is Adjacency.REPLACE_ONE)
    if answer.verdict == "holds" or answer.holds_for_others or right_code:
        return ""
    each = [one.mechanism for one in answer.segments]
    moving = [
        *(["the sampling rate"] if drawn_as_claimed and any(map(_rate_moves, each)) else []),
        *(["the noise multiplier"] if any(one.noise_moves for one in each) else []),
    ]
    constants = f", and make {_listed(moving)} {'constants' if len(moving) > 1 else 'a constant'} too" if moving else ""
    return f"Remedy: {for_people(account_words.remedy(answer))}{constants}."
