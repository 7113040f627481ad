"""grid: discretised losses dominate or are dominated, composition is convolution, charges are on the stated side."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr

import many_rounds_oracles as reference
from noisymean.compose.grid import put
from noisymean.compose.grid.composition import GridComposition
from noisymean.compose.grid.discretize import Atoms, discretize
from noisymean.compose.grid.grid_sum import GridSum
from noisymean.compose.grid.put import composed
from noisymean.compose.grid.spectrum import SMOOTH, splitting_kernel, transform
from noisymean.compose.grid.window import Layer, Parts, Window, layers_at, window_around, window_at_epsilon
from noisymean.laws.across import LossOnLine, TabulatedPair
from noisymean.laws.closed import EpsilonDelta, Gaussian, Identity
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.size_revealed import size_revealed
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side, TradeOff
from rounds_of import atoms_delta

CURVES: dict[str, TradeOff] = {
    "gaussian": Gaussian(0.8),
    "subsampled": Subsampled(Gaussian(1.0), 0.1),
    "subsampled, reversed": Subsampled(Gaussian(1.0), 0.1).inverse(),
    "pair": gaussian_pair(20, 0.3, 0.9),
    "pair, reversed": gaussian_pair(20, 0.3, 0.9).inverse(),
    "mixture": RevealedMixture((0.6, 0.4), (Identity(), gaussian_pair(8, 1.0, 0.8))),
    "outcomes": FiniteOutcomes(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])),
    "infinite": EpsilonDelta(0.7, 0.05),
    "sizes": size_revealed(5, 0.3, 2.0),
    "sizes, reversed": size_revealed(5, 0.3, 2.0).inverse(),
}
EVERY = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
SIDES = (Side.BELOW, Side.ABOVE)
# points of a grid where only the side matters, not the width
SMALL = 1 << 12


class TestDiscretize:
    @EVERY
    @pytest.mark.parametrize("step", [0.5, 0.03])
    def test_sides(self, curve: TradeOff, step: float) -> None:
        edges = step * np.arange(-math.ceil(12.0 / step), math.ceil(12.0 / step) + 1.0)
        below, above = (discretize(curve, edges, side) for side in SIDES)
        # between edges, on them, and outside of them
        epsilons = np.concatenate([np.linspace(-13.0, 13.0, 521), step * np.arange(-8.0, 9.0)])
        exact = curve.delta(epsilons)
        assert all(atoms_delta(below, e) <= d + 1e-13 for e, d in zip(epsilons.tolist(), exact.tolist(), strict=True))
        assert all(atoms_delta(above, e) >= d - 1e-13 for e, d in zip(epsilons.tolist(), exact.tolist(), strict=True))

    @pytest.mark.parametrize("name", ["gaussian", "pair", "sizes", "outcomes"])
    def test_above_is_exact_at_edges(self, name: str) -> None:
        """Connecting the dots of delta as a function of e^eps: no error where the dots are."""
        atoms = discretize(CURVES[name], 0.1 * np.arange(-120.0, 121.0), Side.ABOVE)
        for index in (-20, -3, 0, 1, 4, 30):
            exact = float(CURVES[name].delta(0.1 * index))
            assert atoms_delta(atoms, 0.1 * index) == pytest.approx(exact, rel=1e-8, abs=1e-11)

    @EVERY
    @pytest.mark.parametrize("side", SIDES)
    def test_masses(self, curve: TradeOff, side: Side) -> None:
        atoms = discretize(curve, np.linspace(-12.0, 12.0, 481), side)
        assert np.all(atoms.mass >= 0.0)
        assert np.all(np.diff(atoms.losses) >= 0.0)
        assert atoms.infinite >= 0.0
        assert float(atoms.mass.sum()) + atoms.infinite <= 1.0 + 1e-9
        # and of P, whose mass at a finite loss is Q's times e^-l
        assert float(np.sum(atoms.mass * np.exp(-atoms.losses))) <= 1.0 + 1e-9

    @EVERY
    def test_edges_that_are_few_or_far_away_are_still_on_their_side(self, curve: TradeOff) -> None:
        epsilons = np.linspace(-3.0, 8.0, 111).tolist()
        for edges in ([-0.5, 0.5], [0.2, 0.9], [-3.0, -2.0], [300.0, 800.0], [-900.0, -500.0], [0.3]):
            below, above = (discretize(curve, np.array(edges), side) for side in SIDES)
            for epsilon in epsilons:
                exact = float(curve.delta(epsilon))
                assert atoms_delta(below, epsilon) <= exact + 1e-13
                assert exact <= atoms_delta(above, epsilon) + 1e-13

    @pytest.mark.parametrize("name", ["gaussian", "subsampled", "pair", "pair, reversed"])
    @pytest.mark.parametrize("side", SIDES)
    def test_error_is_of_second_order(self, name: str, side: Side) -> None:
        """Halving the cells of a smooth loss divides the error by four, on both sides."""
        curve, epsilons = CURVES[name], np.linspace(0.021, 0.9, 89)

        def worst(step: float) -> float:
            reach = math.ceil(9.0 / step)
            atoms = discretize(curve, step * np.arange(-reach, reach + 1.0), side)
            computed = np.array([atoms_delta(atoms, e) for e in epsilons.tolist()])
            return float(np.max(np.abs(computed - curve.delta(epsilons))))

        coarse, fine = worst(0.04), worst(0.01)
        assert fine < coarse / 8.0
        assert coarse < 0.04**2 * 10.0

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize(
        ("rate", "sigma", "forward", "backward"),
        [(7e-8, 0.195, 0.9, 174762.0), (1e-8, 1.0, 9.0, 5e6), (0.3, 0.6, 4.0, 4.0)],
    )
    def test_a_small_rate_keeps_its_digits(
        self, rate: float, sigma: float, forward: float, backward: float, reverse: bool
    ) -> None:
        """log E[e^(theta l)] of the noisy sum under its numerator, theta > 0, by quadrature in 40 digits.

        It grows with every pair that leaks more, so each side is on its side.
        """
        mp.mp.dps = 40
        shift, tilt = 1 / mp.mpf(sigma), backward if reverse else forward

        def integrand(x: mp.mpf) -> mp.mpf:
            loss = mp.log(1 - mp.mpf(rate) + mp.mpf(rate) * mp.exp(shift * x - shift**2 / 2))
            return mp.npdf(x) * mp.exp(-tilt * loss if reverse else (1 + tilt) * loss)

        nodes = [-30, *range(-12, 31), 40, 60]
        exact = mp.log(mp.quad(integrand, nodes, maxdegree=8))
        curve: TradeOff = Subsampled(Gaussian(1.0 / sigma), rate)
        curve = curve.inverse() if reverse else curve
        scouts = np.concatenate([-np.logspace(3, -12, 4000), np.logspace(-12, 3, 4000)])
        low, high = (discretize(curve, scouts, side).tilted(tilt)[0] for side in SIDES)
        # the masses add up to 1 with some ulps missing
        slack = 8e-15 * (1.0 + abs(float(exact)))
        assert low <= float(exact) + slack
        assert float(exact) <= high + slack
        assert high - low < 2e-2 * float(abs(exact)) + slack


def sums(atoms: Atoms, count: int) -> tuple[np.ndarray, np.ndarray, float]:
    """(losses, masses, mass at infinity) of every combination of atoms of `count` rounds."""
    losses, mass = np.zeros(1), np.ones(1)
    for _ in range(count):
        losses = np.add.outer(losses, atoms.losses).ravel()
        mass = np.multiply.outer(mass, atoms.mass).ravel()
    return losses, mass, 1.0 - (1.0 - atoms.infinite) ** count


def delta_of(losses: np.ndarray, mass: np.ndarray, infinite: float, epsilon: float) -> float:
    return float(np.sum(mass * np.maximum(-np.expm1(epsilon - losses), 0.0)) + infinite)


def two_sides(
    layers: list[tuple[Layer, Window]], parts: Parts, epsilon: float, size: int = SMALL
) -> tuple[float, float]:
    """Both ends of delta of all layers, with the mass at infinity."""
    never = math.prod((1.0 - atoms.infinite) ** count for count, atoms in parts)
    ends = []
    for side in SIDES:
        total = sum(
            math.exp(composed(layer, window, size, side, epsilon).log_delta(epsilon, side)) for layer, window in layers
        )
        ends.append(total + 1.0 - never)
    return ends[0], ends[1]


def as_a_whole(parts: Parts, epsilon: float) -> list[tuple[Layer, Window]]:
    whole = Layer([(count, atoms.up_to(math.inf)) for count, atoms in parts])
    return [(whole, window_at_epsilon(whole, epsilon))]


class TestTransform:
    @pytest.mark.parametrize("less_total", [False, True])
    @pytest.mark.parametrize("spread", [1e-6, 0.3, 40.0, 3000.0])
    def test_is_the_sum_of_all_turns(self, spread: float, less_total: bool) -> None:
        """In 40 digits, with an error that is charged and no larger than some roundings, once the sum is smoothed."""
        generator = np.random.default_rng(4)
        distance = np.concatenate([[0.0], spread * generator.normal(size=30)])
        mass = np.concatenate([[0.9], 0.1 * generator.dirichlet(np.ones(30))])
        found = transform(distance, mass, 360, less_total=less_total)
        with mp.workdps(40):
            for number in (0, 1, 17, 50, 90, 120, 150, 179, 180):
                turn = mp.mpc(0, -2) * mp.pi * number / 360
                exact = mp.fsum(
                    mp.mpf(one) * (mp.exp(turn * mp.mpf(at)) - (1 if less_total else 0))
                    for at, one in zip(distance.tolist(), mass.tolist(), strict=True)
                )
                off = float(abs(mp.mpmathify(complex(found.values[number])) - exact))
                smoothing = math.exp(-0.5 * (SMOOTH * 2.0 * math.pi * number / 360) ** 2)
                assert off * smoothing <= found.error
                assert off <= found.largest
        assert found.error < 1e-12 * (min(spread, 0.1) if less_total else 1.0)
        assert found.largest < 1e-9

    @pytest.mark.parametrize("aside", [0.0, 0.25, 0.2500001, 0.5, 0.5000001, 0.75, 1e5 + 0.25])
    def test_one_atom_wherever_it_lies(self, aside: float) -> None:
        """Each has its own points, and those that do not see it are the same for all: nothing is averaged away."""
        found = transform(np.array([aside]), np.ones(1), 64, less_total=False)
        with mp.workdps(40):
            for number, value in enumerate(found.values.tolist()):
                off = float(abs(value - mp.exp(mp.mpc(0, -2) * mp.pi * number / 64 * mp.mpf(aside))))
                assert off * math.exp(-0.5 * (SMOOTH * 2.0 * math.pi * number / 64) ** 2) <= found.error


class TestComposed:
    @EVERY
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_is_the_sum(self, curve: TradeOff, count: int) -> None:
        """Atoms off the grid, every combination of them."""
        atoms = discretize(
            curve, np.sort(np.concatenate([np.linspace(-6.0, 6.0, 40), [0.013, 0.4141, 1.777]])), Side.ABOVE
        )
        losses, mass, infinite = sums(atoms, count)
        for epsilon in (0.0, 0.33, 1.0, 2.5):
            exact = delta_of(losses, mass, infinite, epsilon)
            low, high = two_sides(as_a_whole([(count, atoms)], epsilon), [(count, atoms)], epsilon)
            assert low <= exact * (1.0 + 1e-12) + 1e-15
            assert exact * (1.0 - 1e-12) - 1e-15 <= high

    @pytest.mark.parametrize("name", ["gaussian", "subsampled", "pair", "mixture", "sizes"])
    @pytest.mark.parametrize("layered", [False, True])
    def test_is_close_to_the_sum(self, name: str, layered: bool) -> None:
        atoms, epsilon = discretize(CURVES[name], np.linspace(-7.0, 7.0, 60), Side.ABOVE), 1.5
        exact = delta_of(*sums(atoms, 3), epsilon)
        layers = as_a_whole([(3, atoms)], epsilon)
        if layered:
            layers = [(layer, window_at_epsilon(layer, epsilon)) for layer in layers_at([(3, atoms)], epsilon)]
            assert len(layers) > 1
        low, high = two_sides(layers, [(3, atoms)], epsilon, 1 << 15)
        assert low <= exact <= high
        assert high - low < 1e-3 * exact

    def test_unlike_rounds(self) -> None:
        first, second = (discretize(CURVES[n], np.linspace(-6.0, 6.0, 50), Side.ABOVE) for n in ("subsampled", "pair"))
        losses = np.add.outer(first.losses, sums(second, 2)[0]).ravel()
        mass = np.multiply.outer(first.mass, sums(second, 2)[1]).ravel()
        infinite = 1.0 - (1.0 - first.infinite) * (1.0 - second.infinite) ** 2
        exact = delta_of(losses, mass, infinite, 1.0)
        parts = [(1, first), (2, second)]
        for some in (as_a_whole(parts, 1.0), [(it, window_at_epsilon(it, 1.0)) for it in layers_at(parts, 1.0)]):
            low, high = two_sides(some, parts, 1.0, 1 << 15)
            assert low <= exact <= high
            assert high - low < 1e-3 * exact

    @pytest.mark.parametrize("theta", [0.2, 1.0, 3.0, 12.0])
    def test_the_tilt_does_not_matter(self, theta: float) -> None:
        atoms = discretize(CURVES["subsampled"], np.linspace(-7.0, 7.0, 200), Side.ABOVE)
        exact = delta_of(*sums(atoms, 2), 0.5)
        whole = Layer([(2, atoms.up_to(math.inf))])
        low, high = two_sides([(whole, window_around(whole, theta))], [(2, atoms)], 0.5, 1 << 14)
        assert low <= exact <= high
        if theta <= 3.0:
            assert high < low * (1.0 + 1e-2)

    def test_a_window_much_narrower_than_the_losses_wraps_soundly(self) -> None:
        """What wraps around is charged, not lost."""
        atoms = discretize(CURVES["gaussian"], np.linspace(-7.0, 7.0, 280), Side.ABOVE)
        whole = Layer([(1, atoms.up_to(math.inf))])
        for epsilon in (0.5, 2.0, 4.0):
            low, high = two_sides([(whole, Window(6.0, 6.0, 6.0))], [(1, atoms)], epsilon, 64)
            assert low <= delta_of(*sums(atoms, 1), epsilon) <= high

    @pytest.mark.parametrize("largest", [1e3, 1e9])
    def test_losses_too_wide_for_a_grid_have_chernoffs_bound(self, largest: float) -> None:
        """A Gaussian of some steps, wider than all losses together, would be the sum: no points are spent on it."""
        atoms = Atoms(np.array([-1.0, 1.0, largest]), np.array([0.3, 0.5, 0.2]), 0.0, 0.0)
        exact = delta_of(*sums(atoms, 2), 0.5)
        whole = Layer([(2, atoms.up_to(math.inf))])
        window = window_at_epsilon(whole, 0.5)
        found = composed(whole, window, 256, Side.ABOVE, 0.5)
        assert (found.losses.size == 0) == (largest > 1e5)
        assert exact <= math.exp(found.log_delta(0.5, Side.ABOVE)) * (1.0 + 1e-12)

    def test_a_steep_tilt_moves_losses_and_not_their_masses(self) -> None:
        """A hundred thousand rounds at a tilt of 2e5, where a position off by 5e-9 is a thousandth of delta.

        The truth is the contour integral, which shares no code with the grid.
        """
        rate, sigma, steps, delta = 7.15e-8, 0.195, 106_837, 6e-19
        grid = GridComposition(((steps, Subsampled(Gaussian(1.0 / sigma), rate).inverse()),), 1 << 17)
        low, high = (grid.epsilon(delta, side) for side in SIDES)
        assert low <= high
        assert high - low < 1e-7 * high


class TestSmoothing:
    """What is done to a sum before it is put on a grid (docs/accountant.md, "Putting a sum on a grid")."""

    def test_the_lower_side_is_one(self) -> None:
        """2 delta_v - delta_(cv), with chords between grid points, against max(0, 1 - e^x), for one atom anywhere."""
        generator = np.random.default_rng(0)
        for step in (1e-3, 0.01, 0.08):
            deviation = SMOOTH * step
            for place in generator.uniform(0.0, 1.0, 7):
                # grid points around an atom at 0, and points between them
                nodes = step * (np.arange(-60, 61) + place)
                values = 2.0 * gaussian_delta(deviation, nodes) - gaussian_delta(put._WIDER * deviation, nodes)
                at = np.linspace(nodes[0], nodes[-1], 4001)
                chords = np.interp(np.exp(at), np.exp(nodes), values)
                assert np.all(chords <= np.maximum(-np.expm1(at), 0.0) + 1e-15)

    def test_and_with_a_little_less_it_is_not(self) -> None:
        step = 0.01
        nodes = step * (np.arange(-60, 61) + 0.5)
        deviation = SMOOTH * step
        values = 2.0 * gaussian_delta(deviation, nodes) - gaussian_delta(1.7 * deviation, nodes)
        at = np.linspace(nodes[0], nodes[-1], 4001)
        chords = np.interp(np.exp(at), np.exp(nodes), values)
        assert np.any(chords > np.maximum(-np.expm1(at), 0.0))

    def test_splitting_keeps_both_masses(self) -> None:
        """Its transform at frequency 0 and tilt theta is the tilted mass of what one loss becomes, averaged over the cell."""
        for step, theta in ((0.01, 0.5), (0.3, 2.0)):
            x = np.linspace(0.0, step, 20_001)
            below = np.expm1(step - x) / np.expm1(step)
            # e^(theta (grid point - loss)): x above the lower point, step - x below the upper one
            law = below * np.exp(-theta * x) + (1.0 - below) * np.exp(theta * (step - x))
            mean = float(np.sum((law[1:] + law[:-1]) / 2.0) / (x.size - 1))
            assert abs(splitting_kernel(np.zeros(1), step, theta)[0]) == pytest.approx(mean, rel=1e-6)


def gaussian_delta(mu: float, epsilon: np.ndarray) -> np.ndarray:
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


class TestGridComposition:
    @EVERY
    def test_one_round(self, curve: TradeOff) -> None:
        grid = GridComposition(((1, curve),), SMALL)
        for delta in (1e-2, 1e-6):
            exact = curve.epsilon(delta)
            low, high = (grid.epsilon(delta, side) for side in SIDES)
            assert low <= exact * (1.0 + 1e-12) <= high * (1.0 + 2e-12)

    @EVERY
    @pytest.mark.parametrize("epsilon", [0.05, 0.6, 2.0])
    def test_one_round_of_delta(self, curve: TradeOff, epsilon: float) -> None:
        grid = GridComposition(((1, curve),), SMALL)
        low, high = (grid.log_delta(epsilon, side) for side in SIDES)
        exact = float(curve.log_delta(epsilon))
        assert low <= exact + 1e-12
        assert exact <= high + 1e-12
        assert high <= 1e-9

    @pytest.mark.parametrize(
        ("p", "q"),
        [
            ([0.5, 0.5], [0.25, 0.75]),
            ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
            ([0.1, 0.2, 0.3, 0.4], [0.4, 0.25, 0.25, 0.1]),
        ],
    )
    @pytest.mark.parametrize("count", [2, 5])
    def test_brute_force(self, p: list[float], q: list[float], count: int) -> None:
        """Every combination of outcomes of a few rounds, losses off the grid."""
        p_all, q_all = reference.all_outcomes([(count, np.array(p), np.array(q))])
        grid = GridComposition(((count, FiniteOutcomes(np.array(p), np.array(q))),))
        for epsilon in (0.1, 0.9, 1.7):
            for direction, exact in (
                (grid, reference.hockey_stick(p_all, q_all, epsilon)),
                (grid.inverse(), reference.hockey_stick(q_all, p_all, epsilon)),
            ):
                low, high = (math.exp(direction.log_delta(epsilon, side)) for side in SIDES)
                assert low <= exact * (1.0 + 1e-9)
                assert exact * (1.0 - 1e-9) <= high
                assert high - low < 2e-3 * exact + 1e-9

    @pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.3, 1.0, 0.7), (0.05, 2.0, 0.05), (0.9, 1.5, 1.0)])
    def test_two_subsampled_rounds(self, rate: float, sigma: float, epsilon: float) -> None:
        """Quadrature over the first round in 25 digits."""
        forward, backward = reference.two_subsampled_rounds(rate, sigma, epsilon)
        grid = GridComposition(((2, Subsampled(Gaussian(1.0 / sigma), rate)),))
        for direction, exact in ((grid, float(forward)), (grid.inverse(), float(backward))):
            low, high = (math.exp(direction.log_delta(epsilon, side)) for side in SIDES)
            assert low <= exact * (1.0 + 1e-9)
            assert exact * (1.0 - 1e-9) <= high
            assert high < exact * 1.02 + 1e-9

    def test_gaussians_have_a_closed_form(self) -> None:
        grid = GridComposition(((16, Gaussian(0.25)),))
        for delta in (1e-2, 1e-5, 1e-9):
            low, high = (grid.epsilon(delta, side) for side in SIDES)
            exact = Gaussian(1.0).epsilon(delta)
            assert low <= exact <= high
            assert high - low < 1e-4 * exact

    @pytest.mark.parametrize(
        ("rate", "sigma", "steps", "delta"),
        [
            # first the three of the report that found them wide
            (1e-4, 0.8, 10**4, 1e-6),
            (1e-6, 0.6, 10**6, 1e-6),
            (1e-3, 0.7, 1000, 1e-6),
            (1e-8, 1.0, 10**6, 1e-6),
            (1e-8, 0.3, 10**8, 1e-6),
            (2.61e-8, 0.607, 798_913, 1.1e-12),
            (1.6e-5, 0.357, 7, 1.5e-5),
            (2.37e-5, 0.787, 2, 7e-10),
            (0.0385, 1.6, 2, 7.5e-5),
            (0.9956, 0.381, 2, 6.9e-12),
            (1e-4, 100.0, 10**6, 1e-8),
            (0.999, 0.05, 30, 1e-5),
        ],
    )
    def test_small_rates_and_rare_large_losses(self, rate: float, sigma: float, steps: int, delta: float) -> None:
        grid = GridComposition(((steps, Subsampled(Gaussian(1.0 / sigma), rate)),))
        for direction in (grid, grid.inverse()):
            low, high = (direction.epsilon(delta, side) for side in SIDES)
            assert low <= high
            assert high - low <= 1e-3 * max(high, 0.01)

    @pytest.mark.parametrize("delta", [1e-44, 1e-60, 1e-150])
    def test_a_very_small_delta(self, delta: float) -> None:
        grid = GridComposition(((10**4, Subsampled(Gaussian(1.0 / 0.8), 1e-4)),))
        low, high = (grid.epsilon(delta, side) for side in SIDES)
        assert low <= high < 1.001 * low

    @pytest.mark.parametrize("delta", [1e-200, 1e-250, 1e-280])
    def test_a_delta_too_small_for_windows_still_has_chernoffs_bound(self, delta: float) -> None:
        grid = GridComposition(((10**4, Subsampled(Gaussian(1.0 / 0.8), 1e-4)),))
        low, high = (grid.epsilon(delta, side) for side in SIDES)
        assert 0.0 < low <= high < 2.0 * low

    def test_any_grid_is_a_bracket_and_a_finer_one_is_no_wider(self) -> None:
        curve = Subsampled(Gaussian(1.0), 0.05)
        brackets = [
            [GridComposition(((50, curve),), size).epsilon(1e-5, side) for side in SIDES]
            for size in (1 << 9, 1 << 11, 1 << 14, 1 << 16)
        ]
        widths = [high - low for low, high in brackets]
        assert max(low for low, _ in brackets) <= min(high for _, high in brackets)
        assert widths[0] > 4.0 * widths[2]
        assert all(after <= before * 1.01 for before, after in itertools.pairwise(widths))

    def test_inverse_of_the_inverse(self) -> None:
        grid = GridComposition(((4, Subsampled(Gaussian(1.0), 0.3)),))
        for side in SIDES:
            assert grid.inverse().inverse().epsilon(1e-5, side) == grid.epsilon(1e-5, side)

    def test_order_and_counts(self) -> None:
        f, g = Subsampled(Gaussian(1.0), 0.2), gaussian_pair(6, 0.2, 0.9)
        orders = [((3, f), (2, g)), ((2, g), (3, f)), ((1, f), (2, g), (2, f))]
        answers = [[GridComposition(parts).epsilon(1e-5, side) for side in SIDES] for parts in orders]
        for low, high in answers[1:]:
            # each is a bracket of the same number
            assert low <= answers[0][1]
            assert answers[0][0] <= high
        assert answers[0] == pytest.approx(answers[1], rel=1e-9)

    @pytest.mark.parametrize("epsilon", [1.0, 6.7, 9.0, 10.0, 20.0])
    def test_delta_next_to_an_end_of_the_loss(self, epsilon: float) -> None:
        """Reversed, six rounds lose at most -6 log(1-q) = 9.19: delta is nearly 1, then falls off a cliff, then 0."""
        one = Subsampled(Gaussian(1.0 / 0.31), 0.784)
        grid = GridComposition(((6, one.inverse()),))
        low, high = (grid.log_delta(epsilon, side) for side in SIDES)
        assert low <= high <= 1e-9
        if epsilon < 9.0:
            # P[all six records' losses are at their end] alone is this likely
            assert math.exp(high) > 0.5
            assert math.exp(low) > 0.5
        if epsilon > -6.0 * math.log1p(-0.784):
            assert low == -math.inf


def test_what_a_rule_may_be_off_by_is_charged_in_every_round() -> None:
    """delta of a product is the mean under Q of delta of one factor, so T rounds are off by T times as much."""
    steps, epsilon, error = 4, 0.5, 1e-3
    across = TabulatedPair(90, float(np.log(0.97)))
    p, q = np.array([0.6, 0.4]), np.array([0.5, 0.5])
    exact, off = (LossOnLine(np.log(q / p), p, q, across, rule_error=rule_error) for rule_error in (0.0, error))
    low, high = (math.exp(GridComposition(((steps, exact),)).log_delta(epsilon, side)) for side in SIDES)
    charged = [math.exp(GridComposition(((steps, off),)).log_delta(epsilon, side)) for side in SIDES]
    # windows move a little
    assert charged[0] == pytest.approx(low - steps * error, rel=1e-5)
    assert charged[1] == pytest.approx(high + steps * error, rel=1e-5)


@pytest.mark.parametrize("steps", [2, 30])
def test_the_curve_of_a_grid_is_a_narrow_bracket_of_the_truth(steps: int) -> None:
    """Full batches of the noisy sum: G_mu with mu = sqrt(T)/sigma; the bracket is convex, as every trade-off function is."""
    grid = GridComposition(((steps, Gaussian(1.0 / 3.0)),))
    alpha = np.linspace(0.0, 1.0, 101)
    exact = Gaussian(math.sqrt(steps) / 3.0)(alpha)
    below, above = grid.curve(alpha, Side.BELOW), grid.curve(alpha, Side.ABOVE)
    assert np.all(below <= exact + 1e-15)
    assert np.all(exact <= above + 1e-15)
    assert (above - below).max() < 1e-5
    assert np.diff(above, 2).min() > -1e-12


@pytest.mark.parametrize("theta", [0.01, 3.0, 80.0])
@pytest.mark.parametrize("rising", [False, True])
def test_what_is_beyond_an_epsilon_is_summed_as_far_as_it_matters(theta: float, rising: bool) -> None:
    """Against the sum of all terms by fsum; masses that rise steeply are the worst for a sum that ends early."""
    step, size = 0.01, 20_000
    generator = np.random.default_rng(7)
    masses = generator.exponential(size=size) * (np.exp(2e-3 * np.arange(size)) if rising else 1.0)
    masses /= masses.sum()
    losses: Array = step * np.arange(size, dtype=np.float64)
    grid = GridSum(losses, step, masses, theta, 0.0, 0.0, 0.0)
    for epsilon in (0.0, 0.005, 1.234, 57.0, 199.97, 250.0):
        beyond = grid.losses[grid.losses > epsilon] - epsilon
        exact = math.fsum(masses[-beyond.size :] * np.exp(-theta * beyond) * -np.expm1(-beyond)) if beyond.size else 0.0
        share, off = grid._beyond(epsilon)
        assert abs(share - exact) <= off
        assert off <= 1e-9 * exact + 1e-19
