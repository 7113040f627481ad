"""The sentences of a statement, each by what it is about.

Whoever copies one of them into a paper must not say anything false with it. So every number is rounded to its own side; a claim
that does not hold is never called the privacy of the run; every bound names its neighbours and how batches are drawn; and what
no bound covers is said in the same breath.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from noisymean.accounts import Account, Pair
from noisymean.gdp import SMALL_REGRET, GaussianDP
from noisymean.mechanisms import EASGM, FEASGM, SGM, Adjacency, Segment
from noisymean.outward import at_most
from noisymean.report import account_words
from noisymean.statement import limits
from noisymean.statement.numbers import (
    FEW_DIGITS,
    claimed_number,
    given,
    guaranteed,
    guaranteed_number,
    leaked_number,
    number,
    steps_in_words,
    symbol,
)
from noisymean.words import rate_text
from noisymean.written import exactly, for_people


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


def all_sentences(answer: Account, gaussian: GaussianDP | None, unit: str, *, unit_told: bool) -> dict[Topic, str]:
    """Every sentence there is to be said, by topic; none is empty."""
    made = {
        Topic.TRAINING: training(answer),
        Topic.UNIT: _unit(answer, unit, told=unit_told),
        Topic.CLAIM: _claim(answer),
        Topic.GUARANTEE: _guarantee(answer),
        Topic.GAUSSIAN: "" if gaussian is None else gaussian_words(gaussian, _conditions(answer)),
        Topic.PUBLIC: limits.public(answer),
        Topic.NOTES: limits.notes(answer),
        Topic.GROUNDS: limits.grounds(answer),
        Topic.COVERS: limits.covered(answer),
        Topic.REMEDY: limits.remedy(answer),
    }
    return {topic: text for topic, text in made.items() if text}


def training(answer: Account) -> str:
    """What ran."""
    several = len(answer.segments) > 1
    each = "; ".join(f"{steps_in_words(one.steps)}, {_round(one)}" for one in answer.segments)
    lead = f"The model was trained with DP-SGD in {steps_in_words(answer.steps)}"
    how = (
        " In each step the gradient of every record of the batch is clipped to one bound, and the noise is added to every"
        " coordinate of the sum of the clipped gradients, before it is divided."
    )
    if several:
        return f"{lead}: {each}.{how}"
    return f"{lead}, {_round(answer.segments[0])}.{how}"


def _round(segment: Segment) -> str:
    said, _ = segment.mechanism.noise_in_words()
    multiplier = segment.mechanism.noise_multiplier
    more = said.removeprefix(f"{multiplier:g}").removeprefix(", ")
    how = f" ({for_people(more)})" if more else ""
    return (
        f"on batches {drawn(segment)}, with Gaussian noise of standard deviation {exactly(multiplier)} times the clipping"
        f" bound{how}, the noisy sum divided by {denominator(segment)}"
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
    least = number(found.regret, at_most, FEW_DIGITS)
    regret = f"The regret of giving this μ in place of the whole curve is at most {least}"
    if found.fits:
        return f"{lead} {regret}."
    return f"{lead} {regret}; that is not below {SMALL_REGRET:g}, so μ alone does not stand for the curve."
