"""Mixtures of normal laws whose means lie on one line: what a round releases where all gradients are multiples of u."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.laws.cells import Ends, banded_masses, line_masses
from noisymean.numerics.logs import Array, log_of_sum

# More components than this, of one scale, are summed where they are near.
FEW = 32
# (outputs x components) evaluated at once.
_WORK = 1 << 18


@final
@dataclass(frozen=True, eq=False)
class LineMixture:
    """sum_i weights[i] N(means[i] u, scales[i]^2 I_n)."""

    weights: Array
    means: Array
    scales: Array

    def present(self) -> LineMixture:
        """Without the components of weight zero."""
        kept = self.weights > 0.0
        return LineMixture(self.weights[kept], self.means[kept], self.scales[kept])

    def in_units(self, unit: float) -> LineMixture:
        """The same law of x / unit."""
        return LineMixture(self.weights, self.means / unit, self.scales / unit)

    def log_density(self, x: Array) -> Array:
        """log of the density of x1 at rising x, where all components have one scale."""
        assert np.ptp(self.scales) == 0.0
        scale = float(self.scales[0])
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights / scale)

        def terms(x: Array, which: slice) -> Array:
            return np.asarray(logs[which] - 0.5 * np.square((x[:, None] - self.means[which]) / scale))

        return log_of_sum(x, self.means.size, terms) - 0.9189385332046727

    def log_likelihood(self, along: Array, across: Array, unit: float, degrees: int) -> Array:
        """log of the density of (x1, rho), rho of so many degrees of freedom, up to what does not depend on the mixture."""
        log_scales = np.log(self.scales / unit)
        # beside that of the unit, so that nothing of the size of rho cancels
        bend = -0.5 * np.expm1(-2.0 * log_scales) / unit**2
        with np.errstate(divide="ignore"):
            constant = np.log(self.weights) - (degrees + 1) * log_scales
        found = np.empty(along.size)
        chunk = max(1, _WORK // self.weights.size)
        for start in range(0, along.size, chunk):
            part = slice(start, start + chunk)
            z = (along[part, None] - self.means) / self.scales
            ring = bend * across[part, None] if degrees else 0.0
            terms = constant - 0.5 * z * z + ring
            top = terms.max(axis=1)
            found[part] = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        return found

    def line_masses(self, edges: Array) -> Ends:
        """Mass of each component in each cell of the line, its weight included."""
        masses = line_masses(edges, self.means, self.scales)
        return Ends(masses.low * self.weights[:, None], masses.high * self.weights[:, None])

    def cell_masses(self, edges: Array) -> Ends:
        """Mass of each cell of the line."""
        if self.means.size > FEW and np.ptp(self.scales) == 0.0:
            order = np.argsort(self.means)
            return banded_masses(edges, self.weights[order], self.means[order], float(self.scales[0]))
        masses = self.line_masses(edges)
        return Ends(masses.low.sum(axis=0), masses.high.sum(axis=0))

    def sample(self, generator: np.random.Generator, dimension: int, size: int) -> Array:
        """`size` outputs of the round, u being the first axis."""
        index = generator.choice(self.weights.size, size=size, p=self.weights / self.weights.sum())
        outputs = generator.standard_normal((size, dimension)) * self.scales[index, None]
        outputs[:, 0] += self.means[index]
        return outputs
