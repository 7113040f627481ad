"""Batches that are not drawn by Poisson sampling: what an account takes beside that of Poisson sampling, how far apart its two
bounds are, and random allocation beside the package that has both bounds for it.
"""

from __future__ import annotations

import importlib
import time
from functools import partial

import noisymean as nm
from benchmarks.table import publish, seconds
from noisymean.mechanisms import Mechanism
from noisymean.outward import at_least, at_most

DELTA = 1e-5
# Batches of an epoch, epochs, noise.
RUNS = (
    (10, 1, 1.0), (10, 1_000, 1.0), (100, 1, 1.0), (100, 1, 0.5), (1_000, 1, 0.4), (1_000, 30, 5.0), (100_000, 1, 1.0),
    (100_000, 1_000, 1.0),
)  # fmt: skip


def main() -> None:
    rows = []
    for batches, epochs, sigma in RUNS:
        steps = batches * epochs
        usual = seconds(partial(nm.account, run(nm.Sampling.POISSON, batches, sigma), steps=steps, delta=DELTA))
        for sampling in nm.Sampling:
            account = partial(nm.account, run(sampling, batches, sigma), steps=steps, delta=DELTA)
            answer, took = account(), seconds(account)
            leaked, sound = answer.leakage.epsilon, answer.guarantee.epsilon
            assert leaked is not None, "there always is one"
            assert sound is not None, "every one of these has a proof"
            rows.append(
                (
                    f"{batches:,} batches, {epochs:,} epochs, sigma = {sigma:g}",
                    sampling.value,
                    answer.adjacency.value,
                    f"{took:.2f} s",
                    f"{took / usual:.2g}",
                    at_least(leaked, ".5g"),
                    at_most(sound, ".5g"),
                    f"{sound / leaked:.4f}",
                )
            )
    header = (
        "run", "sampling", "adjacency", "account", "time / Poisson's", "leakage", "guarantee", "guarantee / leakage",
    )  # fmt: skip
    publish("sampling", "Other ways of drawing batches, delta = 1e-5", header, rows)
    against_peer()


# Batches of an epoch, epochs, noise.
ALLOCATED = ((100, 1, 1.0), (100, 1, 0.5), (1_000, 1, 0.4), (100, 10, 1.0))


def against_peer() -> None:
    rows = []
    for batches, epochs, sigma in ALLOCATED:
        account = partial(
            nm.account, run(nm.Sampling.BALLS_IN_BINS, batches, sigma), steps=batches * epochs, delta=DELTA
        )
        answer, took = account(), seconds(account)
        low, high = answer.leakage.epsilon, answer.guarantee.epsilon
        assert low is not None, "there always is one"
        assert high is not None, "random allocation has a proof"
        setting = f"{batches:,} batches, {epochs:,} epochs, sigma = {sigma:g}"
        rows.append((setting, "noisymean", at_least(low, ".5g"), at_most(high, ".5g"), f"{took:.2f} s", "1"))
        try:
            peer = importlib.import_module("PLD_accounting")
        except ImportError:
            rows.append((setting, "PLD-accounting", "not installed", "", "", ""))
            continue
        # minutes in all, so it is run once
        start = time.perf_counter()
        upper, lower = peer.gaussian_allocation_epsilon_range(
            delta=DELTA, sigma=sigma, num_steps=batches, num_epochs=epochs
        )
        theirs = time.perf_counter() - start
        ratios = f"{theirs / took:.0f}", f"{(upper - lower) / (high - low):.0f}"
        rows.append((setting, "PLD-accounting", at_least(lower, ".5g"), at_most(upper, ".5g"), *ratios))
    header = ("random allocation", "package", "at least", "at most", "time, or times ours", "width, times ours")
    publish("allocation", "Random allocation against a peer, delta = 1e-5", header, rows)


def run(sampling: nm.Sampling, batches: int, sigma: float) -> Mechanism:
    return nm.SGM(sample_rate=f"1/{batches}", noise_multiplier=sigma, sampling=sampling)


if __name__ == "__main__":
    main()
