"""What the value of each option must be: one table behind the complaint about a bad value and the one about a missing value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from noisymean.choices import did_you_mean
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.mechanisms import KINDS, LARGEST_DATASET, LARGEST_DIMENSION, Adjacency, Sampling

MOST_POINTS = 10**6
_WRITTEN = "write it as 60000, 60_000 or 6e4"


@final
@dataclass(frozen=True)
class Wanted:
    """What the value of an option must be, an example of one, and how it may be written if that is not obvious."""

    allowed: str
    example: str
    written: str = ""
    # all that it can be, where these are few names
    names: tuple[str, ...] = ()

    def remedy(self, typed: str, value: object = "") -> str:
        """What to do about this value: the name that was meant, if one is close."""
        return did_you_mean(str(value), self.names) or self.written or f"e.g. {typed} {self.example}"


def _one_of(names: Sequence[str], example: str) -> Wanted:
    return Wanted(f"one of {', '.join(names)}", example, names=tuple(names))


# By Python name.
WANTED = {
    "dataset_size": Wanted(f"a whole number from 0 to {LARGEST_DATASET:.0e}", "59999", _WRITTEN),
    "dimension": Wanted(f"a whole number from 1 to {LARGEST_DIMENSION:.0e}", "26010", _WRITTEN),
    "sample_rate": Wanted("a number with 0 < q <= 1", "0.005", "write it as 0.005 or 1/200"),
    "batch_size": Wanted("a whole number from 1 to the dataset size", "256", _WRITTEN),
    "noise_multiplier": Wanted("a finite number > 0", "1.0"),
    "drop_last": Wanted("left out without opacus-loader", ""),
    "calibrated_to": Wanted("a number > 0", "3"),
    "calibrated_delta": Wanted("a number with 0 < delta <= 1, or 1/N", "1e-5"),
    "calibrated_epochs": Wanted("a whole number >= 1", "10"),
    "calibrated_with": _one_of(["prv", "rdp", "gdp"], "prv"),
    "alpha": Wanted("numbers from 0 to 1, separated by commas", "0.01,0.1,0.5"),
    "points": Wanted(f"a whole number from 2 to {MOST_POINTS:.0e}", "201"),
    "steps": Wanted("a whole number from 1 to 1e+09", "1000", _WRITTEN),
    "epochs": Wanted("a number > 0", "10"),
    "delta": Wanted("a number with 0 < delta <= 1", "1e-5"),
    "epsilon": Wanted("a number >= 0", "1.0"),
    "target_epsilon": Wanted("a number > 0", "2.0"),
    "fail_on": _one_of(["error", "warning", "note"], "warning"),
    "explain": Wanted("the id of a rule", "NM001", "noisymean code-audit --list-rules has them"),
    "max_epsilon": Wanted("a finite number >= 0", "3.0"),
    "pair": _one_of(["smaller", "larger"], "larger"),
    "sampling": _one_of([one.value for one in Sampling], "shuffle"),
    "format": _one_of(["text", "markdown", "yaml"], "markdown"),
    "adjacency": _one_of([kind.value for kind in Adjacency], "add-remove"),
    "trials": Wanted("a whole number from 2 to 1e+09", "10000", _WRITTEN),
    "confidence": Wanted("a number from 0.6 to 1, below 1", "0.95"),
    "seed": Wanted("a whole number >= 0", "1"),
    "jobs": Wanted("a whole number from 1 to 4096", "2"),
    "trial_timeout": Wanted("a number of seconds > 0", "60"),
    "dask": Wanted("the address of a running scheduler, or local", "local"),
    "store": Wanted("a file to keep finished trials in", "audit.sqlite"),
    "distinguisher": _one_of(["likelihood-ratio", "paper", "learned", "residual"], "likelihood-ratio"),
    "test": _one_of(["ks", "chi2", "ad", "shapiro"], "ks"),
    "gradients": _one_of(["random", "zero", "aligned", "opposed"], "random"),
    "start": Wanted(
        "--gradients, one of random, zero, aligned, opposed, spread, long, crowd",
        "random",
        "e.g. --gradients random",
        ("random", "zero", "aligned", "opposed", "spread", "long", "crowd"),
    ),
    "structure": Wanted(
        "--gradients, one of zero, aligned, opposed", "zero", "e.g. --gradients zero", ("zero", "aligned", "opposed")
    ),
    "images": _one_of(["mnist", "fashion-mnist", "cifar10"], "mnist"),
    "loss_reduction": _one_of(["mean", "sum"], "mean"),
    "mode": _one_of(["replay", "full"], "replay"),
    "denominator": _one_of(["paper", "code"], "paper"),
    "max_grad_norm": Wanted("a number > 0", "0.1"),
    "learning_rate": Wanted("a number > 0", "0.5"),
    "momentum": Wanted("a number from 0 to 1, below 1", "0.9"),
    "dampening": Wanted("a number from 0 to 1, below 1", "0"),
    "weight_decay": Wanted("a number >= 0", "0"),
    "every": Wanted("a whole number >= 1", "1", _WRITTEN),
    "leave_out": Wanted("the name of a tensor", "running_mean"),
    "optimizer": Wanted("sgd, with or without momentum", "sgd"),
    "claim_epsilon": Wanted("a number >= 0", "1.0"),
    "claim_delta": Wanted("a number from 0 to 1", "1e-5"),
    "mechanism": _one_of([*KINDS], "easgm"),
    "port": Wanted("a whole number from 0 to 65535", "8050"),
    "limit": Wanted("a number of seconds > 0 and <= 3600", "8"),
    "plot": Wanted("a file named *.png, *.svg or *.pdf", "curve.png"),
    "out": Wanted("a folder that can be written", "out"),
}


class Missing(NoisymeanError):
    """An option that has to be there is not."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(missing_line(option(name), WANTED.get(name), why))


class OutOfPlace(NoisymeanError):
    """An option is there, and says nothing beside the others, whatever its value is."""

    def __init__(self, typed: str, allowed: str, remedy: str) -> None:
        super().__init__(f"{typed}: must be {allowed}; {remedy}")


def missing_line(typed: str, wanted: Wanted | None, why: str = "") -> str:
    """`--dimension: missing; must be ...; add it, e.g. ...`."""
    because = f" ({why})" if why else ""
    if wanted is None:
        return f"{typed}: missing{because}; add it"
    return f"{typed}: missing{because}; must be {wanted.allowed}; add it, e.g. {typed} {wanted.example}"


def refused(name: str, value: object) -> InvalidInput:
    """The complaint that `value` is not what the option wants."""
    wanted = WANTED[name]
    return InvalidInput(name, value, wanted.allowed, wanted.remedy(option(name), value))


def option(name: str) -> str:
    """The option of a Python name: sample_rate is typed --sample-rate."""
    return "--" + name.replace("_", "-")
