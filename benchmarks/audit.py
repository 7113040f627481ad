"""The auditor, measured: what judging costs beside running, how fast the optimal test is beside the paper's vote, memory.

Every ratio compares two things that are timed in the same run, alternately. The cost of judging is in processor time: one
thread and no waiting, so on an idle machine it is what a clock shows, and on a busy one it does not count the others.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np

import noisymean as nm
from benchmarks.table import publish
from noisymean.audit import audit, distinguisher
from noisymean.audit.distinguishers import LikelihoodRatio, NormalityTest, PaperVote
from noisymean.audit.trials import generator, plan, run_block
from noisymean.targets.protocol import Neighbour
from noisymean.targets.records import Gradients
from noisymean.targets.synthetic import Synthetic

LARGE, TRIALS = 1_485_217, 10_000


def large(kind: Gradients) -> Synthetic:
    mechanism = nm.EASGM(dataset_size=4, dimension=LARGE, sample_rate="0.5", noise_multiplier=10.0)
    return Synthetic(mechanism=mechanism, gradients=kind)


def cost_of_judging(runs: int = 12) -> list[list[str]]:
    """A few blocks with and without the test, scaled to 10,000 trials: a block costs the same whichever it is."""
    rows = []
    for kind in Gradients:
        target = large(kind)
        what = plan(target, distinguisher("likelihood-ratio", target), seed=1, trials=TRIALS)
        per_side = what.runs(0)

        def bare(block: int, target: Synthetic = target, per_side: tuple[int, int] = per_side) -> None:
            for number, (side, count) in enumerate(zip(Neighbour, per_side, strict=True)):
                target.release(side, generator(1, block, number), count)

        run_block(what, 0)
        bare(0)
        with_test, without = [], []
        for block in range(runs):
            with_test.append(_once(lambda block=block, what=what: run_block(what, block)))  # type: ignore[misc]
            without.append(_once(lambda block=block, bare=bare: bare(block)))  # type: ignore[misc]
        scale = TRIALS / sum(per_side)
        one, other = float(np.median(with_test)) * scale, float(np.median(without)) * scale
        rows.append([kind.value, f"{other:.0f} s", f"{one:.0f} s", f"{one / other:.3f}"])
    return rows


def exact_test_against_the_vote(repeats: int = 7) -> list[list[str]]:
    """Both judge the same 10,000 releases, N = 3, n = 100."""
    mechanism = nm.EASGM(dataset_size=3, dimension=100, sample_rate="0.05", noise_multiplier=10.0)
    target = Synthetic(mechanism=mechanism)
    source = np.random.default_rng(1)
    outputs = [target.release(side, source, TRIALS // 2) for side in Neighbour]
    rules = {
        "likelihood ratio": LikelihoodRatio(target.known()),
        **{f"the paper's vote, {test.value}": PaperVote(target.known(), test) for test in list(NormalityTest)[:3]},
    }
    rows, first = [], 0.0
    for name, rule in rules.items():
        times, scores = [], []
        for _ in range(repeats if name == "likelihood ratio" else 2):
            start = time.perf_counter()
            scores = [rule.features(part, source)[:, 0] for part in outputs]
            times.append(time.perf_counter() - start)
        threshold = rule.judge(None, None).threshold
        advantage = 1.0 - np.mean(scores[0] > threshold) - np.mean(scores[1] <= threshold)
        first = first or min(times)
        rows.append([name, f"{1e3 * min(times):.1f} ms", f"{min(times) / first:.0f}", f"{advantage:.3f}"])
    return rows


def whole_audits() -> list[list[str]]:
    """From the command to the verdict, 10,000 trials in one process."""
    rows = []
    for kind, rate, dimension in ((nm.EASGM, "0.05", 100), (nm.ASGM, "0.7", 100), (nm.ASGM, "0.7", 10_000)):
        mechanism = kind(dataset_size=4, dimension=dimension, sample_rate=rate, noise_multiplier=10.0)
        target = Synthetic(mechanism=mechanism)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = audit(target, distinguisher(None, target), seed=1)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
        name = f"{mechanism.name}, q = {rate}, n = {dimension:,}"
        rows.append([name, f"{result.seconds:.2f} s", f"{100.0 * (result.power or 0.0):.1f} %", f"{grown:.0f} MB"])
    return rows


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Measure and publish."""
    publish(
        "audit_exact_test",
        "The optimal test beside the paper's vote, the same 10,000 releases, EASGM, N = 3, n = 100",
        ["distinguisher", "time", "times the first", "1 - alpha - beta"],
        exact_test_against_the_vote(),
    )
    publish(
        "audit_whole",
        "Whole audits of 10,000 trials, N = 4, sigma = 10",
        ["setting", "time", "share of the true delta(0)", "memory added"],
        whole_audits(),
    )
    publish(
        "audit_cost",
        "10,000 trials of EASGM in 1,485,217 dimensions, N = 4: processor time (twelve blocks, scaled)",
        ["gradients", "the mechanism alone", "with the exact test", "ratio"],
        cost_of_judging(),
    )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
