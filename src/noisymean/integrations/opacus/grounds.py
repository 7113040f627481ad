"""What a verdict on a run with Opacus rests on: one statement each, and how it is known."""

from __future__ import annotations

from collections.abc import Sequence

from noisymean.grounds import About, Ground, Known
from noisymean.integrations.opacus.facts import Facts, Stretch
from noisymean.integrations.opacus.neighbours import as_written
from noisymean.mechanisms.sampling import Sampling


def grounds_of(stretches: Sequence[Stretch], facts: Facts, *, taken: bool) -> tuple[Ground, ...]:
    """For the last stretch; where another differs, so do the words. `taken`: whether any step was."""
    last = stretches[-1]
    drawn, counted = last.seen.drawn, taken and not last.seen.announced
    if taken:
        how = "counted by the accountant" if counted else "in the history of the accountant"
    else:
        how = "none was taken so far: what so many cost is shown"
    return (
        Ground(About.SAMPLER, drawn.in_words, drawn.known, drawn.how),
        _rate(last),
        _denominator(last, several=len({(one.seen.denominator, one.seen.public.denominator) for one in stretches}) > 1),
        _noise(stretches, facts),
        Ground(About.ADJACENCY, "one record added or removed", Known.TOLD, "what the claim is made for"),
        _records(last, facts),
        Ground(
            About.STEPS,
            f"{sum(one.steps for one in stretches):,}",
            Known.SEEN if counted else Known.TOLD,
            how,
        ),
    )


def _rate(last: Stretch) -> Ground:
    seen, value = last.seen, str(as_written(last.sample_rate))
    if seen.public.sample_rate is None:
        return Ground(About.RATE, value, Known.SEEN, "the length of the data loader, which comes from N")
    if seen.drawn.public_rate:
        given = "allocation_loader" if seen.drawn.sampling is Sampling.BALLS_IN_BINS else "poisson_loader"
        return Ground(About.RATE, value, Known.SEEN, f"a constant that {given} was given")
    return Ground(About.RATE, value, Known.TOLD, "a constant of yours, sample_rate")


def _denominator(last: Stretch, *, several: bool) -> Ground:
    seen = last.seen
    more = ", but not from the first step on" if several else ""
    if seen.announced and seen.public.denominator is None:
        return Ground(About.DENOMINATOR, f"{seen.denominator:g}", Known.TOLD, "what make_private would divide by")
    if seen.denominator is None:
        return Ground(About.DENOMINATOR, f"none{more}", Known.SEEN, "loss_reduction='sum'")
    value = f"{seen.denominator:g}{more}"
    if seen.public.denominator is not None:
        return Ground(About.DENOMINATOR, value, Known.TOLD, "a constant of yours, set by fix")
    return Ground(About.DENOMINATOR, value, Known.SEEN, "expected_batch_size, which comes from N")


def _noise(stretches: Sequence[Stretch], facts: Facts) -> Ground:
    noises = list(dict.fromkeys(one.noise_multiplier for one in stretches))
    value = ", ".join(f"{noise:g}" for noise in noises)
    if facts.target is not None:
        return Ground(About.NOISE, value, Known.TOLD, f"calibrated to epsilon = {facts.target.epsilon:g}")
    if stretches[-1].seen.announced:
        return Ground(About.NOISE, value, Known.TOLD, "in the history of the accountant")
    if not all(facts.noise_is_known(one) for one in stretches):
        return Ground(About.NOISE, value, Known.ASSUMED, "it may have been calibrated, and so come from N")
    if all(one.seen.noise_from_records is False for one in stretches):
        return Ground(About.NOISE, value, Known.SEEN, "computed from public constants")
    return Ground(About.NOISE, value, Known.TOLD, "a constant of yours; nobody sees where a number comes from")


def _records(last: Stretch, facts: Facts) -> Ground:
    seen = last.seen.drawn.records == facts.dataset_size
    how = "the data loader draws from them" if seen else "dataset_size"
    return Ground(About.RECORDS, f"{facts.dataset_size:,}", Known.SEEN if seen else Known.TOLD, how)
