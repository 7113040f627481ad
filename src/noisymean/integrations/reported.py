"""What the accountants that users run would report for a run: Opacus' and dp_accounting's, where they are installed.

They are told the sample rate and the noise multiplier and nothing of the denominator, as in real training scripts; orders and
settings are each package's own defaults.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from noisymean.mechanisms import Mechanism

Ask: TypeAlias = Callable[[Any, float, float, int, float], float]

# Packages that have accountants, and our extras that bring them.
_EXTRAS = {"opacus": "audit", "dp_accounting": "accounting"}


def reported(mechanism: Mechanism, *, steps: int, delta: float, only: str | None = None) -> dict[str, float]:
    """Name of the accountant -> epsilon; those whose package can be imported and which answer, or just the one named."""
    arguments = (mechanism.told_rate().value, mechanism.noise_multiplier, steps, delta)
    asked = _ACCOUNTANTS if only is None else {only: _ACCOUNTANTS[only]}
    answers = {name: _answer(module, ask, arguments) for name, (module, ask) in asked.items()}
    return {name: epsilon for name, epsilon in answers.items() if epsilon is not None}


def not_installed() -> dict[str, str]:
    """The packages whose accountants are asked and which are not here, each with the extra that brings it."""
    return {name: extra for name, extra in _EXTRAS.items() if importlib.util.find_spec(name) is None}


def _answer(module: str, ask: Ask, arguments: tuple[float, float, int, float]) -> float | None:
    """What one of them says; None if it is not installed or gives up."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ask(importlib.import_module(module), *arguments)
    except (ImportError, ArithmeticError, ValueError, MemoryError):
        return None


def _opacus(kind: str, accountants: Any, rate: float, noise: float, steps: int, delta: float) -> float:
    accountant = accountants.create_accountant(mechanism=kind)
    accountant.history = [(noise, rate, steps)]
    return float(accountant.get_epsilon(delta))


def _dp_accounting(kind: str, dp: Any, rate: float, noise: float, steps: int, delta: float) -> float:
    package = importlib.import_module(f"dp_accounting.{kind}")
    accountant = package.RdpAccountant() if kind == "rdp" else package.PLDAccountant()
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)
    return float(accountant.get_epsilon(delta))


_ACCOUNTANTS: dict[str, tuple[str, Ask]] = {
    **{f"opacus {kind}": ("opacus.accountants", partial(_opacus, kind)) for kind in ("rdp", "prv", "gdp")},
    **{f"dp_accounting {kind}": ("dp_accounting", partial(_dp_accounting, kind)) for kind in ("rdp", "pld")},
}
