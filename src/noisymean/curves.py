"""All curves of one round at the same alpha, as one value: what they prove about the claim, and how they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from noisymean.central_limit import CentralLimit
from noisymean.mechanisms import FEASGM, Mechanism
from noisymean.numerics.logs import Array
from noisymean.outward import Rounding, at_least, at_most
from noisymean.pairs import Datasets
from noisymean.results import Lines, Result, finite, listed
from noisymean.verdict import Claim, Word, decide
from noisymean.words import Reason

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The rows that are shown of many.
_REPRESENTATIVE = (0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
_NAMES = ("claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage")


@final
@dataclass(frozen=True)
class Gap:
    """Where an attacker beats the claim by most, and on which pair of datasets."""

    alpha: float
    claimed: float
    leakage: float
    pair: Datasets

    @property
    def size(self) -> float:
        """By how much the false negative rate is below the claimed one."""
        return self.claimed - self.leakage

    def to_dict(self) -> dict[str, object]:
        """The curves and their verdict as plain data, as `--json` prints them."""
        return {
            "alpha": self.alpha,
            "claimed": self.claimed,
            "leakage": self.leakage,
            "gap": self.size,
            "pair": str(self.pair),
        }


@final
@dataclass(frozen=True, eq=False)
class Curves(Result):
    """All curves of a mechanism at the same alpha, each rounded to its safe side; see the module `one_round`.

    None: no such curve is known; `unknown` says why.
    """

    mechanism: Mechanism
    alpha: Array
    claimed: Array
    # the two ends between which rounding leaves the claim
    claimed_ends: tuple[Array, Array] = field(repr=False)
    guarantee: Array | None
    guarantee_tight: Array | None
    ceiling: Array | None
    ceiling_clt: Array | None
    leakage: Array
    # the pair that leaks most, at each alpha
    pairs: tuple[Datasets, ...] = field(repr=False)
    clt: CentralLimit | None = field(repr=False)
    unknown: Reason | None = None

    @property
    def pair(self) -> Datasets:
        """The pair that leaks most at most of the alpha."""
        return Counter(self.pairs).most_common(1)[0][0]

    @property
    def violated(self) -> NDArray[np.bool_]:
        """Where the leakage is below the claim: proof that the claim is false."""
        return np.asarray(self.leakage < self.claimed_ends[0])

    @property
    def verdict(self) -> Word:
        """On the claim at the alpha looked at; 0 and 1, where every curve is 1 and 0, are no evidence."""
        inner = self._inner
        if not inner.any():
            return "undetermined"
        claim = Claim(-self.claimed_ends[1][inner], -self.claimed_ends[0][inner], self._claim_is_the_run)
        tight = None if self.guarantee_tight is None else -self.guarantee_tight[inner]
        return decide(claim, -self.leakage[inner], tight)

    @property
    def largest_gap(self) -> Gap | None:
        """Where the claim is missed by most; None unless it is violated."""
        if self.verdict != "violated":
            return None
        at = int(np.argmax(np.where(self.violated & self._inner, self.claimed - self.leakage, -np.inf)))
        return Gap(float(self.alpha[at]), float(self.claimed[at]), float(self.leakage[at]), self.pairs[at])

    @property
    def sentence(self) -> str:
        """The verdict and what it rests on."""
        if gap := self.largest_gap:
            return (
                f"The claim is violated: at alpha = {gap.alpha:g} an attacker has false negative rate"
                f" {at_most(gap.leakage)} where at least {at_least(gap.claimed)} is claimed ({gap.size:.3g} less), on this"
                f" pair: {gap.pair}."
            )
        count = int(self._inner.sum())
        where = f"at every alpha looked at ({count} in (0, 1))"
        if self.verdict == "holds":
            return (
                "The claim holds, for batches drawn by Poisson sampling and one record added: the guarantee is at least as"
                f" good {where}."
            )
        if not count:
            return "The claim is undetermined: no alpha between 0 and 1 was looked at."
        return f"The claim is undetermined: no pair we know violates it and no guarantee we know proves it {where}."

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        return f"One round of {self.mechanism.in_a_line(greek=False)}"

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know besides."""
        unknown = f"No guarantee is known here: {self.unknown}." if self.unknown else None
        return [text for text in (standing_still(self.mechanism), unknown) if text]

    def to_dict(self) -> dict[str, object]:
        """Plain data, the object that `curve --json` prints: first the contract's keys, then ours."""
        gap, limit = self.largest_gap, self.clt
        return {
            "mechanism": self.mechanism.name,
            "alpha": listed(self.alpha),
            **{name: listed(getattr(self, name)) for name in _NAMES},
            "verdict": self.verdict,
            "largest_gap": None if gap is None else gap.to_dict(),
            "pair": str(self.pair),
            "clt": None
            if limit is None
            else {name: finite(getattr(limit, name)) for name in ("kl", "kappa2", "kappa3", "mu", "gamma")},
            "settings": self.mechanism.settings(),
            "notes": self.notes,
        }

    def columns(self) -> Mapping[str, Sequence[object]]:
        """Alpha and every curve that is known."""
        known = {name: getattr(self, name) for name in _NAMES if getattr(self, name) is not None}
        return {"alpha": self.alpha, **known, "violated": self.violated}

    def representative(self) -> NDArray[np.intp]:
        """Indices of the alpha nearest to those that are looked at first."""
        distance = np.abs(self.alpha[:, None] - np.asarray(_REPRESENTATIVE))
        return np.unique(distance.argmin(axis=0))

    def rows(self, which: NDArray[np.intp]) -> list[list[str]]:
        """Cells under `COLUMNS`, each bound rounded to its own side."""
        rounded = {
            "claimed": at_least,
            "guarantee": at_least,
            "guarantee_tight": at_least,
            "ceiling": at_most,
            "leakage": at_most,
        }
        rows = []
        for at in which:
            cells = [f"{self.alpha[at]:.6g}"]
            for name, side in rounded.items():
                curve = getattr(self, name)
                cells.append("-" if curve is None else _shown(float(curve[at]), side))
            rows.append([*cells, "violated" if self.violated[at] else ""])
        return rows

    def lines(self) -> Lines:
        """At most a dozen alpha, the verdict and the notes."""
        few = np.arange(self.alpha.size) if self.alpha.size <= len(_REPRESENTATIVE) else self.representative()
        return Lines(self.heading, COLUMNS, self.rows(few), [self.sentence, *self.notes])

    def plot(self) -> Figure:
        """The curves as they are, and how far each lies below the claim."""
        # matplotlib is loaded by whoever asks for a figure
        figure: Figure = import_module("noisymean.report.plots").curve_figure(self)
        return figure

    @property
    def _inner(self) -> NDArray[np.bool_]:
        return np.asarray((self.alpha > 0.0) & (self.alpha < 1.0))

    @property
    def _claim_is_the_run(self) -> bool:
        return self.mechanism.is_claimed_sum


def _shown(value: float, rounded: Rounding) -> str:
    """Six decimals, or four digits where those would be all zero."""
    return rounded(value, ".3e" if 0.0 < abs(value) < 1e-4 else ".6f")


COLUMNS = ("alpha", "claimed", "guarantee", "tight", "ceiling", "leakage", "")


def standing_still(mechanism: Mechanism) -> str | None:
    """What a user of FEASGM must know where the floor stays: the good news is about this N only."""
    if not isinstance(mechanism, FEASGM) or not mechanism.is_sum:
        return None
    size, denominator = mechanism.dataset_size, max(mechanism.floors[0], 1)
    nearest = mechanism.nearest_step()
    elsewhere = "" if nearest is None else f"; the floor does step at other N, the nearest being N = {nearest}"
    return f"At N = {size} FEASGM is SGM: N and N + 1 records are both divided by {denominator}{elsewhere}."
