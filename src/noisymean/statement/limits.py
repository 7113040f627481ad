"""What stands around the numbers of a statement: what is public, what they cover and rest on, what is left to say and to do."""

from __future__ import annotations

from collections.abc import Iterator

from noisymean.accounts import Account
from noisymean.mechanisms import Adjacency, Mechanism, Sampling
from noisymean.report import account_words
from noisymean.statement.numbers import guaranteed, steps_in_words
from noisymean.words import (
    EpochsDiffer,
    HoldsForOthers,
    Note,
    NotPoisson,
    OneSize,
    ReplacedIsBoth,
    SizeIsPublic,
    capital,
    sentence,
)
from noisymean.written import for_people

# What the sentences about adjacency, sampler and verdict say already.
_SAID = (SizeIsPublic, ReplacedIsBoth, NotPoisson, OneSize, HoldsForOthers)


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


def notes(answer: Account) -> str:
    """What has to be said besides."""
    return " ".join(sentence(for_people(str(one))) for one in _worth_noting(answer))


def _worth_noting(answer: Account) -> Iterator[Note | str]:
    said = _SAID if answer.adjacency is Adjacency.ADD_REMOVE else (*_SAID, EpochsDiffer)
    yield from (one for one in answer.remarks if not isinstance(one, said))
    sizes = [one.mechanism.dataset_size for one in answer.segments if one.mechanism.dataset_size]
    delta = answer.claimed.delta if answer.asked_delta else answer.value(answer.guarantee)
    if sizes and delta is not None and delta * max(sizes) >= 1.0:
        yield "the δ is not below one over the number of records: publishing a record at random would satisfy it"


def grounds(answer: Account) -> str:
    """How what the numbers rest on is known."""
    records = ", number of records" if any(one.mechanism.dataset_size is not None for one in answer.segments) else ""
    told = f"sampler, rate, denominator, noise, adjacency{records} and steps are as somebody described them"
    assumed = "" if answer.adjacency_told or answer.adjacency is Adjacency.ADD_REMOVE else "; the adjacency is assumed"
    return f"The numbers of this statement rest on what was typed, none of it seen: {told}{assumed}. No program was looked at."


def covered(answer: Account) -> str:
    """What the bounds are about, and what not."""
    steps = "the noisy step" if answer.steps == 1 else f"all {steps_in_words(answer.steps)}"
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
    return f"Remedy: {for_people(account_words.remedy(answer))}."
