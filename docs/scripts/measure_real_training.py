"""What a trial of real training costs, for docs/audit.md: seconds of one processor, and the most memory.

    python docs/scripts/measure_real_training.py

Processor time, which the other work of a machine changes little. Needs MNIST (noisymean data fetch mnist).
"""

from __future__ import annotations

import resource
from time import process_time

import numpy as np

from noisymean.audit.distinguishers import Residual
from noisymean.paper.real_training import real_training
from noisymean.targets.protocol import Neighbour

RECORDS, BATCH = 60_000, 600
# steps of a run, and how many runs
RUNS = ((1, 10), (20, 2))


def main() -> None:
    """Print a line for each length of a run."""
    for steps, runs in RUNS:
        target, random = real_training(dataset_size=RECORDS, batch_size=BATCH, steps=steps), np.random.default_rng(0)
        rule = Residual(target)
        begun = process_time()
        first = target.release(Neighbour.SMALLER, random, 1)
        loaded = process_time()
        rule.features(first, random)
        ready = process_time()
        outputs = target.release(Neighbour.SMALLER, random, runs)
        released = process_time()
        rule.features(outputs, random)
        judged = process_time()
        print(
            f"T = {steps}: first trial {loaded - begun:.1f} s, its centres {ready - loaded:.1f} s;"
            f" a trial {(released - ready) / runs:.2f} s, its centres {(judged - released) / runs:.2f} s",
            flush=True,
        )
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
