r"""References that the tests judge by: plain, slow, and sharing no code with the package.

Nothing in this file imports noisymean. Three kinds:

- **50 digits** (mpmath): both tails of the noncentral chi-square law by its Poisson series, and by a Bromwich integral
  along a *vertical* line (the package integrates along a parabola); points of exact trade-off curves built on them;
- **brute force**: all batches, all deterministic tests, all allocations;
- **plain quadrature** in double precision, for curves of one-dimensional mixtures.

Curves are referred to by points: an oracle takes thresholds t and returns the exact (alpha(t), beta(t)), so that no root
finding, of ours or of the package's, stands between the two sides of a comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammainc, gammaincc, gammaln, ndtr

Array = NDArray[np.float64]
Real = Any  # an mpf, or anything mpf() takes exactly: int, float, Fraction via `exact`

DIGITS = 50
# Below this many (half degrees of freedom + Poisson terms at the saddle) the vertical line decays too slowly.
_SERIES_BELOW = 400
_GUARD = 15
_NEGLIGIBLE = mpf(10) ** -6


def exact(value: Any) -> mpf:
    """The number itself: binary floats and fractions are taken at face value."""
    if hasattr(value, "numerator") and hasattr(value, "denominator"):
        return mpf(int(value.numerator)) / int(value.denominator)
    return mpf(value)


# --------------------------------------------------------------------------------------------- chi-square, 50 digits


class ChiSquareTails(NamedTuple):
    """P[Y <= y] and P[Y > y]."""

    lower: mpf
    upper: mpf


def chi_square_by_series(half_dof: Real, x: Real, y: Real, digits: int = DIGITS) -> ChiSquareTails:
    """Poisson(x) mixture of Gamma(k + j): both tails to `digits` *relative* digits, 2k a whole number.

    Written with the Poisson terms p_j = e^-x x^j/j! and the Gamma terms g(a) = y^a e^-y / Gamma(a+1),

        P[Y <= y] = sum_j p_j G(k+j),    G(a) = g(a) + G(a+1);         P[Y > y] = sum_j p_j H(k+j),    H(a+1) = g(a) + H(a).

    All terms are positive. The sums run over the window in which they matter *for that tail*: far in a tail its centre is
    the tilted mode, x y = j (k + j), not x.
    """
    with mp.workdps(digits + _GUARD):
        k, x, y = exact(half_dof), exact(x), exact(y)
        if y <= 0:
            return ChiSquareTails(mpf(0), mpf(1))
        tiny = mpf(10) ** -(digits + _GUARD)
        # the tail on the far side of the mean first: where it is negligible the other one needs no long sum of its own
        if y < k + x:
            lower = _lower_series(k, x, y, tiny)
            return ChiSquareTails(lower, 1 - lower if lower < _NEGLIGIBLE else _upper_series(k, x, y, tiny))
        upper = _upper_series(k, x, y, tiny)
        return ChiSquareTails(1 - upper if upper < _NEGLIGIBLE else _lower_series(k, x, y, tiny), upper)


def _poisson(j: int, x: mpf) -> mpf:
    return mpmath.exp(j * mpmath.log(x) - x - mpmath.loggamma(j + 1)) if x > 0 else mpf(j == 0)


def _gamma_term(a: mpf, y: mpf) -> mpf:
    return mpmath.exp(a * mpmath.log(y) - y - mpmath.loggamma(a + 1))


def _tilted_mode(k: mpf, x: mpf, y: mpf) -> int:
    """The j with j (k + j) = x y."""
    return int(2 * x * y / (k + mpmath.sqrt(k * k + 4 * x * y)))


def _window(centre: int, x: mpf, log_step: Callable[[int], mpf], tiny: mpf) -> tuple[int, int]:
    """All j around `centre` whose term, of log ratio log_step(j) to the next one, exceeds tiny times the largest."""
    if x == 0:
        return 0, 0
    floor = mpmath.log(tiny)

    def edge(direction: int) -> int:
        # the sequence is log-concave, so its slope at the start of a stride understates the fall over it: the window is generous
        j, level, stride = centre, mpf(0), 1
        while level > floor and (direction > 0 or j > 0):
            slope = log_step(j) if direction > 0 else -log_step(j - 1)
            level += stride * min(slope, mpf(0))
            j = max(j + direction * stride, 0)
            stride += max(1, stride // 8)
        return j

    return edge(-1), edge(1)


def _lower_series(k: mpf, x: mpf, y: mpf, tiny: mpf) -> mpf:
    tilted = k + x > y
    centre = _tilted_mode(k, x, y) if tilted else int(x)

    def log_step(j: int) -> mpf:
        gamma = mpmath.log(y / (k + j + 1)) if k + j + 1 > y else mpf(0)
        return mpmath.log(x / (j + 1)) + gamma

    first, last = _window(centre, x, log_step, tiny)
    # G at the top of the window, summed from there on
    term = _gamma_term(k + last, y)
    tail, a = term, k + last
    while term > tail * tiny or a < y:
        a += 1
        term *= y / a
        tail += term
    poisson, gamma = _poisson(last, x), _gamma_term(k + last, y)
    total = poisson * tail
    for j in range(last, first, -1):
        gamma *= (k + j) / y  # g(k+j) -> g(k+j-1)
        tail += gamma
        poisson *= j / x
        total += poisson * tail
    return total


def _upper_series(k: mpf, x: mpf, y: mpf, tiny: mpf) -> mpf:
    tilted = k + x < y
    centre = _tilted_mode(k, x, y) if tilted else int(x)

    def log_step(j: int) -> mpf:
        gamma = mpmath.log(y / (k + j)) if k + j < y else mpf(0)
        return mpmath.log(x / (j + 1)) + gamma

    first, last = _window(centre, x, log_step, tiny)
    head = _gamma_survival(k + first, y, tiny)
    poisson, gamma = _poisson(first, x), _gamma_term(k + first, y)
    total = poisson * head
    for j in range(first, last):
        head += gamma  # H(k+j+1) = H(k+j) + g(k+j)
        gamma *= y / (k + j + 1)
        poisson *= x / (j + 1)
        total += poisson * head
    return total


def _gamma_survival(a: mpf, y: mpf, tiny: mpf) -> mpf:
    """P[Gamma(a) > y] for whole or half-whole a: a finite sum down to a = 1 or 1/2."""
    if a == mpf(1) / 2:
        return mpmath.erfc(mpmath.sqrt(y))
    if a == 1:
        return mpmath.exp(-y)
    b = a - 1
    term = _gamma_term(b, y)
    total = term
    while b >= 1:
        term *= b / y
        b -= 1
        total += term
        if b < y and term < total * tiny:
            return total
    # b is 0 or 1/2: what is left below it is H(1) - g(0) = 0 or H(1/2)
    return total + (mpmath.erfc(mpmath.sqrt(y)) if b > 0 else mpf(0))


def chi_square_by_bromwich(half_dof: Real, x: Real, y: Real, digits: int = DIGITS) -> ChiSquareTails:
    """Both tails by the inversion integral of the Laplace transform on a vertical line, trapezoidal rule.

    P[Y <= y] = 1/(2 pi i) int e^{(S-1) y} S^-k e^{x/S - x} dS/(S-1) over Re S = c > 1; -P[Y > y] for 0 < c < 1. The line passes
    through the saddle point, or stays a few deviations away from the pole at 1 when the saddle is closer than that.
    """
    with mp.workdps(digits + _GUARD + 25):
        k, x, y = exact(half_dof), exact(x), exact(y)
        digits_lost = max(0, int(mpmath.log10(k + x + abs(y) + 1)))
        with mp.workdps(digits + _GUARD + 25 + digits_lost):
            root = mpmath.sqrt(k * k + 4 * x * y)
            saddle = (k + root) / (2 * y)
            clearance = min(6 / mpmath.sqrt(k + 2 * x), mpf(1) / 2)
            below = y <= k + x
            line = max(saddle, 1 + clearance) if below else min(saddle, 1 - clearance)
            tail = _vertical_integral(k, x, y, line, digits)
            tail = tail if below else -tail
            return ChiSquareTails(tail, 1 - tail) if below else ChiSquareTails(1 - tail, tail)


def _vertical_integral(k: mpf, x: mpf, y: mpf, line: mpf, digits: int) -> mpf:
    nats = (digits + _GUARD) * mpmath.log(10)
    # Off the line the integrand may be followed up to the pole on one side, and as far again on the other, where it has grown
    # by exp(curvature reach^2 / 2); the trapezoidal rule's error is exp(-2 pi reach / step).
    reach = min(abs(line - 1), line * mpf("0.6"))
    curvature = 2 * x / (line - reach) ** 3 + k / (line - reach) ** 2
    reach = min(reach, mpmath.sqrt(2 * nats / curvature))
    step = 2 * mp.pi * reach / (nats + curvature * reach**2 / 2)
    centre = (line - 1) * y - k * mpmath.log(line) + x / line - x
    total = mpf(1) / (line - 1) / 2
    node, floor = 0, mpmath.exp(-nats)
    while True:
        node += 1
        s = mpmath.mpc(line, node * step)
        size = mpmath.exp((s - 1) * y - k * mpmath.log(s) + x / s - x - centre)
        total += (size / (s - 1)).real
        if abs(size) < floor:
            return mpmath.exp(centre) * total * step / mp.pi


def chi_square_tails(half_dof: Real, x: Real, y: Real, digits: int = DIGITS) -> ChiSquareTails:
    """Whichever of the two references is at home there: few terms of the series, or a fast decay along the line."""
    k, x, y = exact(half_dof), exact(x), exact(y)
    if y <= 0:
        return ChiSquareTails(mpf(0), mpf(1))
    use_series = k + _tilted_mode(k, x, y) < _SERIES_BELOW
    return (chi_square_by_series if use_series else chi_square_by_bromwich)(k, x, y, digits)


# ------------------------------------------------------------------------------------------ trade-off curves, 50 digits


class Point(NamedTuple):
    """A point of a curve, and the slope -e^t of the line that supports it there."""

    alpha: mpf
    beta: mpf
    t: mpf


class Component(NamedTuple):
    """T(N(0, I_n), N(m, s^2 I_n)) with |m| = shift, weighted."""

    weight: mpf
    shift: mpf
    scale: mpf


def normal_cdf(z: mpf) -> mpf:
    return mpmath.erfc(-z / mpmath.sqrt(2)) / 2


def pair_errors(dimension: int, shift: Real, scale: Real, t: Real, digits: int = DIGITS) -> tuple[mpf, mpf]:
    """(P[l > t], Q[l <= t]) for N(0, I) against N(m, s^2 I); `shift` and `scale` at face value."""
    with mp.workdps(digits + 30):
        mu, s, t = exact(shift), exact(scale), exact(t)
        if s == 1:
            if mu == 0:
                return mpf(t < 0), mpf(t >= 0)
            return normal_cdf(-t / mu - mu / 2), normal_cdf(t / mu - mu / 2)
        a = 1 - s * s
        # l = mu^2/(2a) - n log s - (a/(2 s^2)) R
        half_r = (mu * mu / (2 * a) - dimension * mpmath.log(s) - t) * s * s / a
        k = mpf(dimension) / 2
        under_p = chi_square_tails(k, mu * mu / (2 * a * a), half_r, digits)
        under_q = chi_square_tails(k, mu * mu * s * s / (2 * a * a), half_r / (s * s), digits)
        return (under_p.lower, under_q.upper) if s < 1 else (under_p.upper, under_q.lower)


def mixture_point(dimension: int, components: Sequence[Component], t: Real, digits: int = DIGITS) -> Point:
    """The revealed-index mixture at one threshold: the paper's Lemma of joint concavity, term by term."""
    with mp.workdps(digits + 10):
        alpha, beta = mpf(0), mpf(0)
        for weight, shift, scale in components:
            a, b = pair_errors(dimension, shift, scale, t, digits)
            alpha, beta = alpha + weight * a, beta + weight * b
        return Point(alpha, beta, exact(t))


def at_float(point: Point) -> tuple[float, mpf]:
    """(alpha rounded to a double, the curve there): along the supporting line, exact to second order in the rounding."""
    alpha = float(point.alpha)
    with mp.workdps(DIGITS):
        return alpha, point.beta + mpmath.exp(point.t) * (point.alpha - mpf(alpha))


def binomial_weights(
    count: int, rate: Any, *, stride: int = 1, dropped: Real = mpf(10) ** -25
) -> Iterator[tuple[int, mpf]]:
    """(k, Bin(k; count, rate)) for all sizes that carry more than `dropped`, outwards from the mode.

    With a `stride` h only every h-th size, its weight times h: for a smooth F the sum is then off by the aliases
    E[F(K) e^{2 pi i K / h}], and E[e^{2 pi i K/h}] is tiny when h is a fraction of the deviation: `alias` computes it.
    """
    q = exact(rate)
    if q == 1 or count == 0:
        yield (count if q == 1 else 0), mpf(1)
        return
    mode = min(int((count + 1) * q), count)
    log_mode = (
        mpmath.loggamma(count + 1)
        - mpmath.loggamma(mode + 1)
        - mpmath.loggamma(count - mode + 1)
        + mode * mpmath.log(q)
        + (count - mode) * mpmath.log(1 - q)
    )
    weight = top = mpmath.exp(log_mode)
    yield mode, stride * weight
    for k in range(mode, count):
        weight *= q / (1 - q) * (count - k) / (k + 1)
        if weight < dropped:
            break
        if (k + 1 - mode) % stride == 0:
            yield k + 1, stride * weight
    weight = top
    for k in range(mode, 0, -1):
        weight *= (1 - q) / q * k / (count - k + 1)
        if weight < dropped:
            break
        if (mode - k + 1) % stride == 0:
            yield k - 1, stride * weight


def alias(count: int, rate: Any, stride: int) -> mpf:
    """|E[e^{2 pi i K / stride}]| for K ~ Bin(count, rate): what thinning the sizes costs."""
    q = exact(rate)
    return abs(1 - q + q * mpmath.expjpi(mpf(2) / stride)) ** count


def expected_components(count: int, rate: Any, sigma: Any, step: int, *, stride: int = 1) -> list[Component]:
    """Theorems EASGM_HIGH (step = N) and FEASGM (step = floor(Nq)), one component for each batch size and membership."""
    q, unit, scale = exact(rate), 1 / ((step + 1) * exact(sigma)), mpf(step) / (step + 1)
    parts = []
    for k, w in binomial_weights(count, rate, stride=stride):
        if q < 1:
            parts.append(Component((1 - q) * w, k * unit, scale))
        parts.append(Component(q * w, (step + k) * unit, scale))
    return parts


def averaged_components(count: int, rate: Any, sigma: Any, *, stride: int = 1) -> list[Component]:
    """Theorem ASGM_HIGH given that the new record is in the batch: one component for each batch size."""
    sigma = exact(sigma)
    return [
        Component(w, mpf(2 * k) / ((k + 1) * sigma), mpf(k) / (k + 1)) if k else Component(w, 1 / sigma, mpf(1))
        for k, w in binomial_weights(count, rate, stride=stride)
    ]


def averaged_point(dimension: int, count: int, rate: Any, sigma: Any, t: Real, *, stride: int = 1) -> Point:
    """Theorem ASGM_HIGH at one threshold, t != 0: weight 1 - q on the identity, q on the rest."""
    with mp.workdps(DIGITS + 10):
        q, t = exact(rate), exact(t)
        inner = mixture_point(dimension, averaged_components(count, rate, sigma, stride=stride), t)
        identity = pair_errors(dimension, 0, 1, t)
        return Point((1 - q) * identity[0] + q * inner.alpha, (1 - q) * identity[1] + q * inner.beta, t)


def size_revealed_point(count: int, rate: Any, sigma: Any, t: Real) -> Point:
    """ASGM with |B| revealed, from the two joint laws of (k, x) as they are defined: nothing simplified.

    P: k ~ Bin(N, q), x ~ N(0,1). Q: with 1-q the same; with q, k-1 ~ Bin(N, q) and x ~ N(2/sigma, 1).
    """
    with mp.workdps(DIGITS):
        q, shift, t = exact(rate), 2 / exact(sigma), exact(t)
        sizes = dict(binomial_weights(count, rate))
        alpha, beta = mpf(0), mpf(0)
        for k in range(min(sizes), max(sizes) + 2):
            w, w_before = sizes.get(k, mpf(0)), sizes.get(k - 1, mpf(0))
            out, joined = (1 - q) * w, q * w_before
            if w == 0:
                continue  # infinite loss: always rejected
            # rejected when out + joined e^{shift x - shift^2/2} > e^t w
            excess = mpmath.exp(t) * w - out
            if excess < 0:
                alpha += w
            elif joined == 0:
                beta += out
            else:
                x = mpmath.log(excess / joined) / shift + shift / 2 if excess > 0 else -mp.inf
                alpha += w * normal_cdf(-x)
                beta += out * normal_cdf(x) + joined * normal_cdf(x - shift)
        return Point(alpha, beta, t)


# ------------------------------------------------------------------------------------------------- Berry and Esseen


class Functionals(NamedTuple):
    """kl, kappa_2 and the centred kappa_3 of a symmetric trade-off function (Dong, Roth and Su 2022, Section 4)."""

    kl: mpf
    kappa2: mpf
    kappa3: mpf


def functionals_of_symmetrised(step: int, digits: int = 30) -> Functionals:
    """By their definitions, integrals over alpha in [0, 1] of powers of log|bar f'(alpha)|, bar f = max(f, f^-1).

    f = T(N(0,1), N(0,s^2)), s = step/(step+1); |f'| and |(f^-1)'| are evaluated at the alpha of each node by inverting the error
    function. No change of variables, no fixed point in closed form: only the definition.
    """
    with mp.workdps(digits):
        s = mpf(step) / (step + 1)

        def log_slope(threshold: mpf) -> mpf:
            # log|f'| at alpha = P[|z| <= threshold]
            return -mpmath.log(s) - (1 - s * s) / (2 * s * s) * threshold**2

        def forward(alpha: mpf) -> mpf:
            return mpmath.erfc(mpmath.erfinv(alpha) / s)

        def log_bar_slope(alpha: mpf) -> mpf:
            if alpha < crossing:
                return log_slope(mpmath.sqrt(2) * mpmath.erfinv(alpha))
            # f^-1(alpha) = a with f(a) = alpha, and (f^-1)' = 1/f'(a)
            return -log_slope(s * mpmath.sqrt(2) * mpmath.erfinv(1 - alpha))

        crossing = mpmath.findroot(lambda a: forward(a) - a, (mpf("0.3"), mpf("0.55")), solver="anderson")
        ends = [mpf(0), crossing, mpf(1)]
        kl = -mpmath.quad(log_bar_slope, ends)
        kappa2 = mpmath.quad(lambda a: log_bar_slope(a) ** 2, ends)

        def alpha_of(level: mpf) -> list[mpf]:
            # where log|bar f'| = level, if anywhere: kinks of the third moment
            square = (-mpmath.log(s) - abs(level)) * 2 * s * s / (1 - s * s)
            if square < 0:
                return []
            root = mpmath.sqrt(square / 2)
            return [mpmath.erf(root) if level > 0 else mpmath.erfc(root / s)]

        kinks = [a for a in alpha_of(-kl) if 0 < a < 1]
        kappa3 = mpmath.quad(lambda a: abs(log_bar_slope(a) + kl) ** 3, sorted({*ends, *kinks}))
        return Functionals(kl, kappa2, kappa3)


# ----------------------------------------------------------------------------------------------------- brute force


class Gaussians(NamedTuple):
    """sum_i weights[i] N(means[i], scales[i]^2 I_n): what one round releases, the batch hidden."""

    weights: Array
    means: Array
    scales: Array

    def log_density(self, x: Array) -> Array:
        """log density at the rows of x."""
        squares = ((x[:, None, :] - self.means[None, :, :]) ** 2).sum(axis=2)
        n = self.means.shape[1]
        terms = np.log(self.weights) - n * np.log(self.scales) - 0.5 * squares / self.scales**2
        top = terms.max(axis=1)
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) - 0.5 * n * np.log(2 * np.pi))

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        index = generator.choice(self.weights.size, size=size, p=self.weights)
        noise = generator.standard_normal((size, self.means.shape[1]))
        return np.asarray(self.means[index] + self.scales[index, None] * noise)


def batches(count: int) -> list[tuple[int, ...]]:
    """All subsets of range(count)."""
    return [b for size in range(count + 1) for b in itertools.combinations(range(count), size)]


def one_round(gradients: Array, rate: float, sigma: float, denominator: Callable[[int], float]) -> Gaussians:
    """The exact law of a round on the given (clipped, C = 1) gradients; `denominator` maps |B| to the divisor."""
    count = gradients.shape[0]
    weights, means, scales = [], [], []
    for batch in batches(count):
        weight = rate ** len(batch) * (1.0 - rate) ** (count - len(batch))
        if weight > 0.0:
            divisor = denominator(len(batch))
            weights.append(weight)
            means.append(gradients[list(batch)].sum(axis=0) / divisor)
            scales.append(sigma / divisor)
    return Gaussians(np.array(weights), np.array(means), np.array(scales))


def line_errors(p: Gaussians, q: Gaussians, points: int = 6001) -> tuple[Array, Array]:
    """Errors (alpha, beta) of the exact likelihood-ratio tests for one-dimensional mixtures, by quadrature.

    Every cell of a fine grid counts with its exact masses under p and q: a post-processing, so each point lies on or above the
    exact curve, and within the square of the cell's width of it.
    """
    low = min(float((m.means[:, 0] - 9.0 * m.scales).min()) for m in (p, q))
    high = max(float((m.means[:, 0] + 9.0 * m.scales).max()) for m in (p, q))
    edges = np.concatenate([[-np.inf], np.linspace(low, high, points), [np.inf]])

    def masses(m: Gaussians) -> Array:
        z = (edges[None, :] - m.means) / m.scales[:, None]
        upper = z[:, :-1] > 0.0
        left, right = np.where(upper, -z[:, 1:], z[:, :-1]), np.where(upper, -z[:, :-1], z[:, 1:])
        return np.asarray(m.weights @ (ndtr(right) - ndtr(left)))

    return ordered_errors(masses(p), masses(q))


def plane_errors(dimension: int, p: Gaussians, q: Gaussians, points: int = 1200) -> tuple[Array, Array]:
    """Errors of the likelihood-ratio tests for mixtures whose means lie on the first axis, dimension >= 2.

    (x_1, r = |x_2..n|) is sufficient; both densities are taken at the points of a uniform grid, where sums of smooth functions
    converge faster than any power and the kink of min(p, e^-t q) costs the square of the step.
    """
    dof = dimension - 1
    means, scales = (np.concatenate([getattr(m, name) for m in (p, q)]) for name in ("means", "scales"))
    x = np.linspace((means[:, 0] - 8.0 * scales).min(), (means[:, 0] + 8.0 * scales).max(), points)
    inner, outer = max(np.sqrt(dof) - 6.0, 0.0) * scales.min(), (np.sqrt(dof) + 6.0) * scales.max()
    r = inner + (outer - inner) * (np.arange(points) + 0.5) / points
    area = (x[1] - x[0]) * (r[1] - r[0])

    def mass(m: Gaussians) -> Array:
        # density of r/s: chi with dof degrees of freedom
        log_norm = (1.0 - 0.5 * dof) * np.log(2.0) - gammaln(0.5 * dof)
        along = np.exp(-0.5 * ((x - m.means[:, :1]) / m.scales[:, None]) ** 2) / np.sqrt(2.0 * np.pi)
        u = r / m.scales[:, None]
        across = np.exp(log_norm + (dof - 1.0) * np.log(u) - 0.5 * u * u)
        return np.asarray((along * (m.weights / m.scales**2)[:, None]).T @ across).ravel() * area

    return ordered_errors(mass(p), mass(q))


def product_errors(dimension: int, p: Gaussians, q: Gaussians, t: Array, nodes: int = 8001) -> tuple[Array, Array]:
    """(alpha(t), beta(t)) when all components of p have one scale, all of q another, smaller one, and means lie on the first axis.

    x_1 is independent of the rest, whose loss is that of a scale-only pair in n - 1 dimensions: a trapezoidal sum over x_1.
    """
    s = q.scales[0] / p.scales[0]
    dof, c = dimension - 1, 1.0 / s**2 - 1.0
    low = min(float((m.means[:, 0] - 9.0 * m.scales).min()) for m in (p, q))
    high = max(float((m.means[:, 0] + 9.0 * m.scales).max()) for m in (p, q))
    x, step = np.linspace(low, high, nodes, retstep=True)

    def log_line(m: Gaussians) -> Array:
        return Gaussians(m.weights, m.means[:, :1], m.scales).log_density(x[:, None])

    log_p, log_q = log_line(p), log_line(q)
    alpha, beta = np.empty(t.size), np.empty(t.size)
    for i, threshold in enumerate(t):
        r = 2.0 * np.maximum(-dof * np.log(s) - (threshold - (log_q - log_p)), 0.0) / c
        alpha[i] = step * np.sum(np.exp(log_p) * gammainc(0.5 * dof, 0.5 * r))
        beta[i] = step * np.sum(np.exp(log_q) * gammaincc(0.5 * dof, 0.5 * r / s**2))
    return alpha, beta


def ordered_errors(p: Array, q: Array) -> tuple[Array, Array]:
    """(alpha, beta) of the tests that reject the outcomes of largest q/p first, from rejecting nothing to everything."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p > 0.0, q / p, np.where(q > 0.0, np.inf, -1.0))
    order = np.argsort(-ratio, kind="stable")
    alpha = np.concatenate([[0.0], np.cumsum(p[order])])
    beta = np.concatenate([np.cumsum(q[order][::-1])[::-1], [0.0]])
    return alpha, beta


def all_tests_hull(p: Array, q: Array, alpha: Array) -> Array:
    """f(alpha) for few outcomes: every one of the 2^m deterministic tests, then the lower convex hull of their errors."""
    tests = np.array(list(itertools.product((0.0, 1.0), repeat=p.size)))
    return lower_hull(tests @ p, (1.0 - tests) @ q, alpha)


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0.0


def lower_hull(x: Array, y: Array, at: Array) -> Array:
    """The lower convex hull of points of falling curves, read at `at`."""
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        if hull and point[1] >= hull[-1][1]:
            continue
        while len(hull) >= 2 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    hx, hy = np.array(hull).T
    return np.interp(at, hx, hy)


def least_over_allocations(weights: Sequence[float], curves: Sequence[Callable[[float], float]], alpha: float) -> float:
    """min of sum_i w_i f_i(alpha_i) over sum_i w_i alpha_i = alpha (the paper's Lemma min_equal), by nested search.

    Convex in the share given to the first curve, so a bounded search finds the least; never below the true minimum.
    """
    if len(weights) == 1:
        return weights[0] * float(curves[0](min(max(alpha / weights[0], 0.0), 1.0)))
    first, rest = weights[0], sum(weights[1:])
    low, high = max(0.0, (alpha - rest) / first), min(1.0, alpha / first)

    def cost(share: float) -> float:
        left = min(max(alpha - first * share, 0.0), rest)
        return first * float(curves[0](share)) + least_over_allocations(weights[1:], curves[1:], left)

    ends = [cost(low), cost(high)]
    if high - low < 1e-15:
        return min(ends)
    inner = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    return min(*ends, float(inner.fun))
