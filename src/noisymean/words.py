"""A mechanism in words and as plain data, for everyone who prints one."""

from __future__ import annotations

from fractions import Fraction

from noisymean.mechanisms import Mechanism, OpacusLoader


def settings_line(mechanism: Mechanism, *, greek: bool = True) -> str:
    """`EASGM: N = 59,999, n = 26,010, q = 0.005, σ = 10`, without what was not given."""
    return f"{mechanism.name.upper()}: {numbers_line(mechanism, greek=greek)}"


def numbers_line(mechanism: Mechanism, *, greek: bool = True) -> str:
    """The same without the name."""
    sizes = [
        f"{symbol} = {value:,}"
        for symbol, value in (("N", mechanism.dataset_size), ("n", mechanism.dimension))
        if value is not None
    ]
    noise = f"{'σ' if greek else 'sigma'} = {mechanism.noise_multiplier:g}"
    return ", ".join([*sizes, f"q = {rate_text(mechanism.rate)}", noise])


def rate_text(rate: Fraction) -> str:
    """A short decimal if the rate is one, a short fraction if it is one, else four digits."""
    decimal = f"{float(rate):.6g}"
    if Fraction(decimal) == rate:
        return decimal
    return str(rate) if len(str(rate)) <= 11 else f"{float(rate):.4g}"


def settings(mechanism: Mechanism) -> dict[str, object]:
    """What was computed, in numbers; the exact rate as a fraction beside its float."""
    return {
        "dataset_size": mechanism.dataset_size,
        "dimension": mechanism.dimension,
        "sample_rate": mechanism.q,
        "sample_rate_exact": str(mechanism.rate),
        "noise_multiplier": mechanism.noise_multiplier,
        **(_loaded(mechanism) if isinstance(mechanism, OpacusLoader) else {}),
    }


def _loaded(mechanism: OpacusLoader) -> dict[str, object]:
    """What the data loader was, and what its noise was calibrated to."""
    dropping = ("drop_last",) if mechanism.drop_last else ()
    calibrated = ("target_epsilon", "target_delta", "epochs", "accountant") if mechanism.is_calibrated else ()
    return {name: getattr(mechanism, name) for name in ("batch_size", *dropping, *calibrated)}
