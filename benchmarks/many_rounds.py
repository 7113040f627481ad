"""T rounds: time and width against the accountants that are installed, growth with T, n and N, and the sandwich.

`make bench` installs the peers (the dependency group "bench"); where one is missing the row says "not installed".
"""

from __future__ import annotations

import importlib
import resource
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import noisymean as nm
from benchmarks.table import publish, seconds
from noisymean.lifted import LiftedRounds
from noisymean.mechanisms import DatasetDenominator, Mechanism
from noisymean.outward import at_least, at_most
from noisymean.planned import Moving

DELTA = 1e-5
SETTINGS = {"A": (0.01, 1.0, 1_000), "B": (0.005, 10.0, 200), "C": (0.01, 0.8, 10_000)}
SANDWICH: dict[str, tuple[Mechanism, int]] = {
    "MNIST CNN": (nm.EASGM(dataset_size=60_000, dimension=26_010, sample_rate="256/60000", noise_multiplier=1), 3_516),
    "1.5 M diffusion": (
        nm.EASGM(dataset_size=60_000, dimension=1_485_217, sample_rate=0.005, noise_multiplier=10),
        2_000,
    ),
    "WRN-16-4": (nm.EASGM(dataset_size=50_000, dimension=2_700_000, sample_rate="4096/50000", noise_multiplier=3), 875),
    "ViT-B": (nm.EASGM(dataset_size=50_000, dimension=86_000_000, sample_rate=0.02, noise_multiplier=1), 1_000),
    "1e9 parameters": (nm.EASGM(dataset_size=10**6, dimension=10**9, sample_rate=0.001, noise_multiplier=0.8), 3_000),
    "FEASGM, 26,010": (nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate=0.005, noise_multiplier=10), 200),
    "FEASGM, 1,485,217": (
        nm.FEASGM(dataset_size=140_199, dimension=1_485_217, sample_rate=0.005, noise_multiplier=10),
        200,
    ),
    "ASGM": (nm.ASGM(dataset_size=60_000, dimension=26_010, sample_rate="256/60000", noise_multiplier=1), 3_516),
    "loader 60,000/600, one step": (
        nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1),
        1,
    ),
    "loader 60,000/600": (
        nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1),
        100,
    ),
    "loader 50,000/500": (
        nm.OpacusLoader(dataset_size=50_000, batch_size=500, dimension=550_570, noise_multiplier=1),
        1_000,
    ),
    "EASGM, sigma = 0.6": (
        nm.EASGM(dataset_size=10_000, dimension=10_000, sample_rate=0.01, noise_multiplier=0.6),
        1_000,
    ),
    "EASGM, q = 0.5": (nm.EASGM(dataset_size=10_000, dimension=100_000, sample_rate=0.5, noise_multiplier=20), 500),
    "EASGM, N = 1,000": (nm.EASGM(dataset_size=1_000, dimension=1_000, sample_rate=0.05, noise_multiplier=1), 100),
    "EASGM, N = 100": (nm.EASGM(dataset_size=100, dimension=100, sample_rate=0.1, noise_multiplier=1), 10),
}


# What lies between leakage and guarantee.
TERMS = ("all-zero, n + 1 dimensions", "shares of delta", "coins", "lattice")
# Few rounds and few records.
FEW: dict[str, tuple[Mechanism, int]] = {
    **{f"EASGM, MNIST CNN, T = {steps}": (SANDWICH["MNIST CNN"][0], steps) for steps in (1, 3, 10)},
    **{f"loader 60,000/600, T = {steps}": (SANDWICH["loader 60,000/600"][0], steps) for steps in (1, 3, 10)},
    "ASGM, N = 999, q = 0.1, T = 20": (
        nm.ASGM(dataset_size=999, dimension=1_000, sample_rate=0.1, noise_multiplier=1),
        20,
    ),
    "EASGM, N = 20, n = 2, q = 0.3, T = 3": (
        nm.EASGM(dataset_size=20, dimension=2, sample_rate=0.3, noise_multiplier=1),
        3,
    ),
    "EASGM, N = 10, n = 10, q = 0.1, T = 10": (
        nm.EASGM(dataset_size=10, dimension=10, sample_rate=0.1, noise_multiplier=1),
        10,
    ),
}
MNIST: dict[str, Any] = {"dataset_size": 60_000, "dimension": 26_010, "sample_rate": 0.01}
CALIBRATED: dict[str, tuple[Any, dict[str, Any]]] = {
    "EASGM": (nm.EASGM, MNIST),
    "FEASGM": (nm.FEASGM, {**MNIST, "dataset_size": 60_099}),
    "ASGM": (nm.ASGM, MNIST),
    "the loader": (nm.OpacusLoader, {"dataset_size": 60_000, "batch_size": 600, "dimension": 26_010}),
}


def dp_accounting_pld(rate: float, noise: float, steps: int) -> tuple[float, float]:
    """One side only: the width is not known."""
    dp, pld = importlib.import_module("dp_accounting"), importlib.import_module("dp_accounting.pld")
    accountant = pld.PLDAccountant()
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)
    return float("nan"), accountant.get_epsilon(DELTA)


def prv(rate: float, noise: float, steps: int) -> tuple[float, float]:
    """prv-accountant with eps_error 0.01."""
    package = importlib.import_module("prv_accountant")
    mechanism = package.PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate)
    accountant = package.PRVAccountant(
        prvs=mechanism, max_self_compositions=steps, eps_error=0.01, delta_error=DELTA / 1000
    )
    low, _, high = accountant.compute_epsilon(delta=DELTA, num_self_compositions=steps)
    return low, high


def opacus_prv(rate: float, noise: float, steps: int) -> tuple[float, float]:
    """Its default, eps_error 0.01 either way."""
    accountant = importlib.import_module("opacus.accountants").create_accountant(mechanism="prv")
    accountant.history = [(noise, rate, steps)]
    high = accountant.get_epsilon(DELTA)
    return high - 0.02, high


def ours(rate: float, noise: float, steps: int) -> tuple[float, float]:
    """The claimed interval."""
    answer = nm.account(nm.SGM(sample_rate=rate, noise_multiplier=noise), steps=steps, delta=DELTA)
    assert answer.claimed.epsilon is not None
    assert answer.claimed_lower.epsilon is not None
    return answer.claimed_lower.epsilon, answer.claimed.epsilon


def riskcal_pld(rate: float, noise: float, steps: int) -> tuple[float, float]:
    """Its accountant, which builds on dp-accounting's grid: one side only."""
    accountant = importlib.import_module("riskcal.accountants").CTDAccountant()
    accountant.history = [(noise, rate, steps)]
    return float("nan"), accountant.get_epsilon(delta=DELTA)


PEERS: dict[str, Callable[[float, float, int], tuple[float, float]]] = {
    "dp-accounting PLD": dp_accounting_pld,
    "prv-accountant": prv,
    "opacus prv": opacus_prv,
    "riskcal": riskcal_pld,
}


def against_peers() -> list[list[str]]:
    """One row for each setting and accountant: its time and width as multiples of ours."""
    rows = []
    for name, setting in SETTINGS.items():
        mine = seconds(partial(ours, *setting))
        low, high = ours(*setting)
        narrow = high - low
        rows.append(
            [
                f"{name}: noisymean",
                f"{mine:.3f} s",
                f"[{at_least(low, '.8f')}, {at_most(high, '.8f')}]",
                "1",
                f"1 ({narrow:.1e})",
            ]
        )
        for peer, ask in PEERS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    taken = seconds(partial(ask, *setting), repeats=1)
                    low, high = ask(*setting)
            except ImportError:
                rows.append([f"{name}: {peer}", "not installed", "", "", ""])
                continue
            width = f"{(high - low) / narrow:.0e}" if high > low else "one side only"
            rows.append([f"{name}: {peer}", f"{taken:.3f} s", f"[{low:.5f}, {high:.5f}]", f"{taken / mine:.1f}", width])
    return rows


def growth() -> list[list[str]]:
    """How the cost of a whole account depends on T, n and N."""
    rows = []
    base: dict[str, Any] = {"dataset_size": 60_000, "dimension": 10**6, "sample_rate": 0.01, "noise_multiplier": 2.0}

    def taken(steps: int, **changed: int) -> float:
        mechanism = nm.EASGM(**{**base, **changed})
        return seconds(lambda: nm.account(mechanism, steps=steps, delta=DELTA), repeats=1)

    first = taken(100)
    rows.append(["account of EASGM, T = 100", f"{first:.2f} s", "", ""])
    rows += [
        [f"T = {steps:.0e}", f"{(t := taken(steps)):.2f} s", f"{t / first:.2f} times", ""] for steps in (10**4, 10**6)
    ]
    rows += [
        [f"n = {n:.0e}", f"{(t := taken(100, dimension=n)):.2f} s", f"{t / first:.2f} times", ""]
        for n in (10**9, 10**12)
    ]
    rows += [
        [f"N = {n:.0e}", f"{(t := taken(100, dataset_size=n)):.2f} s", f"{t / first:.2f} times", ""]
        for n in (10**7, 10**9)
    ]
    for name, (mechanism, steps) in FEW.items():
        t = seconds(partial(nm.account, mechanism, steps=steps, delta=DELTA))
        rows.append([f"account of {name}", f"{t:.2f} s", f"{t / first:.2f} times", ""])
    for name, (kind, given) in CALIBRATED.items():
        t = seconds(partial(nm.calibrate, kind, target_epsilon=3.0, delta=DELTA, steps=1_000, **given), repeats=1)
        rows.append([f"calibrate {name} to epsilon = 3 (limit 1 s)", f"{t:.2f} s", "", ""])
    calibration = seconds(
        lambda: nm.calibrate(nm.SGM, target_epsilon=2.0, delta=DELTA, steps=1000, sample_rate=0.01), repeats=1
    )
    rows.append(["calibrate SGM to epsilon = 2 (limit 0.3 s)", f"{calibration:.2f} s", "", ""])
    rows += _calibrating_elsewhere(calibration)
    return rows


def _calibrating_elsewhere(mine: float) -> list[list[str]]:
    """Opacus' own search with its default accountant."""
    try:
        search = importlib.import_module("opacus.accountants.utils").get_noise_multiplier
    except ImportError:
        return [["opacus prv: the same", "not installed", "", ""]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = seconds(
            lambda: search(target_epsilon=2.0, target_delta=DELTA, sample_rate=0.01, steps=1000, accountant="prv"),
            repeats=1,
        )
    return [["opacus prv: the same", f"{taken:.2f} s", f"{taken / mine:.1f} times ours", ""]]


def sandwich() -> list[list[str]]:
    """guarantee / leakage for real settings, and what lies between the two, term by term."""
    rows = []
    for name, (mechanism, steps) in SANDWICH.items():
        taken = seconds(partial(nm.account, mechanism, steps=steps, delta=DELTA), repeats=1)
        answer = nm.account(mechanism, steps=steps, delta=DELTA)
        claim, leaked, sound = answer.claimed.epsilon, answer.leakage.epsilon, answer.guarantee.epsilon
        assert claim is not None
        assert leaked is not None
        assert sound is not None
        bounds = [at_most(claim, ".4g"), at_least(leaked, ".6g"), at_most(sound, ".6g")]
        rows.append([name, *bounds, f"{sound / leaked:.4f}", f"{taken:.2f} s", *_terms(mechanism, steps, leaked)])
    return rows


def _terms(mechanism: Mechanism, steps: int, leaked: float) -> list[str]:
    """What the start exceeds the leakage by, then what shares of delta, coins and lattice add; of the worst way round."""
    if not isinstance(mechanism, DatasetDenominator):
        return ["", "", "", ""]
    pairs = [one for one in (mechanism, mechanism.fewer()) if one is not None]
    ways = [LiftedRounds((Moving(one, steps),), (), back) for one in pairs for back in (False, True)]
    found = max((terms for way in ways if (terms := way.terms(DELTA)) is not None), key=sum)
    return [f"{term:.2g}" for term in (found.start - leaked, *found[1:])]


def main() -> None:
    """Measure and publish."""
    publish(
        "many_rounds",
        "T rounds of the noisy sum, delta = 1e-5",
        ["accountant", "time", "epsilon", "time / ours", "width / ours"],
        against_peers(),
    )
    publish("growth", "How the cost of an account grows", ["what", "time", "against the first row", ""], growth())
    publish(
        "sandwich",
        "guarantee / leakage, delta = 1e-5",
        ["setting", "claimed", "leakage", "guarantee", "guarantee / leakage", "time", *TERMS],
        sandwich(),
    )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
