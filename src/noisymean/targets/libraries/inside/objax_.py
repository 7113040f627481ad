"""objax.privacy.dpsgd: `PrivateGradValues`, and its accounting by Renyi divergences."""

from __future__ import annotations

import os
from typing import Any, final

# every size of a batch is compiled anew: as little work on each as there may be
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax.numpy as jnp
import numpy as np
import objax
from numpy.typing import NDArray

from noisymean.targets.libraries.inside import way
from noisymean.targets.libraries.inside.way import Rows, Setting


@final
class PrivateGradValues:
    """Gradients of a loss that is linear in the parameters, each record a microbatch."""

    def begin(self, setting: Setting) -> None:
        """The module at this noise and bound."""
        parameters = objax.TrainVar(jnp.zeros(setting.dimension))

        def loss(records: Any) -> Any:
            return jnp.mean(records @ parameters.value)

        self.gradients = objax.privacy.dpsgd.PrivateGradValues(
            loss,
            objax.VarCollection({"w": parameters}),
            noise_multiplier=setting.noise_multiplier,
            l2_norm_clip=setting.max_grad_norm,
            microbatch=1,
            keygen=objax.random.Generator(setting.seed % 2**31),
        )

    def step(self, rows: Rows) -> NDArray[Any]:
        """The gradient that an optimizer would be given."""
        (gradient,), _ = self.gradients(jnp.asarray(rows))
        return np.asarray(gradient)


def said() -> dict[str, float]:
    """What its accounting says, for both kinds of batches that it has an analysis of."""
    accounting = objax.privacy.dpsgd
    asked: dict[str, Any] = {"q": way.RATE, "noise_multiplier": way.NOISE, "steps": way.STEPS, "delta": way.DELTA}
    return {
        "analyze_dp": float(accounting.analyze_dp(**asked)),
        "analyze_dp_sample_without_replacement": float(accounting.analyze_dp_sample_without_replacement(**asked)),
    }
