"""optax.contrib: the gradient transformation, and the optimizer that is made of it. It has no accounting."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, final

# every size of a batch is compiled anew: as little work on each as there may be
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from noisymean.targets.libraries.inside.way import Rows, Setting


def _gradients(rows: Any) -> Any:
    """Of each record, of a loss that is linear in the parameters."""

    def loss(parameters: Any, record: Any) -> Any:
        return jnp.dot(parameters, record)

    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(jnp.zeros(rows.shape[1]), rows)


def _aggregate(bound: float, noise: float, seed: int) -> Any:
    return optax.contrib.differentially_private_aggregate(l2_norm_clip=bound, noise_multiplier=noise, key=seed)


def _optimizer(bound: float, noise: float, seed: int) -> Any:
    return optax.contrib.dpsgd(learning_rate=1.0, l2_norm_clip=bound, noise_multiplier=noise, seed=seed)


@cache
def _compiled(make: Any) -> Any:
    """Compiled once for each size of a batch: the bound and the noise are arguments, the seed is in the state."""

    def update(rows: Any, state: Any, bound: Any, noise: Any) -> Any:
        return make(bound, noise, 0).update(_gradients(rows), state, jnp.zeros(rows.shape[1]))

    return jax.jit(update)


@final
class _Transformation:
    """A gradient transformation; its state goes from round to round, as its users do it."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def begin(self, setting: Setting) -> None:
        """A new state, from the seed."""
        self.numbers = setting.max_grad_norm, setting.noise_multiplier
        self.state = self.make(*self.numbers, setting.seed % 2**31).init(jnp.zeros(setting.dimension))

    def step(self, rows: Rows) -> NDArray[Any]:
        """The update of one batch."""
        updates, self.state = _compiled(self.make)(rows, self.state, *self.numbers)
        return np.asarray(updates)


def differentially_private_aggregate() -> _Transformation:
    """The transformation by itself."""
    return _Transformation(_aggregate)


def dpsgd() -> _Transformation:
    """The optimizer, with a step of length one."""
    return _Transformation(_optimizer)


def said() -> dict[str, float]:
    """It has no accounting."""
    return {}
