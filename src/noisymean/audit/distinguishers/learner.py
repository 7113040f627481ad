r"""A classifier for a few hundred or thousand rows of about a hundred numbers, most of which say nothing.

Which one, how strongly it is held back and which numbers it looks at is chosen by its loss on rows that it was not fitted to: in
each of three folds all of it, the choice of columns too, is done anew on the other two. The scores of those rows choose the
thresholds. In the end the best is fitted to all of them. None of these rows is judged.

    few        logistic regression on the columns that differ most, two or five
    linear     the same on all columns, with a ridge
    products   the same on a dozen columns, their squares and products
    trees      boosted trees of depth three, for what is neither: a count that is rarely seen, a distance that is zero
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from noisymean.audit.distinguishers.base import Judge, Labelled, best_threshold, spread
from noisymean.errors import MissingDependency
from noisymean.numerics.logs import Array

_FOLDS = 3
# Rows of each dataset below which there is nothing to choose from.
_ENOUGH = 30
_PRODUCTS_OF = 12
# In standard deviations; a number that is far out counts as that, or it would decide alone.
_FAR = 6.0


def judge(training: Labelled) -> Judge:
    """The score and its thresholds, from trials that are set aside."""
    rows = np.vstack([training.smaller, training.larger])
    labels = np.repeat([0, 1], [len(training.smaller), len(training.larger)])
    scarce = min(len(training.smaller), len(training.larger)) < _ENOUGH
    # one after the other within each dataset: the same number of both in each fold
    fold = np.concatenate([np.arange(len(side)) % _FOLDS for side in (training.smaller, training.larger)])
    makers = _makers(scarce)
    tried = [_unseen(make, rows, labels, fold) for make in makers]
    best = int(np.argmin([_loss(scores, labels) for scores in tried]))
    model = makers[best]().fit(rows, labels)

    def score(features: Array) -> Array:
        return np.asarray(model.decision_function(features), dtype=np.float64)

    smaller, larger = (tried[best][labels == label] for label in (0, 1))
    main = _main(smaller, larger)
    return Judge(score, main, spread(smaller, larger, main))


def _main(smaller: Array, larger: Array) -> float:
    """0, where the log-odds are even, unless another threshold does better by more than chance explains.

    Of the rows that the two decide differently, d, chance makes the one right and the other wrong up to sqrt(d) times oftener.
    """
    best = best_threshold(smaller, larger)
    low, high = sorted((best, 0.0))
    # on D the larger threshold is right about what lies between, on D' the smaller
    gained = sum(
        np.sign(best) * ((low < side) & (side <= high)).sum() * way for side, way in ((smaller, 1), (larger, -1))
    )
    differ = sum(((low < side) & (side <= high)).sum() for side in (smaller, larger))
    return best if gained > np.sqrt(differ) else 0.0


def _unseen(make: Callable[[], Any], rows: Array, labels: Array, fold: Array) -> Array:
    """Scores of rows that the classifier was not fitted to."""
    scores = np.empty(len(rows))
    for one in range(_FOLDS):
        held = fold == one
        scores[held] = make().fit(rows[~held], labels[~held]).decision_function(rows[held])
    return scores


def _loss(scores: Array, labels: Array) -> float:
    """Minus the mean log-likelihood; a sure score that is wrong costs what it is sure of."""
    return float(np.logaddexp(0.0, np.where(labels == 1, -scores, scores)).mean())


def _makers(scarce: bool) -> list[Callable[[], Any]]:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.feature_selection import SelectKBest
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
    except ImportError:
        raise MissingDependency("scikit-learn", "audit") from None

    def standard() -> list[Any]:
        return [StandardScaler(), FunctionTransformer(_cut)]

    def linear(ridge: float) -> Callable[[], Any]:
        return lambda: make_pipeline(*standard(), LogisticRegression(C=ridge, max_iter=2000))

    def few(count: int) -> Callable[[], Any]:
        return lambda: make_pipeline(
            *standard(), SelectKBest(_differing, k=count), LogisticRegression(C=0.1, max_iter=2000)
        )

    def products(ridge: float) -> Callable[[], Any]:
        return lambda: make_pipeline(
            *standard(),
            SelectKBest(_differing, k=_PRODUCTS_OF),
            PolynomialFeatures(2, include_bias=False),
            *standard(),
            LogisticRegression(C=ridge, max_iter=2000),
        )

    def trees() -> Any:
        return HistGradientBoostingClassifier(
            max_iter=60, max_depth=3, learning_rate=0.1, min_samples_leaf=10, l2_regularization=1.0,
            early_stopping=False, random_state=0,
        )  # fmt: skip

    if scarce:
        return [linear(0.01)]
    return [few(2), few(5), linear(0.0003), linear(0.003), products(0.01), trees]


def _cut(rows: Array) -> Array:
    return np.asarray(np.clip(rows, -_FAR, _FAR))


def _differing(rows: Array, labels: Array) -> Array:
    """How far apart the means of each column are, squared, in units of their error; none where nothing moves."""
    one, other = rows[labels == 0], rows[labels == 1]
    error = one.var(axis=0) / len(one) + other.var(axis=0) / len(other)
    apart = (other.mean(axis=0) - one.mean(axis=0)) ** 2
    return np.asarray(np.divide(apart, error, out=np.zeros_like(apart), where=error > 0.0))
