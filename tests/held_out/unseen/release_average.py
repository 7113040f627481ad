"""Noisy sums were released each week; what is done with them afterwards costs nothing."""
import csv
import secrets

import numpy as np

CAP = 24.0


def weekly(hours, scale, rng):
    return float(np.clip(hours, 0.0, CAP).sum() + rng.normal(0.0, scale * CAP))


def smooth(released, width=4):
    return [sum(released[max(0, i - width + 1) : i + 1]) / len(released[max(0, i - width + 1) : i + 1]) for i in range(len(released))]


def main(paths, scale=3.0):
    rng = np.random.default_rng(secrets.randbits(128))
    released = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            hours = np.array([float(row["hours"]) for row in csv.DictReader(file)])
        released.append(weekly(hours, scale, rng))
    print([round(v, 1) for v in smooth(released)], sum(released) / len(released))
