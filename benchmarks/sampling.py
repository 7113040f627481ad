"""Batches that are not drawn by Poisson sampling: what an account takes beside that of Poisson sampling, and how far apart its
two bounds are.
"""

from __future__ import annotations

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


def run(sampling: nm.Sampling, batches: int, sigma: float) -> Mechanism:
    return nm.SGM(sample_rate=f"1/{batches}", noise_multiplier=sigma, sampling=sampling)


if __name__ == "__main__":
    main()
