"""From weights back to what the optimizer was handed, by inverting the recursion that torch.optim.SGD runs.

With weights w, learning rate lr, momentum mu, dampening d and weight decay wd, a step of torch is

    h_t = g_t + wd w_{t-1}
    b_t = mu b_{t-1} + (1 - d) h_t              (b_1 = h_1)
    w_t = w_{t-1} - lr (h_t + mu b_t)           with Nesterov (then d = 0), else w_{t-1} - lr b_t

So u_t = (w_{t-1} - w_t) / lr is known. Without momentum it is h_t. With momentum it is b_t, and
h_t = (u_t - mu u_{t-1}) / (1 - d)
for every update but the first of a series, whatever came before it: one update is lost, and nothing is assumed about the start.
With Nesterov u_t = (1 + mu) h_t + mu^2 b_{t-1}, so b_t = (u_t + mu b_{t-1}) / (1 + mu): the buffer before the first update is
unknown, and what is wrong about it shrinks by mu / (1 + mu) < 1/2 with each step. The first BURN_IN updates are dropped, after
which less than 10^-7 of its energy is left.

Adam and its kin divide by a running root mean square of the gradients, coordinate by coordinate: the scale of the noise, which is
all that is looked for here, is what they divide out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.errors import InvalidInput, check_number
from noisymean.numerics.logs import Array

BURN_IN = 12


@final
@dataclass(frozen=True, kw_only=True)
class Descent:
    """torch.optim.SGD with these settings."""

    learning_rate: float
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, above=0.0, most=1e6)
        check_number("momentum", self.momentum, least=0.0, most=0.9999)
        check_number("dampening", self.dampening, least=0.0, most=0.9999)
        check_number("weight_decay", self.weight_decay, least=0.0, most=1e3)
        if self.nesterov and (self.momentum == 0.0 or self.dampening != 0.0):
            raise InvalidInput("nesterov", True, "used with momentum and without dampening", "as torch has it")

    @property
    def is_plain(self) -> bool:
        """Whether a sum of updates is a sum of gradients."""
        return self.momentum == 0.0 and self.weight_decay == 0.0

    @property
    def lost(self) -> int:
        """How many updates at the beginning of a series tell nothing."""
        if self.momentum == 0.0:
            return 0
        return BURN_IN if self.nesterov else 1

    @property
    def of_rounding(self) -> float:
        """At most so many times the variance of the rounding of weights is in the variance of a gradient, times lr^2."""
        mu = self.momentum
        if mu == 0.0:
            return 4.0
        return 4.0 if self.nesterov else 4.0 * ((1.0 + mu) / (1.0 - self.dampening)) ** 2

    def gradients(self, updates: Array, before: Array | None) -> Array:
        """g_t from w_t - w_{t-1}, one row for each but those that are lost; `before` has the w_{t-1}."""
        u = updates / -self.learning_rate
        if self.momentum == 0.0:
            h = u
        elif self.nesterov:
            h = self._nesterov(u)
        else:
            h = (u[1:] - self.momentum * u[:-1]) / (1.0 - self.dampening)
        if self.weight_decay and before is not None:
            h = h - self.weight_decay * before[self.lost :]
        return h

    def _nesterov(self, u: Array) -> Array:
        mu, h = self.momentum, np.empty_like(u)
        buffer = np.zeros(u.shape[1])
        for t in range(len(u)):
            h[t] = (u[t] - mu * mu * buffer) / (1.0 + mu)
            buffer = mu * buffer + h[t]
        return h[self.lost :]


def of_name(name: str) -> None:
    """Complain about an optimizer whose updates do not tell the scale of the noise."""
    if name.lower() == "sgd":
        return
    if name.lower().startswith(("adam", "nadam", "radam", "rmsprop", "adagrad", "adadelta", "lamb")):
        raise InvalidInput(
            "optimizer", name, "sgd, with or without momentum",
            "this one divides each coordinate by a running size of its gradients, and so divides the scale of the noise out",
        )  # fmt: skip
    raise InvalidInput("optimizer", name, "sgd, with or without momentum", "no other recursion is inverted")
