r"""From what was seen of a run on N records to the mechanisms that it and its neighbours run.

The training set has N records, so it is D' of the pair (N-1, N) and D of the pair (N, N+1); both count. What the run would have
been on the other dataset follows from where its numbers came from:

    denominator                          sampling rate         mechanism
    sum, or a public constant            public                SGM
    sum, or a public constant            1/ceil(N/b)           SGM where N+-1 leaves the rate alone, else none that we know
    int(N/L)                             1/ceil(N/b)           OpacusLoader: what make_private does
    floor(N q)                           public                FEASGM
    N q                                  public                EASGM

So for Poisson sampling, and for random allocation, whose rate is public. Batches that are cut from a dataset, shuffled or not,
come from a loader of the user's, which shows their size b:

    sum, or a public constant            1/ceil(N/b)           SGM, cut into batches of b
    int(N/L)                             1/ceil(N/b)           OpacusLoader, likewise

In an epoch of any of these a record is in one batch. So a stretch begins with an epoch, or nothing is known.

Where Opacus draws by itself b is not kept, nor whether the loader drops its last batch. From N and L = ceil(N/b), or floor(N/b),
b is known up to a small range, at the ends of which the rate may move with N and inside of which it does not: all of the cases
are looked at. The noise may come from N as well (`make_private_with_epsilon`, or a recipe that does the same): where it may, and
nobody says which, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from noisymean.errors import InvalidInput
from noisymean.integrations.opacus.facts import Case, Facts, Loaded, Source, Stretch, Unknown
from noisymean.integrations.opacus.sampler import Drawn
from noisymean.integrations.opacus.seen import Seen
from noisymean.mechanisms import EASGM, FEASGM, SGM, Mechanism, OpacusLoader, Sampling, exact_rate
from noisymean.mechanisms.opacus_rate import steps_at_most
from noisymean.mechanisms.sampling import Cut
from noisymean.opacus_noise import noise_multiplier

_MOST_CASES = 27


def cases(stretches: Sequence[Stretch], facts: Facts) -> list[Case]:
    """Every pair that the training set belongs to, under every data loader that it may have had."""
    moving = list(dict.fromkeys(_source(one) for one in stretches if _from_loader(one)))
    choices = [
        cut_loaders(facts, one) if one.is_cut else loaders(facts, one.sample_rate, one.sampled) for one in moving
    ]
    if len(list(product(*choices))) > _MOST_CASES:
        raise InvalidInput("batch_size", None, f"given for a run with {len(moving)} sampling rates")
    found = dict[Case, None]()
    for smaller in (facts.dataset_size, facts.dataset_size - 1):
        for chosen in product(*choices):
            found[_case(stretches, facts, smaller, dict(zip(moving, chosen, strict=True)))] = None
    return list(found)


def _source(stretch: Stretch) -> Source:
    drawn = stretch.seen.drawn
    return Source(stretch.sample_rate, drawn.rate, drawn.records, drawn.is_cut, drawn.batch_size, drawn.drop_last)


def _from_loader(stretch: Stretch) -> bool:
    """Whether the rate came from the length of an ordinary data loader, as far as anyone knows."""
    seen = stretch.seen
    if seen.accumulated != 1 or seen.fault:
        return False
    if seen.drawn.is_cut:
        return seen.drawn.rate in (None, stretch.sample_rate)
    usual = bool(seen.drawn.poisson) and seen.public.sample_rate is None
    return usual and _is_recovered(seen.drawn.rate, stretch.sample_rate)


def _is_recovered(sampled: float | None, told: float) -> bool:
    """Whether the sampler's rate is 1/L, and the accountant's what Opacus makes of it."""
    return sampled is None or (1 / round(1 / sampled) == sampled and 1 / int(1 / sampled) == told)


def _case(stretches: Sequence[Stretch], facts: Facts, smaller: int, chosen: dict[Source, Loaded]) -> Case:
    try:
        segments = tuple((mechanism_of(one, facts, smaller, chosen.get(_source(one))), one.steps) for one in stretches)
        _need_whole_epochs(stretches)
    except Unknown as reason:
        return Case(smaller, None, str(reason))
    return Case(smaller, segments)


def _need_whole_epochs(stretches: Sequence[Stretch]) -> None:
    """Unknown where a stretch begins in the middle of an epoch: what is analysed is an epoch of one mechanism."""
    if len({one.seen.drawn.sampling for one in stretches}) > 1:
        raise Unknown("batches were drawn in several ways, one after the other")
    if any(one.by_epochs and one.steps % one.in_epoch for one in stretches[:-1]):
        raise Unknown("the noise, the denominator or the data loader was changed in the middle of an epoch")


def mechanism_of(stretch: Stretch, facts: Facts, smaller: int, loaded: Loaded | None) -> Mechanism:
    """What ran on the training set, as a mechanism on the pair (smaller, smaller + 1). Unknown where there is none."""
    seen = stretch.seen
    _need_usual_steps(stretch, facts)
    constant = seen.denominator is None or seen.public.denominator is not None
    if seen.public.sample_rate is not None:
        return _at_public_rate(stretch, facts, smaller, constant=constant)
    if seen.drawn.sampling is Sampling.BALLS_IN_BINS:
        raise Unknown(
            "nobody knows where the number of batches comes from: give make_private an allocation_loader, or sample_rate="
            f"'{as_written(stretch.sample_rate)}' if it is a constant of yours"
        )
    if loaded is None:
        raise Unknown(f"the rate {seen.drawn.rate:.6g} of the sampler is not 1/L, and nobody knows what it comes from")
    if smaller == 0:
        raise Unknown("without its one record there is nothing to load")
    if loaded.batch_size > smaller and loaded.drop_last:
        raise Unknown(f"a loader that drops its last batch has none of {loaded.batch_size} on {smaller} records")
    if seen.drawn.is_cut:
        return _cut(stretch, facts, smaller, loaded, constant=constant)
    if loaded.batch_size > smaller:
        # one batch is all of the records, with one more as well
        return _at_public_rate(stretch, facts, smaller, constant=constant)
    return _at_rate_of_loader(stretch, facts, smaller, loaded, constant=constant)


def _need_usual_steps(stretch: Stretch, facts: Facts) -> None:
    """Unknown unless each step adds noise, of which it is known where it comes from, to one batch drawn in a known way."""
    seen, sigma = stretch.seen, stretch.noise_multiplier
    if not stretch.noisy:
        raise Unknown("no noise was added, so nothing is private: give make_private a noise_multiplier above 0")
    if seen.fault:
        raise Unknown(seen.fault)
    if seen.accumulated > 1:
        several = f"{seen.accumulated} batches were drawn for one step"
        if stretch.by_epochs:
            raise Unknown(f"{several}, and nobody has analysed steps on several batches of an epoch")
        raise Unknown(f"{several}: a record may be in several of them")
    if seen.accumulated < 1:
        raise Unknown(f"steps at the rate {stretch.sample_rate:.6g} are of another data loader than the optimizer's")
    if seen.divides_count:
        raise Unknown("adaptive clipping divides its noisy count by the size of the batch")
    _need_known_batches(seen.drawn, facts, stretch.sample_rate)
    if not seen.announced and not facts.noise_is_known(stretch):
        raise Unknown(
            f"the noise multiplier {sigma:g} may have been calibrated to an epsilon, and so to the number of records: give"
            f" target_epsilon, target_delta and epochs, or noise_multiplier={sigma!r} if it is a number of yours"
        )


def _at_rate_of_loader(
    stretch: Stretch, facts: Facts, smaller: int, loaded: Loaded, *, constant: bool
) -> OpacusLoader | SGM:
    """Where the rate is one over the length of a data loader: SGM if neither it nor the noise moves with N, and c is fixed."""
    loader = _one_loader(stretch, facts, smaller, loaded, constant=constant)
    if not constant:
        return loader
    if loader.rate_moves:
        (before, _), (after, _) = loader.runs
        raise Unknown(f"the sampling rate is {before:.6g} on {smaller} records and {after:.6g} on {smaller + 1}")
    _need_one_noise(loader, smaller)
    # the sampler's rate: the accountant's is never smaller
    return SGM(sample_rate=loader.rate, noise_multiplier=stretch.noise_multiplier)


def _cut(stretch: Stretch, facts: Facts, smaller: int, loaded: Loaded, *, constant: bool) -> OpacusLoader | SGM:
    """Batches that are cut from the dataset. What one record more does to their number is part of what is analysed."""
    loader = _one_loader(stretch, facts, smaller, loaded, constant=constant)
    if not constant:
        return loader
    _need_one_noise(loader, smaller)
    if loaded.batch_size > smaller:
        # every batch is all of the records, with one more as well
        return SGM(sample_rate=1, noise_multiplier=stretch.noise_multiplier)
    return SGM(
        dataset_size=smaller,
        sample_rate=as_written(stretch.sample_rate),
        batch_size=loaded.batch_size,
        drop_last=loaded.drop_last,
        noise_multiplier=stretch.noise_multiplier,
        sampling=loader.sampling,
    )


def _need_one_noise(loader: OpacusLoader, smaller: int) -> None:
    if loader.noise_moves:
        before, after = loader.noises
        raise Unknown(f"the noise multiplier is {before:.6g} on {smaller} records and {after:.6g} on {smaller + 1}")


def _one_loader(stretch: Stretch, facts: Facts, smaller: int, loaded: Loaded, *, constant: bool) -> OpacusLoader:
    """What make_private does with this data loader, whatever the delta was that may have been meant."""
    deltas = (None,) if facts.target is None else facts.target.deltas(facts.dataset_size)
    found = [_loaded(stretch, facts, smaller, loaded, delta, constant=constant) for delta in deltas]
    if len({one.noises for one in found}) > 1:
        raise Unknown(_one_over_n(facts))
    return found[0]


def _loaded(
    stretch: Stretch, facts: Facts, smaller: int, loaded: Loaded, delta: float | str | None, *, constant: bool
) -> OpacusLoader:
    """What make_private does with this data loader, complaining unless it is what was seen."""
    seen, sigma, target = stretch.seen, stretch.noise_multiplier, facts.target
    loader = OpacusLoader(
        dataset_size=smaller,
        # of batches that could be larger there is one, with all of the records
        batch_size=min(loaded.batch_size, smaller + 1),
        drop_last=loaded.drop_last,
        sampling=seen.drawn.sampling or Sampling.POISSON,
        # which a constant does not care about
        dimension=1 if constant else _dimension(seen),
        **(
            {"noise_multiplier": sigma}
            if target is None
            else {
                "target_epsilon": target.epsilon,
                "target_delta": delta,
                "epochs": target.epochs,
                "accountant": target.accountant,
            }
        ),
    )
    if loader.noise_at(facts.dataset_size) != sigma:
        raise _other_noise(loader.noise_at(facts.dataset_size), sigma)
    if not constant and loader.run(facts.dataset_size).expected_batch_size != seen.denominator:
        raise Unknown(_strange(seen, facts.dataset_size, stretch.sample_rate))
    return loader


def _need_known_batches(drawn: Drawn, facts: Facts, rate: float) -> None:
    if drawn.other:
        raise Unknown(
            f"no Poisson sampling ({drawn.how}): no number of ours, and none of Opacus' accountants, is for that"
        )
    if drawn.sampling is Sampling.FIXED_SIZE:
        raise Unknown(f"no Poisson sampling ({drawn.how}): nm.account has numbers for batches of a fixed size")
    if drawn.sampling is None:
        raise Unknown(drawn.how)
    _need_same_records(drawn.records, facts)
    # Opacus reads the length of its own samplers off their rate
    as_told = drawn.public_rate or not drawn.poisson
    if drawn.rate is not None and (drawn.rate if as_told else 1 / int(1 / drawn.rate)) != rate:
        raise Unknown(f"the data loader samples at the rate {drawn.rate:.6g}, the accountant was told {rate:.6g}")


def _need_same_records(records: int | None, facts: Facts) -> None:
    if records not in (None, facts.dataset_size):
        raise InvalidInput(
            "dataset_size", facts.dataset_size, f"the records of the data loader, {records:,}", "leave it out"
        )


def _other_noise(expected: float, sigma: float) -> InvalidInput:
    return InvalidInput(
        "target_epsilon",
        f"calibrated to noise_multiplier {expected:g}",
        f"the one that gives {sigma:g}, which the optimizer has",
        "leave it out if the noise was not calibrated",
    )


def _at_public_rate(stretch: Stretch, facts: Facts, smaller: int, *, constant: bool) -> Mechanism:
    seen, sigma, dataset_size = stretch.seen, stretch.noise_multiplier, facts.dataset_size
    rate, sampling = as_written(stretch.sample_rate), seen.drawn.sampling or Sampling.POISSON
    if facts.target is not None:
        # at a public rate the noise is public too, unless delta comes from N
        if facts.target.delta == "1/N":
            raise Unknown("the noise was calibrated to delta = 1/N, and so to the number of records")
        if "1/N" in facts.target.deltas(dataset_size):
            raise Unknown(_one_over_n(facts))
        expected = noise_multiplier(
            facts.target.epsilon,
            float(facts.target.delta),
            stretch.sample_rate,
            facts.target.epochs,
            facts.target.accountant,
        )
        if expected != sigma:
            raise _other_noise(expected, sigma)
    if constant:
        # all records in every batch: there is nothing to draw
        sampling = Sampling.POISSON if rate == 1 else sampling
        return SGM(sample_rate=rate, noise_multiplier=sigma, sampling=sampling)
    dimension = _dimension(seen)
    floor = FEASGM(
        dataset_size=smaller, dimension=dimension, sample_rate=rate, noise_multiplier=sigma, sampling=sampling
    )
    if int(dataset_size * stretch.sample_rate) == seen.denominator:
        # what Opacus makes of a product in floating point may be one less than its floor
        made = int(smaller * stretch.sample_rate), int((smaller + 1) * stretch.sample_rate)
        if made == floor.floors and made[0] > 0:
            return floor
        if made[0] == made[1] > 0:
            return SGM(sample_rate=rate, noise_multiplier=sigma, sampling=sampling)
        raise Unknown(f"Opacus divides by {made[0]} on {smaller} records and by {made[1]} on {smaller + 1}")
    if seen.denominator is not None and abs(float(dataset_size * rate) - seen.denominator) <= 1e-9 * seen.denominator:
        return EASGM(
            dataset_size=smaller, dimension=dimension, sample_rate=rate, noise_multiplier=sigma, sampling=sampling
        )
    raise Unknown(_strange(seen, dataset_size, stretch.sample_rate))


def _one_over_n(facts: Facts) -> str:
    assert facts.target is not None
    delta = float(facts.target.delta)
    return (
        f"target_delta={delta:g} is 1 over the number of records: if it was computed so, the noise depends on them, write"
        f" target_delta='1/N'; if it is a constant, write it as text, target_delta='{delta:g}'"
    )


def as_written(rate: float) -> Fraction:
    """1/L where the float is 1/L, which has no short decimal; else the decimal.

    >>> as_written(1 / 300), as_written(0.003)
    (Fraction(1, 300), Fraction(3, 1000))
    """
    whole = round(1 / rate)
    return Fraction(1, whole) if 1 / whole == rate else exact_rate(rate)


def loader_code(rate: Fraction) -> str:
    """The call that samples at `rate`, or at the nearest rate below that Opacus can sample at."""
    return f"poisson_loader(train_set, sample_rate='1/{steps_at_most(rate)}')"


def allocation_code(rate: Fraction) -> str:
    """The call that allocates records to the batches of an epoch, of which there are 1/`rate`."""
    return f"allocation_loader(train_set, batches={math.ceil(1 / rate)})"


def constant_code(denominator: float) -> str:
    """A number as it is typed, all of its digits.

    >>> constant_code(1_234_567.0), constant_code(0.5)
    ('1234567', '0.5')
    """
    return str(int(denominator)) if denominator.is_integer() else repr(denominator)


def loaders(facts: Facts, rate: float, sampled: float | None = None) -> list[Loaded]:
    """Data loaders for which Opacus tells its accountant this rate, and its sampler `sampled`: one of each behaviour."""
    found = list(dict.fromkeys(_possible(facts, rate, sampled)))
    if not found:
        asked = "batch_size" if facts.batch_size is not None else "dataset_size"
        raise InvalidInput(
            asked,
            getattr(facts, asked),
            f"such that ceil(dataset_size / batch_size) batches, or the floor with drop_last, give the rate {rate:.6g}",
            "give the number of training records, and sample_rate= if the loader was given a rate",
        )
    return found


def _possible(facts: Facts, rate: float, sampled: float | None) -> Iterator[Loaded]:
    size, steps = facts.dataset_size, round(1 / rate)
    for drop_last in (False, True) if facts.drop_last is None else (facts.drop_last,):
        for length in (steps, steps + 1):
            # int(1/(1/L)) is L - 1 for some L
            if sampled not in (None, 1 / length):
                continue
            if drop_last:
                low, high = size // (length + 1) + 1, size // length
            else:
                low, high = -(-size // length), size + 1 if length == 1 else (size - 1) // (length - 1)
            told = facts.batch_size
            for batch in (low, (low + high) // 2, high) if told is None else (told,):
                if 1 <= low <= batch <= high and 1 / int(1 / (1 / length)) == rate:
                    yield Loaded(batch, drop_last)


def cut_loaders(facts: Facts, source: Source) -> list[Loaded]:
    """The data loaders that may have cut the batches: the one that was seen, or those of the batch size that was told."""
    _need_same_records(source.records, facts)
    for name in ("batch_size", "drop_last"):
        said, seen = getattr(facts, name), getattr(source, name)
        if None not in (said, seen) and said != seen:
            raise InvalidInput(name, said, f"that of the data loader, {seen}", "leave it out")
    size = facts.batch_size if source.batch_size is None else source.batch_size
    if size is None:
        raise InvalidInput(
            "batch_size", None, "given where batches are cut from the dataset", "or pass data_loader= that cuts them"
        )
    dropping = facts.drop_last if source.drop_last is None else source.drop_last
    found = [
        Loaded(size, drop_last)
        for drop_last in ((False, True) if dropping is None else (dropping,))
        if _is_length(Cut.of(facts.dataset_size, size, drop_last=drop_last).batches, source.sample_rate)
    ]
    if not found:
        raise InvalidInput("batch_size", size, f"such that there are {1 / source.sample_rate:.6g} batches in an epoch")
    return found


def _is_length(batches: int, rate: float) -> bool:
    """Whether a loader of so many batches tells the accountant this rate."""
    return batches > 0 and 1 / batches == rate


def _dimension(seen: Seen) -> int:
    if seen.dimension is None:
        raise InvalidInput("dimension", None, "the number of trainable parameters", "give it to the accountant")
    return seen.dimension


def _strange(seen: Seen, dataset_size: int, rate: float) -> str:
    denominator = constant_code(seen.denominator or 0.0)
    return (
        f"the sum is divided by {denominator}, which is not what Opacus makes of {dataset_size} records at the rate"
        f" {rate:.6g}: if it is a constant of yours, say so with fix(optimizer, denominator={denominator})"
    )


def promised(stretch: Stretch, sample_rate: float | None) -> Stretch:
    """`stretch`, its rate known to be public if the loader shows it, or if it was told and no loader was seen to differ."""
    seen = stretch.seen
    drawn, public = seen.drawn, seen.public
    told = sample_rate if sample_rate == stretch.sample_rate else public.sample_rate
    if drawn.is_cut:
        # one record more may be another batch, whatever is said
        told = None
    elif drawn.rate is not None:
        # what is seen counts: an ordinary loader's rate is not made public by a word
        told = stretch.sample_rate if drawn.public_rate else None
    return replace(stretch, seen=replace(seen, public=replace(public, sample_rate=told)))
