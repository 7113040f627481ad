"""pfl: the central Gaussian mechanism in its simulation, on cohorts that are handed over or that it draws itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data import FederatedDataset
from pfl.data.dataset import Dataset
from pfl.data.sampling import get_user_sampler
from pfl.internal.ops import numpy_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism, PLDPrivacyAccountant
from pfl.stats import MappedVectorStatistics

from noisymean.targets.libraries.inside import way
from noisymean.targets.libraries.inside.way import Rows, Setting

# the mathematics of the library without torch or TensorFlow
set_framework_module(numpy_ops)


class _OneVector(FederatedAlgorithm):  # type: ignore[misc]
    """Every user's statistics are the vector that it has, with weight one."""

    def simulate_one_user(self, model: Any, user_dataset: Any, central_context: Any) -> Any:
        """Its vector."""
        from pfl.metrics import Metrics

        (vector,) = user_dataset.raw_data
        return MappedVectorStatistics({"w": np.array(vector, np.float64)}, weight=1.0), Metrics()

    def get_next_central_contexts(self, *arguments: Any, **options: Any) -> Any:
        """Not asked for: one round at a time."""
        raise NotImplementedError

    def process_aggregated_statistics(self, *arguments: Any, **options: Any) -> Any:
        """Not asked for: the mean is taken as `FederatedAveraging` takes it."""
        raise NotImplementedError


@final
class _Cohort:
    """The users of one batch."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def get_cohort(self, cohort_size: int) -> Iterator[tuple[Any, int]]:
        """All of them."""
        for number, row in enumerate(self.rows):
            yield Dataset([row], user_id=str(number)), number


def _released(dataset: Any, setting: Setting, size: int, seed: int) -> NDArray[Any]:
    mechanism = GaussianMechanism(setting.max_grad_norm, setting.noise_multiplier)
    backend = SimulatedBackend(dataset, None, [CentrallyAppliedPrivacyMechanism(mechanism)])
    context = CentralContext(
        current_central_iteration=0, do_evaluation=False, cohort_size=size, population=Population.TRAIN,
        model_train_params=None, algorithm_params=None, seed=seed,
    )  # fmt: skip
    statistics, _ = backend.gather_results(model=None, training_algorithm=_OneVector(), central_context=context)
    # as FederatedAveraging does with what it is handed
    statistics.average()
    return np.asarray(statistics["w"])


@final
class HandedCohort:
    """Cohorts as they are handed over."""

    def begin(self, setting: Setting) -> None:
        """Noise from the seed."""
        self.setting, self.generator = setting, np.random.default_rng([setting.seed, 1])

    def step(self, rows: Rows) -> NDArray[Any]:
        """One central iteration."""
        return _released(_Cohort(rows), self.setting, len(rows), int(self.generator.integers(2**31)))


@final
class DrawnCohort:
    """Cohorts that its own sampler of users draws."""

    def __init__(self, sampler: str) -> None:
        self.sampler = sampler

    def rounds(self, setting: Setting, rows: Rows, batch_size: int, count: int) -> Iterator[NDArray[Any]]:
        """Central iterations with cohorts of that size."""
        np.random.seed(setting.seed % 2**32)  # noqa: NPY002 - the generator that the library asks
        generator = np.random.default_rng([setting.seed, 1])
        dataset = FederatedDataset(
            lambda user: Dataset([rows[user]], user_id=str(user)), get_user_sampler(self.sampler, range(len(rows)))
        )
        for _ in range(count):
            yield _released(dataset, setting, batch_size, int(generator.integers(2**31)))


def said() -> dict[str, float]:
    """What its accountant by privacy loss distributions says."""
    accountant = PLDPrivacyAccountant(
        num_compositions=way.STEPS, sampling_probability=way.RATE, mechanism="gaussian", delta=way.DELTA,
        noise_parameter=way.NOISE,
    )  # fmt: skip
    return {"PLDPrivacyAccountant": float(accountant.epsilon)}
