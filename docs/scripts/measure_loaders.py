"""Guarantee over leakage of loaders whose rate moves; prints the table of docs/theory.md.

    python docs/scripts/measure_loaders.py

One more record and an epoch has one more batch: the rate goes from 1/k to 1/(k + 1), and every record's coin tells of it.
"""

from __future__ import annotations

from noisymean import OpacusLoader, account

BATCHES = (1, 2, 5, 10, 20, 100, 500)
SIGMAS = (0.6, 1.0, 2.0, 5.0)
RECORDS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
STEPS, DIMENSION, DELTA = 100, 100_000, 1e-5


def ratio(batches: int, records: int, sigma: float) -> str:
    """Guarantee over leakage after STEPS steps."""
    loader = OpacusLoader(
        dataset_size=records, batch_size=records // batches, dimension=DIMENSION, noise_multiplier=sigma
    )
    found = account(loader, steps=STEPS, delta=DELTA)
    sound, leaked = found.guarantee.epsilon, found.leakage.epsilon
    return "none" if sound is None or leaked is None else f"{sound / leaked:.4g}"


def main() -> None:
    """Print the table."""
    print("| batches an epoch | σ |", *(f"N = {records:,} |" for records in RECORDS))
    print("|---|---|" + "---|" * len(RECORDS))
    for batches in BATCHES:
        for sigma in SIGMAS:
            print(f"| {batches} | {sigma:g} |", *(f"{ratio(batches, records, sigma)} |" for records in RECORDS))


if __name__ == "__main__":
    main()
