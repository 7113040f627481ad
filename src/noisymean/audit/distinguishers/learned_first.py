r"""The learned test of 0.1, for stores that were begun with it: its configuration names no version (now: `learned`).

Features of a round are cheap: log |o|^2, the coordinates' mean, fourth moment and extreme, the coordinates themselves where they
are few, projections on gradients where those are known; over rounds they are averaged. In batches that are not drawn by Poisson
sampling a record is in one round of an epoch, which an average blurs: there the extremes are features, too. A logistic
regression on them and their products is fitted on trials that are set aside: two thirds of those for the fit, one third for the
thresholds. It is judged on fresh trials, so a bad fit costs power, never soundness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisymean.audit.distinguishers.base import Distinguisher, Judge, Labelled, best_threshold, spread
from noisymean.audit.reference import Reference
from noisymean.errors import MissingDependency
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known

# Coordinates that are few enough to be features themselves.
_FEW = 24
_FIT_SHARE = 2.0 / 3.0


@final
@dataclass(frozen=True, eq=False)
class LearnedFirst(Distinguisher):
    """Score: the log-odds of a logistic regression."""

    known: Known | None = None
    name: ClassVar[str] = "learned"
    training_share: ClassVar[float] = 0.3

    def configuration(self) -> Mapping[str, Any]:
        extremes = {"extremes": True} if self._in_epochs else {}
        return {"distinguisher": self.name, "projections": self._rows is not None, **extremes}

    @property
    def _in_epochs(self) -> bool:
        return self.known is not None and not self.known.mechanism.is_poisson

    @property
    def _rows(self) -> Array | None:
        return None if self.known is None else self.known.gradients

    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        n = outputs.shape[-1]
        mean = outputs.mean(axis=-1)
        square = np.einsum("tsn,tsn->ts", outputs, outputs)
        quiet = np.where(square > 0.0, square, 1.0)
        fourth = np.einsum("tsn,tsn,tsn,tsn->ts", *([outputs] * 4)) if n <= 4096 else quiet**2
        columns = [
            np.log(quiet),
            mean * np.sqrt(n / quiet) * np.sqrt(n),
            fourth * n / quiet**2,
            np.log(np.maximum(np.abs(outputs).max(axis=-1), 1e-300)),
        ]
        found = [column.mean(axis=1)[:, None] for column in columns]
        if n <= _FEW:
            found.append(outputs.mean(axis=1))
        elif self._rows is not None:
            found.append(np.einsum("tsn,gn->tg", outputs, self._rows, optimize=True))
        else:
            found.append(outputs[:, :, :1].mean(axis=1))
        if self._in_epochs and outputs.shape[1] > 1:
            # along the gradient of the record: u is the first axis
            along = outputs[:, :, 0] if self._rows is None else outputs @ self._rows[-1]
            found.append(np.column_stack([along.max(axis=1), along.min(axis=1)]))
        return np.hstack(found)

    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        try:
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import PolynomialFeatures, StandardScaler
        except ImportError:
            raise MissingDependency("scikit-learn", "audit") from None
        sides = (training.smaller, training.larger)
        cuts = [int(np.ceil(_FIT_SHARE * len(side))) for side in sides]
        rows = np.vstack([side[:cut] for side, cut in zip(sides, cuts, strict=True)])
        labels = np.repeat([0, 1], cuts)
        degree = 2 if rows.shape[1] <= 40 else 1
        model = make_pipeline(
            StandardScaler(),
            PolynomialFeatures(degree, include_bias=False),
            StandardScaler(),
            LogisticRegression(C=0.3, max_iter=2000),
        )
        model.fit(rows, labels)

        def score(features: Array) -> Array:
            return np.asarray(model.decision_function(features), dtype=np.float64)

        smaller, larger = (score(side[cut:]) for side, cut in zip(sides, cuts, strict=True))
        main = best_threshold(smaller, larger)
        return Judge(score, main, spread(smaller, larger, main))
