"""The ways in which other libraries are run, each as a `Runnable`: `optax`, `optax:dpsgd`, and so on.

Most are handed batches, which are drawn here by Poisson sampling; two draw their own. A way is run through the library's public
names: its optimizer's or its model's own step, on a loss that is linear in the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from noisymean.choices import did_you_mean
from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.targets.libraries.client import Session, worker_of
from noisymean.targets.libraries.environments import (
    FLWR,
    JAX_PRIVACY,
    OBJAX,
    OPTAX,
    PFL,
    TENSORFLOW_PRIVACY,
    Environment,
)
from noisymean.targets.processes.client import WorkerFault
from noisymean.targets.protocol import Knob, Raised, Request, Runnable

_INSIDE = "noisymean.targets.libraries.inside"


@final
@dataclass(frozen=True, kw_only=True)
class LibraryWay(Runnable):
    """One way of a library: which class or function of which module inside, with which options."""

    environment: Environment
    label: str
    module: str
    way: str
    options: Mapping[str, Any] = field(default_factory=dict)
    draws: bool = False

    def __hash__(self) -> int:
        return hash((self.environment, self.label))

    @property
    def name(self) -> str:
        return f"{self.environment.title}, {self.label}"

    @property
    def knob(self) -> Knob:
        return Knob.BATCH_SIZE if self.draws else Knob.BATCH

    @cached_property
    def _session(self) -> Session:
        return Session(worker_of(self.environment), self.module, self.way, self.options)

    def run(self, run: Request) -> Array:
        try:
            return self.session().release(run)
        except WorkerFault as fault:
            raise Raised(f"raises {fault.what}") from None

    def session(self) -> Session:
        """The session of this way; a new one if its worker has ended."""
        if not self._session.worker.usable:
            del self.__dict__["_session"]
        return self._session


def _way(environment: Environment, label: str, way: str, draws: bool = False, **options: Any) -> LibraryWay:
    module = f"{_INSIDE}.{environment.module}_"
    return LibraryWay(environment=environment, label=label, module=module, way=way, options=options, draws=draws)


# A number of clients that is declared where replies vary.
_DECLARED = 8
# The first of each library is the one that its name alone stands for.
WAYS: dict[str, LibraryWay] = {
    "optax": _way(OPTAX, "differentially_private_aggregate", "differentially_private_aggregate"),
    "optax:dpsgd": _way(OPTAX, "dpsgd", "dpsgd"),
    "objax": _way(OBJAX, "PrivateGradValues", "PrivateGradValues"),
    "tensorflow-privacy": _way(TENSORFLOW_PRIVACY, "DPKerasSGDOptimizer", "Optimizer", name="DPKerasSGDOptimizer"),
    "tensorflow-privacy:vectorized": _way(
        TENSORFLOW_PRIVACY, "VectorizedDPKerasSGDOptimizer", "Optimizer", name="VectorizedDPKerasSGDOptimizer"
    ),
    "tensorflow-privacy:one-microbatch": _way(
        TENSORFLOW_PRIVACY, "DPKerasSGDOptimizer, num_microbatches=1", "Optimizer",
        name="DPKerasSGDOptimizer", num_microbatches=1,
    ),
    "tensorflow-privacy:model": _way(TENSORFLOW_PRIVACY, "DPSequential", "Model"),
    "jax-privacy": _way(JAX_PRIVACY, "clipped_grad, normalize_by=12", "ClippedGradient", normalize_by=12.0),
    "jax-privacy:padded": _way(
        JAX_PRIVACY, "clipped_grad, normalize_by=12, batches padded to multiples of 8", "ClippedGradient",
        normalize_by=12.0, pad_to=8,
    ),
    "jax-privacy:sum": _way(JAX_PRIVACY, "clipped_grad, normalize_by left out", "ClippedGradient"),
    "jax-privacy:keras": _way(JAX_PRIVACY, "Keras API, as it comes", "KerasModel", draws=True),
    "jax-privacy:keras-poisson": _way(
        JAX_PRIVACY, "Keras API, poisson_sampling_in_fit=True", "KerasModel", draws=True, poisson=True
    ),
    "pfl": _way(PFL, "GaussianMechanism, central", "HandedCohort"),
    "pfl:random": _way(PFL, "its own cohorts, 'random'", "DrawnCohort", draws=True, sampler="random"),
    "pfl:minimize-reuse": _way(
        PFL, "its own cohorts, 'minimize_reuse'", "DrawnCohort", draws=True, sampler="minimize_reuse"
    ),
    "flwr": _way(
        FLWR, f"server-side fixed clipping, {_DECLARED} declared", "FixedClipping", num_sampled_clients=_DECLARED
    ),
    "flwr:examples": _way(
        FLWR, f"server-side fixed clipping, {_DECLARED} declared, clients with 1 to 3 examples", "FixedClipping",
        num_sampled_clients=_DECLARED, most_examples=3,
    ),
}  # fmt: skip


def way_named(text: str) -> Runnable:
    """The way of that name: a library, or LIBRARY:WAY; LIBRARY==VERSION if it is the version that is run here."""
    library, _, version = text.partition("==")
    found = WAYS.get(library)
    if found is None or ("==" in text and found.environment.version != version):
        known = [name for name in WAYS if name.partition(":")[0] == library.partition(":")[0]]
        allowed = " or ".join(known) if found is None else f"{library}=={found.environment.version}"
        raise InvalidInput("target", text, allowed or f"one of {', '.join(WAYS)}", did_you_mean(text, known or WAYS))
    return found
