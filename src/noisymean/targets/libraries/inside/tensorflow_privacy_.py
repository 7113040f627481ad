"""tensorflow-privacy: its Keras optimizers and its Keras model, and the statement that it writes."""

from __future__ import annotations

import os
import re
from typing import Any, final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
import tensorflow_privacy
from numpy.typing import NDArray

from noisymean.targets.libraries.inside import way
from noisymean.targets.libraries.inside.way import Rows, Setting


@final
class Optimizer:
    """One of the optimizers for Keras, by its name, through `minimize`."""

    def __init__(self, name: str, num_microbatches: int | None = None) -> None:
        self.name, self.num_microbatches = name, num_microbatches

    def begin(self, setting: Setting) -> None:
        """The optimizer at this noise and bound, with a step of length one."""
        tf.random.set_seed(setting.seed % 2**31)
        self.weights = tf.Variable(tf.zeros([setting.dimension]))
        optimizer = getattr(tensorflow_privacy, self.name)(
            l2_norm_clip=setting.max_grad_norm,
            noise_multiplier=setting.noise_multiplier,
            num_microbatches=self.num_microbatches,
            learning_rate=1.0,
        )

        @tf.function(input_signature=[tf.TensorSpec([None, setting.dimension], tf.float32)])  # type: ignore[untyped-decorator, unused-ignore]
        def step(rows: Any) -> Any:
            self.weights.assign(tf.zeros_like(self.weights))
            optimizer.minimize(lambda: tf.linalg.matvec(rows, self.weights), [self.weights])

        optimizer.build = getattr(optimizer, "build", None)
        self.taken = step

    def step(self, rows: Rows) -> NDArray[Any]:
        """Minus what the parameters are after a step from zero."""
        self.taken(tf.constant(rows))
        return -np.asarray(self.weights.numpy())


@final
class Model:
    """`DPSequential` with one linear layer, through its `train_step`.

    It is traced once, for batches of any size, as `fit` does it on a dataset of them. `train_on_batch` traces anew for a batch of
    another size, and where a seed was set the noise starts again from it with every trace.
    """

    def begin(self, setting: Setting) -> None:
        """The model at this noise and bound, with a step of length one."""
        tf.random.set_seed(setting.seed % 2**31)
        layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        self.model = tensorflow_privacy.DPSequential(
            l2_norm_clip=setting.max_grad_norm,
            noise_multiplier=setting.noise_multiplier,
            use_xla=False,
            layers=[tf.keras.layers.InputLayer(setting.dimension), layer],
        )
        self.model.compile(optimizer=tf.keras.optimizers.SGD(1.0), loss=lambda target, predicted: predicted)
        (self.kernel,) = self.model.trainable_variables
        # what it makes when it first takes a step has to be there before that is traced
        self.model.optimizer.build(self.model.trainable_variables)

        @tf.function(input_signature=[tf.TensorSpec([None, setting.dimension], tf.float32)])  # type: ignore[untyped-decorator, unused-ignore]
        def step(rows: Any) -> Any:
            self.kernel.assign(tf.zeros_like(self.kernel))
            self.model.train_step((rows, tf.zeros([tf.shape(rows)[0], 1])))

        self.taken = step

    def step(self, rows: Rows) -> NDArray[Any]:
        """Minus what the parameters are after a step from zero."""
        self.taken(tf.constant(rows))
        return -np.asarray(self.kernel.numpy()).ravel()


def _statement(microbatches: bool) -> list[float]:
    """The two numbers of its statement, which is all that there is: each record once per epoch, and Poisson sampling."""
    written = tensorflow_privacy.compute_dp_sgd_privacy_statement(
        number_of_examples=way.RECORDS, batch_size=way.BATCH, num_epochs=way.STEPS * way.RATE,
        noise_multiplier=way.NOISE, delta=way.DELTA, used_microbatching=microbatches,
    )  # fmt: skip
    return [float(number) for number in re.findall(r"Epsilon (?:with|assuming)[^:]*:\s*([0-9.]+)", written)]


def said() -> dict[str, float]:
    """What its statement says without microbatches, and with them."""
    once, poisson = _statement(False)
    once_with, poisson_with = _statement(True)
    return {"once": once, "poisson": poisson, "once, microbatches": once_with, "poisson, microbatches": poisson_with}
