"""jax-privacy: the clipped gradient with its noise, and the Keras API with the batches that it draws."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any, final

os.environ.setdefault("KERAS_BACKEND", "jax")
# every size of a batch is compiled anew: as little work on each as there may be
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
from jax_privacy import accounting, noise_addition
from numpy.typing import NDArray

from noisymean.targets.libraries.inside import way
from noisymean.targets.libraries.inside.way import Rows, Setting


def _loss(parameters: Any, record: Any) -> Any:
    return jnp.dot(parameters, record)


def _privatizer(bound: Any, noise: Any, normalize_by: float, seed: int) -> tuple[Any, Any]:
    clipped = jax_privacy.clipped_grad(_loss, l2_clip_norm=bound, normalize_by=normalize_by, keep_batch_dim=False)
    return clipped, noise_addition.gaussian_privatizer(stddev=noise * clipped.sensitivity(), prng_key=seed)


@cache
def _compiled(normalize_by: float) -> Any:
    """Compiled once for each size of a batch: the bound and the noise are arguments, the seed is in the state."""

    def update(rows: Any, padding: Any, state: Any, bound: Any, noise: Any) -> Any:
        clipped, privatizer = _privatizer(bound, noise, normalize_by, 0)
        return privatizer.update(clipped(jnp.zeros(rows.shape[1]), rows, is_padding_example=padding), state)

    return jax.jit(update)


@final
class ClippedGradient:
    """`clipped_grad` and `gaussian_privatizer`, the noise as large as the sensitivity that the first one tells.

    With `pad_to`, a batch is padded to a multiple of that many records, one multiple at least, and the padding is told.
    """

    def __init__(self, normalize_by: float | None = None, pad_to: int = 1) -> None:
        self.normalize_by = 1.0 if normalize_by is None else normalize_by
        self.pad_to = pad_to

    def begin(self, setting: Setting) -> None:
        """A new state of the noise, from the seed."""
        self.numbers = setting.max_grad_norm, setting.noise_multiplier
        _, privatizer = _privatizer(*self.numbers, self.normalize_by, setting.seed % 2**31)
        self.state = privatizer.init(jnp.zeros(setting.dimension))

    def step(self, rows: Rows) -> NDArray[Any]:
        """The noisy gradient of one batch."""
        more = max(-len(rows) % self.pad_to, 0 if len(rows) or self.pad_to == 1 else self.pad_to)
        padding = np.arange(len(rows) + more) >= len(rows)
        padded = np.pad(rows, ((0, more), (0, 0)))
        released, self.state = _compiled(self.normalize_by)(padded, padding, self.state, *self.numbers)
        return np.asarray(released)


@final
class _Kept:
    """An accountant for whom every budget is kept: the configuration would refuse noise that is a millionth of the bound."""

    def compute_epsilon(self, *arguments: Any) -> float:
        """Nothing is spent."""
        return 0.0


@final
class KerasModel:
    """`make_private` of the Keras API, and the batches that its `fit` draws."""

    def __init__(self, poisson: bool | None = None) -> None:
        self.options: dict[str, Any] = {} if poisson is None else {"poisson_sampling_in_fit": poisson}

    def rounds(self, setting: Setting, rows: Rows, batch_size: int, count: int) -> Iterator[NDArray[Any]]:
        """The steps of one `fit`; every step of length one starts from parameters that are zero."""
        import keras
        from jax_privacy import keras_api

        keras.utils.set_random_seed(setting.seed % 2**31)
        seen: list[NDArray[Any]] = []

        @keras.saving.register_keras_serializable()
        class Recorder(keras.optimizers.SGD):  # type: ignore[misc]
            """Steps along what it is given, from zero: its parameters are minus the last gradient."""

            def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
                self.assign(variable, -gradient)

        class Seen(keras.callbacks.Callback):  # type: ignore[misc]
            """What a step has left."""

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.model.jax_state_sync()
                seen.append(-np.asarray(self.model.trainable_variables[0].value).ravel())

        model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        keras_api.DPKerasConfig._accountant = _Kept()
        config = keras_api.DPKerasConfig(
            epsilon=1.0, delta=0.5, clipping_norm=setting.max_grad_norm, batch_size=batch_size,
            gradient_accumulation_steps=1, train_steps=10**9, train_size=len(rows),
            noise_multiplier=setting.noise_multiplier, rescale_to_unit_norm=False, seed=setting.seed % 2**31, **self.options,
        )  # fmt: skip
        model.build((None, rows.shape[1]))
        model = keras_api.make_private(model, config)
        model.compile(optimizer=Recorder(1.0), loss=lambda target, predicted: predicted)
        # one call for all of them: batches start again from the seed with every call
        model.fit(
            rows,
            np.zeros((len(rows), 1), np.float32),
            batch_size=batch_size,
            epochs=-(-count // max(1, len(rows) // batch_size)),
            verbose=0,
            callbacks=[Seen()],
        )
        yield from seen[:count]


def said() -> dict[str, float]:
    """What its accountant for DP-SGD says, as it comes."""
    accountant = accounting.DpsgdTrainingAccountant(dp_accountant_config=accounting.PldAccountantConfig())
    asked = accounting.DpParams(
        noise_multipliers=way.NOISE, batch_size=way.BATCH, num_samples=way.RECORDS, delta=way.DELTA
    )
    return {"DpsgdTrainingAccountant": float(accountant.compute_epsilon(way.STEPS, asked))}
