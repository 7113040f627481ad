"""Simulate runs whose denominator is known, probe them, and count how often the interval has not the true one.

    python docs/scripts/measure_probe_run_simulated.py [--runs 300] [NAME ...]

Prints the second table of docs/probe-run.md. The simulation is that of the tests, `tests/finished_runs.py`: DP-SGD written out in
numpy, which imports nothing of the package. Half of the runs keep their weights in single precision.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import noisymean as nm

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from finished_runs import (
    Gradients,
    Settings,
    aligned,
    bent,
    least_squares,
    network,
    silent,
    towards,
    weights_of,
)

# from settings and a source of randomness to where the weights start, and the gradients
Made = Callable[[Settings, np.random.Generator], tuple[np.ndarray, Gradients]]


def still(parameters: int, gradients: Gradients) -> Made:
    """From weights 0."""
    return lambda _, __: (np.zeros(parameters), gradients)


def linear(parameters: int) -> Made:
    """Least squares."""
    return lambda settings, rng: (np.zeros(parameters), least_squares(parameters, 0, settings, rng))


def layers(inputs: int, hidden: int, classes: int) -> Made:
    """A network with one hidden layer."""
    return lambda settings, rng: network(inputs, hidden, classes, settings, rng)


def cone(parameters: int) -> Made:
    """All gradients of full length, towards one point from nearby."""
    return lambda _, rng: (0.1 * rng.standard_normal(parameters) / np.sqrt(parameters), towards)


NESTEROV = Settings(learning_rate=0.5, momentum=0.9, nesterov=True, weight_decay=0.01, steps=60)
REGIMES: Mapping[str, tuple[Settings, Made]] = {
    "no gradients, n = 500": (Settings(), still(500, silent)),
    "no gradients, n = 5": (Settings(steps=60, learning_rate=0.01), still(5, silent)),
    "all gradients equal, n = 500": (Settings(), still(500, aligned(500))),
    "all gradients equal, n = 500, b = 500, σ = 0.5": (
        Settings(rate=0.5, denominator=500, noise_multiplier=0.5),
        still(500, aligned(500)),
    ),
    "all gradients equal, n = 5": (Settings(steps=60), still(5, aligned(5))),
    "least squares, n = 50": (Settings(steps=60), linear(50)),
    "least squares, n = 500, σ = 0.5, lr = 1": (
        Settings(noise_multiplier=0.5, learning_rate=1.0, steps=60),
        linear(500),
    ),
    "network, n = 317, 8 steps": (Settings(learning_rate=0.5, steps=8), layers(20, 12, 5)),
    "network, n = 317, momentum, dampening, decay": (
        Settings(learning_rate=0.5, momentum=0.9, dampening=0.5, weight_decay=0.01, steps=60),
        layers(20, 12, 5),
    ),
    "network, n = 317, Nesterov, decay": (NESTEROV, layers(20, 12, 5)),
    "network, n = 317, every fifth": (Settings(learning_rate=0.5, every=5), layers(20, 12, 5)),
    "network, n = 317, b = 500, σ = 0.5, lr = 1, momentum": (
        Settings(rate=0.5, denominator=500, noise_multiplier=0.5, learning_rate=1.0, momentum=0.9, steps=60),
        layers(20, 12, 5),
    ),
    "network, n = 317, σ = 10, lr = 1, momentum": (
        Settings(noise_multiplier=10.0, learning_rate=1.0, momentum=0.9, steps=60),
        layers(20, 12, 5),
    ),
    "network, n = 6,605, b = 100, σ = 0.5, lr = 1, momentum": (
        Settings(rate=0.1, denominator=100, noise_multiplier=0.5, learning_rate=1.0, momentum=0.9),
        layers(60, 100, 5),
    ),
    "to one point, n = 2,000, lr = 0.1": (
        Settings(rate=0.1, denominator=100, noise_multiplier=0.5, steps=60),
        cone(2000),
    ),
    "to one point, n = 2,000, lr = 1, momentum": (
        Settings(rate=0.1, denominator=100, noise_multiplier=0.5, learning_rate=1.0, momentum=0.9, steps=60),
        cone(2000),
    ),
    "a hill of trace 90, n = 300, momentum": (
        Settings(rate=0.1, denominator=100, learning_rate=1.0, momentum=0.9),
        still(300, bent(-0.3)),
    ),
    "a hill of trace 300, n = 300": (
        Settings(rate=0.1, denominator=100, learning_rate=1.0),
        still(300, bent(-1.0)),
    ),
}


def probed(settings: Settings, weights: np.ndarray, confidence: float, folder: Path) -> nm.FinishedRun:
    """By its updates where that is enough, else by its checkpoints."""
    if settings.weight_decay == 0.0 and settings.every == 1:
        return nm.probe_run(np.diff(weights.astype(np.float64), axis=0), confidence=confidence, **settings.told)
    for step, row in enumerate(weights):
        np.savez(folder / f"step-{step}.npz", w=row)
    return nm.probe_run(folder, confidence=confidence, **settings.told)


def row(name: str, runs: int) -> str:
    """One line of the table: at 95 % and at 60 %, how many are told, and of those all too high, all too low."""
    settings, made = REGIMES[name]
    counts = {confidence: [0, 0, 0] for confidence in (0.95, 0.6)}
    for seed in range(runs):
        rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
        start, gradients = made(settings, rng)
        weights = weights_of(settings, start, gradients, rng, np.float32 if seed % 2 else np.float64)
        for confidence, count in counts.items():
            with tempfile.TemporaryDirectory() as folder:
                interval = probed(settings, weights, confidence, Path(folder)).interval
            if interval is not None:
                low, high = interval
                for place, happened in enumerate((True, low > settings.denominator, high < settings.denominator)):
                    count[place] += happened
    return f"| {name} | {' | '.join(str(one) for count in counts.values() for one in count)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    print("| runs | told at 95 % | all too high | all too low | told at 60 % | all too high | all too low |")
    print(f"|{'---|' * 7}")
    for name in asked.names or REGIMES:
        print(row(name, asked.runs), flush=True)


if __name__ == "__main__":
    main()
