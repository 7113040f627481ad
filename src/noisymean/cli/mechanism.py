"""From options to the mechanism they describe: any registered one whose settings are among the options.

What a kind is made with, what it is called and what it divides by is read off the kind itself, so that help, completion and
complaints follow from the registry. A mechanism that needs no new option needs nothing here.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any, final

from noisymean.choices import written_as
from noisymean.cli import values
from noisymean.cli.complaints import WANTED, Missing, OutOfPlace, refused
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.mechanisms import KINDS, DrawnAnyWay, Mechanism, Sampling

# Those of the engine of Opacus.
_ACCOUNTANTS = ("prv", "rdp", "gdp")


@final
@dataclass(frozen=True)
class Calibrated:
    """What make_private_with_epsilon was told, as typed; the noise then comes from the number of records."""

    epsilon: str
    delta: str | None
    epochs: str | None
    accountant: str | None

    def settings(self) -> dict[str, Any]:
        """What a mechanism that calibrates its own noise is made with."""
        for name, value in (("calibrated_delta", self.delta), ("calibrated_epochs", self.epochs)):
            if value is None:
                raise Missing(name, "--calibrated-to needs it")
        accountant = None if self.accountant is None else written_as(self.accountant, _ACCOUNTANTS)
        if accountant is None and self.accountant is not None:
            raise refused("calibrated_with", self.accountant)
        constant = self.delta != "1/N"
        return {
            "target_epsilon": values.number("calibrated_to", self.epsilon),
            "target_delta": values.number("calibrated_delta", str(self.delta)) if constant else "1/N",
            "epochs": values.whole("calibrated_epochs", str(self.epochs)),
            "accountant": accountant,
        }


def mechanism_of(
    *,
    name: str | None,
    noise_multiplier: str | None,
    drop_last: bool = False,
    calibrated: Calibrated | None = None,
    sampling: str | None = None,
    **sizes: str | None,
) -> Mechanism:
    """The mechanism that the text of these options describes; `sizes` are those of its data, its model and its batches."""
    if name is None:
        raise Missing("mechanism")
    kind = kind_named(name)
    batch = sizes["batch_size"]
    drawn = Sampling.POISSON if sampling is None else values.choice("sampling", sampling, Sampling)
    of_a_size = kind.takes("batch_size") and (drawn in _OF_A_SIZE or not _size_is_rate(kind))
    if None not in (sizes["sample_rate"], batch) and not of_a_size:
        raise InvalidInput("batch_size", batch, "left out when --sample-rate is given", "give either, not both")
    _check_unused(kind, drop_last, calibrated, drawn)
    if (noise_multiplier is None) == (calibrated is None):
        if noise_multiplier is None:
            other = f"or --calibrated-to for {kind.name}" if kind.takes("target_epsilon") else ""
            raise Missing("noise_multiplier", other)
        raise InvalidInput(
            "noise_multiplier", noise_multiplier, "left out with --calibrated-to", "give either, not both"
        )
    typed = values.read(**sizes, noise_multiplier=noise_multiplier)
    if calibrated is not None:
        typed |= calibrated.settings()
    typed |= {"drop_last": drop_last or None, "sampling": None if drawn is Sampling.POISSON else drawn.value}
    return _built(kind, typed)


def kind_named(name: str) -> type[Mechanism]:
    """The mechanism of that name, or of that class."""
    found = written_as(name, KINDS)
    if found is None:
        raise refused("mechanism", name)
    return KINDS[found]


def _check_unused(kind: type[Mechanism], drop_last: bool, calibrated: Calibrated | None, drawn: Sampling) -> None:
    """Complain about an option that says nothing about this kind."""
    if calibrated is not None and not kind.takes("target_epsilon"):
        those = " or ".join(name for name, other in KINDS.items() if other.takes("target_epsilon"))
        raise InvalidInput(
            "calibrated_to", calibrated.epsilon, f"left out without {those}", "it is about its data loader"
        )
    if drop_last and not kind.rate_from_size and not drawn.is_cut:
        those = " or ".join(name for name, other in KINDS.items() if other.rate_from_size)
        cut = ", ".join(one.value for one in Sampling if one.is_cut)
        raise OutOfPlace("--drop-last", f"left out without {those}", f"or used with --sampling {cut}")


def _built(kind: type[Mechanism], typed: dict[str, Any]) -> Mechanism:
    """The mechanism of that kind; what was typed goes to the settings of the same name."""
    if "sample_rate" in typed and not kind.takes("sample_rate"):
        raise InvalidInput("sample_rate", typed["sample_rate"], f"left out for {kind.name}", kind.rate_source)
    given = {}
    for one in fields(kind):  # type: ignore[arg-type]
        value = _rate(typed) if one.name == "sample_rate" else _setting(kind, typed, one.name)
        if value is not None:
            given[one.name] = value
        elif one.default is MISSING and one.default_factory is MISSING:
            if one.name not in WANTED:
                raise NoisymeanError(f"--mechanism={kind.name}: no option gives its {one.name}; use it from Python")
            raise Missing(one.name)
    return kind(**given)


def _setting(kind: type[Mechanism], typed: dict[str, Any], name: str) -> Any:
    """What was typed. A batch size is only another way to say the rate, unless batches really are of that size."""
    if name == "batch_size" and _size_is_rate(kind):
        return typed.get("batch_size") if typed["sampling"] in [one.value for one in _OF_A_SIZE] else None
    return typed.get(name)


def _size_is_rate(kind: type[Mechanism]) -> bool:
    """Whether a batch size is another way to say the rate, and no setting of its own."""
    return issubclass(kind, DrawnAnyWay)


# Ways of drawing whose batches have a size, which then may be given beside the rate that the accountant was told.
_OF_A_SIZE = tuple(one for one in Sampling if one.is_cut or one is Sampling.FIXED_SIZE)


def _rate(typed: dict[str, Any]) -> str | Fraction:
    """q as written, or b/N exactly."""
    rate, batch, size = (typed.get(name) for name in ("sample_rate", "batch_size", "dataset_size"))
    if rate is not None:
        return str(rate)
    if batch is None:
        raise Missing("sample_rate", "or --batch-size")
    if size is None:
        raise Missing("dataset_size", "--batch-size needs it")
    if size < 1:
        raise InvalidInput("dataset_size", size, ">= 1 with --batch-size", "q = b/N has no value without")
    if not 1 <= batch <= size:
        raise InvalidInput("batch_size", batch, f"from 1 to the dataset size {size}", "q = b/N")
    return Fraction(batch, size)
