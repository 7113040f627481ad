"""lattice: chords from below are below, sums of few rounds bracket the truth, and say nothing where they know nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from noisymean.compose.engine import Rounds
from noisymean.compose.grid.composition import GridComposition
from noisymean.compose.grid.discretize import discretize
from noisymean.compose.grid.lattice import LatticeComposition
from noisymean.laws.closed import EpsilonDelta, Gaussian, Identity
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import GaussianPairs, gaussian_pair
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.laws.sum_of_squares import sum_of_squares
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import EASGM
from noisymean.tradeoff import Side, TradeOff
from rounds_of import atoms_delta


def without_some_of_q(kept: float) -> FiniteOutcomes:
    """N(0, 1) against a mixture with N(4, 1) in narrow cells, without an outcome that is possible under Q only."""
    at = np.linspace(-8.0, 12.0, 3_001)
    p, q = np.diff(ndtr(at)), np.diff(ndtr(at - 4.0))
    return FiniteOutcomes(p, kept * (0.2 * p + 0.8 * q))


CURVES: dict[str, TradeOff] = {
    "gaussian": Gaussian(0.8),
    "subsampled": Subsampled(Gaussian(1.0), 0.1),
    "subsampled, reversed": Subsampled(Gaussian(1.0), 0.1).inverse(),
    "pair": gaussian_pair(20, 0.3, 0.9),
    "pair, reversed": gaussian_pair(20, 0.3, 0.9).inverse(),
    "far away": gaussian_pair(300, 0.0, 0.5),
    "far away, reversed": gaussian_pair(300, 0.0, 0.5).inverse(),
    "mixture": RevealedMixture((0.6, 0.4), (Identity(), gaussian_pair(8, 1.0, 0.8))),
    "outcomes": FiniteOutcomes(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])),
    "short outcomes": FiniteOutcomes(np.array([0.51, 0.3, 0.2]), np.array([0.2, 0.29, 0.5])),
    # ASGM with 13 records, q = .867, sigma = .51: an edge once rose after others beside it were left out
    "without some of Q": without_some_of_q(0.86),
    "without some of P": without_some_of_q(0.86).inverse(),
    # the edge where the two tails of delta meet was looked for beyond e^t = 3 once
    "without most of P": without_some_of_q(0.2).inverse(),
    "infinite": EpsilonDelta(0.7, 0.05),
    "nothing": Identity(),
}
EVERY = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)


class TestChordsFromBelow:
    @EVERY
    @pytest.mark.parametrize("step", [0.5, 0.03])
    def test_are_below(self, curve: TradeOff, step: float) -> None:
        edges = step * np.arange(-math.ceil(12.0 / step), math.ceil(12.0 / step) + 1.0)
        atoms = discretize(curve, edges, Side.BELOW, at_edges=True)
        epsilons = np.concatenate([np.linspace(-13.0, 13.0, 521), step * np.arange(-8.0, 9.0)])
        exact = np.maximum(curve.delta(epsilons), -np.expm1(epsilons))
        assert all(atoms_delta(atoms, e) <= d + 1e-13 for e, d in zip(epsilons.tolist(), exact.tolist(), strict=True))

    @EVERY
    def test_whatever_the_edges(self, curve: TradeOff) -> None:
        generator = np.random.default_rng(5)
        chosen = [[-0.5, 0.5], [0.2, 0.9], [-3.0, -2.0], [300.0, 800.0], [-900.0, -500.0], [0.3]]
        chosen += [sorted(generator.normal(0.0, scale, 12)) for scale in (0.1, 1.0, 10.0, 100.0) for _ in range(5)]
        epsilons = np.linspace(-3.0, 8.0, 45)
        exact = np.maximum(curve.delta(epsilons), -np.expm1(epsilons))
        for edges in chosen:
            atoms = discretize(curve, np.array(edges), Side.BELOW, at_edges=True)
            assert np.all(atoms.mass >= 0.0)
            assert float(atoms.mass.sum()) <= 1.0 + 1e-9
            below = np.array([atoms_delta(atoms, e) for e in epsilons.tolist()])
            assert np.all(below <= exact + 1e-13)

    @EVERY
    def test_every_loss_is_an_edge(self, curve: TradeOff) -> None:
        edges = 0.125 * np.arange(-96.0, 97.0)
        atoms = discretize(curve, edges, Side.BELOW, at_edges=True)
        distance = np.abs(atoms.losses[atoms.mass > 0.0] / 0.125 - np.rint(atoms.losses[atoms.mass > 0.0] / 0.125))
        assert np.max(distance, initial=0.0) < 1e-9

    @pytest.mark.parametrize("name", ["gaussian", "subsampled", "pair", "pair, reversed"])
    def test_error_is_of_second_order(self, name: str) -> None:
        curve, epsilons = CURVES[name], np.linspace(0.021, 0.9, 89)

        def worst(step: float) -> float:
            reach = math.ceil(9.0 / step)
            atoms = discretize(curve, step * np.arange(-reach, reach + 1.0), Side.BELOW, at_edges=True)
            computed = np.array([atoms_delta(atoms, e) for e in epsilons.tolist()])
            return float(np.max(np.abs(computed - curve.delta(epsilons))))

        coarse, fine = worst(0.04), worst(0.01)
        assert fine < coarse / 8.0
        assert coarse < 0.04**2 * 10.0


class TestLatticeComposition:
    @pytest.mark.parametrize("mu", [0.05, 0.4, 3.0])
    @pytest.mark.parametrize("count", [1, 2, 7, 12])
    @pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
    def test_brackets_gaussians(self, mu: float, count: int, delta: float) -> None:
        """count rounds of G_mu are G of mu sqrt(count): closed form."""
        exact = Gaussian(mu * math.sqrt(count)).epsilon(delta)
        lattice = LatticeComposition(((count, Gaussian(mu)), (1, Gaussian(1e-9))))
        below, above = (lattice.epsilon_of_log(math.log(delta), side) for side in (Side.BELOW, Side.ABOVE))
        assert below is not None
        assert above is not None
        assert below <= exact <= above
        assert above - below <= 1e-3 * max(exact, 0.01)

    @EVERY
    def test_agrees_with_the_grid(self, curve: TradeOff) -> None:
        rounds = ((3, curve), (1, gaussian_pair(6, 0.2, 0.95)))
        lattice, grid = LatticeComposition(rounds), GridComposition(rounds, 1 << 13)
        for side, other in ((Side.BELOW, Side.ABOVE), (Side.ABOVE, Side.BELOW)):
            mine, theirs = lattice.epsilon_of_log(math.log(1e-4), side), grid.epsilon(1e-4, other)
            if mine is not None:
                assert mine <= theirs if side is Side.BELOW else mine >= theirs
        at_one = (lattice.log_delta(1.0, side) for side in (Side.BELOW, Side.ABOVE))
        below, above = (-math.inf if one is None else one for one in at_one)
        assert below <= grid.log_delta(1.0, Side.ABOVE)
        assert above == -math.inf or above >= grid.log_delta(1.0, Side.BELOW)

    @pytest.mark.parametrize("side", [Side.ABOVE, Side.BELOW])
    def test_says_what_it_has_seen(self, side: Side) -> None:
        """Far away by Chernoff's bound, nearer by a rough sum, and next to it by one on that side."""
        lattice = LatticeComposition(((4, Gaussian(0.5)),))
        exact = Gaussian(1.0).epsilon(1e-5)
        for factor in (0.1, 0.9, 0.99, 1.01, 1.1, 2.0, 10.0):
            assert lattice.at_most(factor * exact, math.log(1e-5), side) is (factor > 1.0)

    @pytest.mark.parametrize("rate", [1e-5, 1e-4, 1e-3])
    @pytest.mark.parametrize(("mu", "count"), [(0.1, 2), (0.3, 4), (1.0, 10)])
    def test_a_no_does_not_deny_what_is_found(self, mu: float, count: int, rate: float) -> None:
        """Where epsilon is hardly more than a step, whatever is moved to the next multiple is beyond it."""
        law = Subsampled(Gaussian(mu), rate)
        for log_delta in (-20.0, -17.0, -14.0):
            for way in (law, law.inverse()):
                lattice = LatticeComposition(((count, way),))
                found = lattice.epsilon_of_log(log_delta, Side.ABOVE)
                if found:
                    assert lattice.at_most(1.01 * found, log_delta, Side.ABOVE) is not False

    @EVERY
    def test_a_yes_is_a_bound(self, curve: TradeOff) -> None:
        lattice, grid = LatticeComposition(((3, curve),)), GridComposition(((3, curve),), 1 << 13)
        for epsilon in (0.03, 0.3, 1.0, 3.0, 10.0):
            least = grid.log_delta(epsilon, Side.BELOW)
            if least > -30.0:
                assert not lattice.at_most(epsilon, least - 1e-6, Side.ABOVE)

    @pytest.mark.parametrize(("mu", "count"), [(0.05, 3), (0.5, 4), (2.0, 2)])
    def test_curve_brackets_gaussians(self, mu: float, count: int) -> None:
        """count rounds of G_mu are G of mu sqrt(count): closed form."""
        alpha = np.concatenate([[0.0, 1e-4], np.linspace(0.01, 0.99, 99), [1.0]])
        exact = Gaussian(mu * math.sqrt(count))(alpha)
        lattice = LatticeComposition(((count, Gaussian(mu)),))
        below, above = (lattice.curve(alpha, side) for side in (Side.BELOW, Side.ABOVE))
        assert below is not None
        assert above is not None
        assert np.all(below <= exact)
        assert np.all(exact <= above)
        # at alpha = 0 a window that ends somewhere leaves something out
        assert np.max((above - below)[1:]) < 1e-5

    @EVERY
    def test_curves_of_both_sides_are_in_order(self, curve: TradeOff) -> None:
        alpha = np.linspace(0.0, 1.0, 41)
        below, above = (LatticeComposition(((3, curve),)).curve(alpha, side) for side in (Side.BELOW, Side.ABOVE))
        if below is not None and above is not None:
            assert np.all(below <= above)

    def test_an_infinite_loss_is_left_to_others(self) -> None:
        assert LatticeComposition(((2, EpsilonDelta(0.7, 0.05)),)).epsilon_of_log(math.log(1e-5), Side.ABOVE) is None


class TestParts:
    @pytest.mark.parametrize(
        ("count", "q", "sigma", "dimension"), [(2, 0.3, 1.0, 3), (20, 0.1, 0.6, 40), (300, 0.01, 2.0, 7)]
    )
    def test_line_and_dimensions_across_are_the_pair(self, count: int, q: float, sigma: float, dimension: int) -> None:
        """Added up by themselves they leak no more than together, and hardly less."""
        mechanism = EASGM(dataset_size=count, dimension=dimension, sample_rate=q, noise_multiplier=sigma)
        for pair in explicit_pairs(mechanism):
            for law in (pair, pair.backward()):
                whole = law.one_round()
                parts = tuple((1, one.one_round()) for one in law.in_parts())
                reverse = law is not pair
                lattice = LatticeComposition(tuple((n, one.inverse() if reverse else one) for n, one in parts))
                found = lattice.epsilon_of_log(math.log(1e-5), Side.BELOW)
                other = (whole.inverse() if reverse else whole).epsilon(1e-5)
                assert found == pytest.approx(other, rel=4e-3, abs=1e-3)
                assert found is not None
                # the curve of the whole has coarser cells: what it leaks is no upper bound, but nearly
                assert found <= other * 1.004 + 1e-3


class TestSumOfSquares:
    @pytest.mark.parametrize("count", [2, 5, 12])
    def test_is_a_bound_and_nearly_exact(self, count: int) -> None:
        """Against a product that is worked out pair by pair."""
        generator = np.random.default_rng(count)
        weights, shifts = generator.dirichlet(np.ones(3)), generator.uniform(0.0, 1.0, 3)
        pairs = GaussianPairs(4, weights, shifts, np.full(3, -0.2))
        bound = sum_of_squares(pairs, count)
        assert bound is not None
        every = np.array(np.meshgrid(*[np.arange(count + 1)] * 3)).reshape(3, -1)
        every = every[:, every.sum(axis=0) == count]
        logs = math.lgamma(count + 1) + (every * np.log(weights)[:, None]).sum(axis=0)
        logs -= np.array([sum(math.lgamma(n + 1) for n in one) for one in every.T])
        exact = GaussianPairs(
            4 * count, np.exp(logs), np.sqrt(every.T @ np.square(shifts)), np.full(every.shape[1], -0.2)
        )
        for curve, other in ((bound, exact), (bound.inverse(), exact.inverse())):
            for delta in (1e-2, 1e-6):
                assert 1.0 - 1e-9 <= curve.epsilon(delta) / other.epsilon(delta) <= 1.003

    def test_several_scales_are_left_to_others(self) -> None:
        assert sum_of_squares(GaussianPairs(2, np.full(2, 0.5), np.ones(2), np.array([-0.1, -0.2])), 3) is None


def test_few_rounds_do_not_depend_on_the_engine() -> None:
    """One dimension, s = 1: the noisy sum, by the convolution of two normal mixtures in closed form."""
    q, mu = 0.2, 0.9
    rounds = Rounds(((2, Subsampled(Gaussian(mu), q)),))
    x = np.linspace(-14.0, 14.0, 1601)
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * (x[1] - x[0])
    ratio = 1.0 - q + q * np.exp(mu * x - 0.5 * mu * mu)
    below, above = (rounds.epsilon(1e-4, side) for side in (Side.BELOW, Side.ABOVE))
    both = np.outer(ratio, ratio)

    def delta(epsilon: float) -> float:
        return float((np.outer(density, density) * np.maximum(both - math.exp(epsilon), 0.0)).sum())

    assert delta(below) >= 1e-4 * (1.0 - 1e-4)
    assert delta(above) <= 1e-4 * (1.0 + 1e-4)
