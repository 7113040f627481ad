"""What a verdict on a described run rests on: somebody typed every statement, and nobody has looked at a program.

Every number is for batches drawn by Poisson sampling and for one kind of neighbours: a sentence that says *holds* says so too.
"""

from __future__ import annotations

from noisymean.accounts import Account
from noisymean.grounds import About, Ground, Known
from noisymean.mechanisms import SGM, Adjacency, Mechanism, OpacusLoader
from noisymean.words import rate_text

NO_UPPER_BOUND = "no upper bound is known for this run"


def spoken(answer: Account) -> str:
    """The verdict in a word; *holds* with what it rests on."""
    return f"holds, {answer.condition}" if answer.verdict == "holds" else answer.verdict


def guaranteed(answer: Account) -> str:
    """What the third number is."""
    if answer.guarantee.epsilon is None or answer.guarantee.delta is None:
        return NO_UPPER_BOUND
    if isinstance(answer.mechanism, SGM) and answer.adjacency is Adjacency.ADD_REMOVE:
        return "certainly not exceeded, for any pair of neighbours"
    return f"certainly not exceeded, for any record {answer.change}"


def grounds(answer: Account, source: str = "") -> tuple[Ground, ...]:
    """Each statement, and the option that makes it; `source`: the file that repeats the options."""
    mechanism, size = answer.mechanism, answer.mechanism.dataset_size
    named, records = f"--mechanism {mechanism.name}", "--dataset-size"
    rate, denominator = _rate(mechanism), _denominator(mechanism)
    rows = (
        (About.SAMPLER, "Poisson", f"{named}, which is for no other"),
        (About.RATE, rate, f"{records} and --batch-size" if isinstance(mechanism, OpacusLoader) else "--sample-rate"),
        (About.DENOMINATOR, denominator, named),
        (About.NOISE, *_noise(mechanism)),
        (About.ADJACENCY, f"one record {answer.change}", "--adjacency and --pair, or their defaults"),
        (About.RECORDS, "any number", f"{named} does not depend on it")
        if size is None
        else (About.RECORDS, f"{size:,}", records),
        (About.STEPS, f"{answer.steps:,}", "--steps or --epochs"),
    )
    return tuple(
        Ground(about, value, Known.TOLD, how if not source else f"{source}: {how}") for about, value, how in rows
    )


def short(found: tuple[Ground, ...]) -> str:
    """All of it in one line."""
    listed = "; ".join(f"{one.about} {one.value}" for one in found)
    return f"it rests on what was typed, none of it seen: {listed}"


def _rate(mechanism: Mechanism) -> str:
    if isinstance(mechanism, OpacusLoader):
        return f"1/{mechanism.run(mechanism.dataset_size).loader_length}, one over the number of batches"
    return rate_text(mechanism.rate)


def _noise(mechanism: Mechanism) -> tuple[str, str]:
    if isinstance(mechanism, OpacusLoader) and mechanism.is_calibrated:
        target = f"{mechanism.noise_multiplier:g}, calibrated to epsilon = {mechanism.target_epsilon:g}"
        return f"{target}, and so to the number of records", "what it was calibrated to"
    return f"{mechanism.noise_multiplier:g}", "--noise-multiplier"


def _denominator(mechanism: Mechanism) -> str:
    return mechanism.denominator_in_words()
