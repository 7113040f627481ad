"""How often an audit calls a true claim violated: every distinguisher, on claims that are the whole truth, at two levels.

    python -m benchmarks.false_alarms [--audits 1000] [--only learned] [--out FILE]

One line of FILE for each audit that is done: a run that was broken off goes on where it was. When all are done the table is
published. The claim of a target is its exact curve, so nothing is in its favour but the limits themselves: with a test of another
kind, or trials that are learned from and judged, alarms would be more than the level.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.stats import beta as beta_distribution

import noisymean as nm
from benchmarks.table import publish
from noisymean.audit import distinguisher
from noisymean.audit.estimate import estimate
from noisymean.audit.reference import Reference, reference
from noisymean.audit.runner import Processes
from noisymean.audit.stages import Stages
from noisymean.audit.verdict import judge
from noisymean.laws.closed import Gaussian
from noisymean.laws.finite import FiniteOutcomes
from noisymean.numerics.logs import Array
from noisymean.targets import registry
from noisymean.targets.entry import target_of
from noisymean.targets.protocol import Centre, Known, Neighbour, Structure, Target
from noisymean.tradeoff import TradeOff

LEVELS = (0.05, 0.4)
TRIALS, NUMBERS, SIGMA = 320, 6, 1.5


def noisy_sum(rounds: int) -> Target:
    """All records in every batch, all of D zero: a Gaussian shift, the whole of what is claimed."""
    mechanism = nm.SGM(dataset_size=3, dimension=NUMBERS, sample_rate=1, noise_multiplier=SIGMA)
    return target_of(mechanism, gradients="zero", steps=rounds)


def _shifted(extra_record: bool, generator: np.random.Generator, rounds: int) -> Array:
    found = SIGMA * generator.standard_normal((rounds, NUMBERS))
    found[:, 0] += extra_record
    return found


def once(extra_record: bool, generator: np.random.Generator) -> Array:
    """The same as a function of the user's."""
    return _shifted(extra_record, generator, 1)


def three_times(extra_record: bool, generator: np.random.Generator) -> Array:
    """Three rounds of it."""
    return _shifted(extra_record, generator, 3)


for _function, _rounds in ((once, 1), (three_times, 3)):
    _function.claim = Gaussian(math.sqrt(_rounds) / SIGMA)  # type: ignore[attr-defined]
    # the bound is 1, in the units in which it releases
    _function.known = Known(  # type: ignore[attr-defined]
        nm.SGM(dataset_size=3, dimension=NUMBERS, sample_rate=1, noise_multiplier=SIGMA), 1.0, structured=Structure.ZERO
    )


def randomised(extra_record: bool, generator: np.random.Generator) -> Array:
    """Answers with few outcomes: true with probability 0.7, beside numbers that say nothing."""
    told = extra_record if generator.random() < 0.7 else not extra_record
    return np.concatenate([[float(told)], generator.integers(0, 3, NUMBERS - 1)])


randomised.claim = FiniteOutcomes(np.array([0.7, 0.3]), np.array([0.3, 0.7]))  # type: ignore[attr-defined]


def summed(
    gradients: Array,
    generator: np.random.Generator,
    *,
    sample_rate: float,
    noise_multiplier: float,
    max_grad_norm: float,
) -> Array:
    """DP-SGD as it should be, on gradients that an audit chooses."""
    lengths = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300)
    clipped = gradients * np.minimum(1.0, max_grad_norm / lengths)
    batch = clipped[generator.random(len(clipped)) < sample_rate]
    return np.asarray(
        batch.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
    )


@final
@dataclass(frozen=True, kw_only=True)
class Seen:
    """A target whose adversary sees the weights: noise of scale 1 on D and of scale `ratio` on D', in two numbers."""

    ratio: float = 2.0
    steps: int = 1
    dimension: int = 2
    name: str = "scales"

    def configuration(self) -> Mapping[str, Any]:
        return {"target": "scales", **asdict(self)}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Seen:
        return cls(**{name: value for name, value in configuration.items() if name != "target"})

    def known(self) -> Known | None:
        return None

    def claim(self) -> TradeOff:
        """|x|^2 / 2 over T rounds is Gamma(T) in units of the scale squared: of finely cut outcomes, above which no curve is."""
        from scipy.stats import gamma

        # the likelihood ratio rises with |x|^2, so cells of it, in which a coin decides, are a curve that is hardly above
        edges = np.concatenate([[0.0], np.geomspace(1e-4, 400.0, 40_000), [np.inf]])
        p, q = (np.diff(gamma(self.steps, scale=scale).cdf(edges)) for scale in (1.0, self.ratio**2))
        kept = (p > 0.0) | (q > 0.0)
        return FiniteOutcomes(p[kept] / p[kept].sum(), q[kept] / q[kept].sum())

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        scale = self.ratio if neighbour is Neighbour.LARGER else 1.0
        return np.asarray(scale * generator.standard_normal((trials, self.steps, self.dimension)))

    def centres(self, outputs: Array) -> Iterator[Centre]:
        for _ in outputs:
            yield Centre(np.zeros(self.dimension), np.zeros((0, self.dimension)))


registry.TARGETS["scales"] = "benchmarks.false_alarms:Seen"
_HERE = Path(__file__)


Make = Callable[[int], Target]


def _summed(rounds: int) -> Make:
    return lambda seed: noisy_sum(rounds)


def _own(name: str) -> Make:
    return lambda seed: target_of(f"{_HERE}:{name}")


def _chosen(rounds: int) -> Make:
    run = {"dataset_size": 3, "dimension": NUMBERS, "sample_rate": "1", "noise_multiplier": SIGMA, "steps": rounds}
    return lambda seed: target_of(f"{_HERE}:summed", gradient_seed=seed, **run)


def _seen(rounds: int) -> Make:
    return lambda seed: Seen(steps=rounds)


def cases() -> dict[tuple[str, str], tuple[Make, int]]:
    """(distinguisher, target) -> how to make it for a seed, and trials of an audit."""
    found: dict[tuple[str, str], tuple[Make, int]] = {}
    for rounds, name in ((1, "once"), (3, "three_times")):
        for test in ("likelihood-ratio", "paper", "learned"):
            found[test, f"synthetic, T = {rounds}"] = _summed(rounds), TRIALS
            found[test, f"callable, T = {rounds}"] = _own(name), TRIALS
        found["learned", f"callable, the pair is chosen, T = {rounds}"] = _chosen(rounds), 1_000
        found["residual", f"the weights are seen, T = {rounds}"] = _seen(rounds), TRIALS
    found["learned", "callable of few outcomes, T = 1"] = _own("randomised"), TRIALS
    return dict(sorted(found.items()))


CASES = cases()


@lru_cache
def _truth(name: str, what: str) -> Reference | None:
    """Thresholds of a test that is fixed by theory, from a simulation of its own."""
    target = CASES[name, what][0](0)
    known = target.known()
    return (
        None
        if known is None or name != "likelihood-ratio"
        else reference(known, target.steps, np.random.default_rng(0))
    )


def alarms(name: str, what: str, seed: int) -> list[bool]:
    """One audit from the first stage to the verdict, at each of LEVELS."""
    make, trials = CASES[name, what]
    target = make(seed)
    claim = target.claim()
    assert claim is not None
    stages = Stages(target, distinguisher(name, target), seed, trials)
    ran = stages.run(Processes())
    fixed = ran.chosen.distinguisher.judge(ran.learned, _truth(name, what))
    found = (estimate(ran.judged, fixed, confidence=1.0 - level, delta=1e-5) for level in LEVELS)
    return [judge(one, claim).word == "violated" for one in found]


def done_in(out: Path) -> dict[tuple[str, str, int], list[bool]]:
    """What a file has; a last line that was cut off is none."""
    found = {}
    for line in out.read_text(encoding="utf-8").splitlines() if out.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["distinguisher"], one["target"], one["seed"]] = one["violated"]
    return found


def run(seeds: range, out: Path, only: str | None) -> dict[tuple[str, str, int], list[bool]]:
    """All audits that are not there yet, the cases in turn."""
    there = done_in(out)
    with out.open("a", encoding="utf-8") as stream:
        # after a line that was cut off
        stream.write("\n")
        for seed in seeds:
            for name, what in CASES:
                if (name, what, seed) in there or only not in (None, name):
                    continue
                violated = alarms(name, what, seed)
                there[name, what, seed] = violated
                one = {"distinguisher": name, "target": what, "seed": seed, "violated": violated}
                stream.write(json.dumps(one) + "\n")
                stream.flush()
    return there


def table(there: dict[tuple[str, str, int], list[bool]]) -> list[list[str]]:
    """Alarms of each case at each level, with Clopper and Pearson's 95 % interval."""
    rows = []
    for name, what in CASES:
        mine = [violated for (one, other, _), violated in there.items() if (one, other) == (name, what)]
        if not mine:
            continue
        cells = []
        for number in range(len(LEVELS)):
            wrong, count = Counter(violated[number] for violated in mine)[True], len(mine)
            low = beta_distribution.ppf(0.025, wrong, count - wrong + 1) if wrong else 0.0
            high = beta_distribution.ppf(0.975, wrong + 1, count - wrong) if wrong < count else 1.0
            cells.append(f"{100 * wrong / count:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
        rows.append([name, what, f"{len(mine):,}", *cells])
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run, go on, and publish what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--audits", type=int, default=1_000, help="of each case [default: 1000]")
    parser.add_argument(
        "--first", type=int, default=0, help="seed to begin with: two runs, each with a file, share the work"
    )
    parser.add_argument("--out", type=Path, default=Path("out", "false_alarms.jsonl"), help="a line for each audit")
    parser.add_argument("--only", help="one distinguisher")
    asked = parser.parse_args(arguments)
    asked.out.parent.mkdir(exist_ok=True)
    there = run(range(asked.first, asked.audits), asked.out, asked.only)
    publish(
        "false_alarms",
        "False alarms: audits that call a true claim violated, where the claim is the whole truth",
        ["distinguisher", "target", "audits", *(f"at a level of {100 * level:.0f} %" for level in LEVELS)],
        table(there),
    )


if __name__ == "__main__":
    main()
