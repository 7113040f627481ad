"""What a plan costs, before any data are collected."""
import argparse

import dp_accounting
from dp_accounting.pld import PLDAccountant

PLANS = {"small": (20_000, 200, 5), "medium": (200_000, 1000, 10), "large": (2_000_000, 8000, 20)}


def epsilon(people, batch, epochs, sigma, delta):
    ledger = PLDAccountant()
    ledger.compose(dp_accounting.PoissonSampledDpEvent(batch / people, dp_accounting.GaussianDpEvent(sigma)), epochs * people // batch)
    return ledger.get_epsilon(delta)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--delta", type=float, default=1e-7)
    for name, plan in PLANS.items():
        print(name, [round(epsilon(*plan, s, p.parse_args().delta), 2) for s in (0.6, 0.8, 1.0, 1.5)])
