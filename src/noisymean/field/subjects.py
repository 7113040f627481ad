"""What is in the field: ways of libraries, modes of Opacus, and libraries that are known and not run here.

A subject says what it is and what it takes; nothing is installed or started by naming it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput
from noisymean.field.sources import Quote
from noisymean.targets.libraries.environments import Environment
from noisymean.targets.libraries.ways import WAYS, LibraryWay
from noisymean.targets.opacus_modes.modes import MODES, Mode, Wrapper


@final
@dataclass(frozen=True)
class Way:
    """A way of a library that is run in its own environment; the statements that divide."""

    name: str
    way: LibraryWay
    quotes: tuple[Quote, ...]

    @property
    def library(self) -> str:
        return self.way.environment.library

    @property
    def version(self) -> str:
        return self.way.environment.version

    @property
    def label(self) -> str:
        return self.way.label


@final
@dataclass(frozen=True)
class OpacusWay:
    """A mode of the installed Opacus."""

    mode: Mode
    quotes: tuple[Quote, ...]

    @property
    def name(self) -> str:
        return f"opacus:{self.mode.name}"

    @property
    def library(self) -> str:
        return "opacus"

    @property
    def label(self) -> str:
        return self.mode.way


@final
@dataclass(frozen=True)
class NotRun:
    """A library that is not run here: pip is asked whether it can be had, and what was read of it elsewhere is said as that."""

    name: str
    version: str | None
    read: str

    @property
    def library(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        return "not run"

    @property
    def requirement(self) -> str:
        """As pip is asked for it."""
        return self.name if self.version is None else f"{self.name}=={self.version}"


Subject: TypeAlias = Way | OpacusWay | NotRun

_KERAS = Quote("keras_api.py", "normalize_by=dp_params.batch_size,")
_CLIPPED = Quote("clipping.py", "lambda x: x / normalize_by")
_PFL = (Quote("stats.py", "new_weight[name] / self.weights[name]"),)
_FLWR = (
    Quote("serverapp/strategy/strategy_utils.py", "weight_factors = [w / total_weight for w in weights]"),
    Quote("supercore/differential_privacy.py", "(noise_multiplier * clipping_norm) / num_sampled_clients"),
)
_TF_OPTIMIZER = (
    Quote("privacy/optimizers/dp_optimizer_keras.py", "return tf.truediv(microbatch_gradient,"),
    Quote("privacy/optimizers/dp_optimizer_keras.py", "num_microbatches = tf.shape(input=loss)[0]"),
)
# by the name of a way, or that of its library
_QUOTES: dict[str, tuple[Quote, ...]] = {
    "optax": (
        Quote("contrib/_privacy.py", "/ bsize"),
        Quote("contrib/_privacy.py", "bsize = grads_flat[0].shape[0]"),
    ),
    "objax": (
        Quote("privacy/dpsgd/gradient.py", "self.l2_norm_clip * self.noise_multiplier / num_microbatches"),
        Quote("privacy/dpsgd/gradient.py", "num_microbatches = batch // self.microbatch"),
    ),
    "tensorflow-privacy": _TF_OPTIMIZER,
    "tensorflow-privacy:one-microbatch": (
        *_TF_OPTIMIZER[:1],
        Quote("privacy/optimizers/dp_optimizer_keras.py", "num_microbatches = self._num_microbatches"),
    ),
    "tensorflow-privacy:vectorized": (
        Quote("privacy/optimizers/dp_optimizer_keras_vectorized.py", "return tf.truediv(noised_gradient,"),
        Quote("privacy/optimizers/dp_optimizer_keras_vectorized.py", "num_microbatches = tf.shape(input=loss)[0]"),
    ),
    "tensorflow-privacy:model": (
        Quote("privacy/keras_models/dp_keras_model.py", "return summed_grads / tf.cast("),
        Quote("privacy/keras_models/dp_keras_model.py", "tf.shape(stacked_grads)[0]"),
    ),
    "jax-privacy": (_CLIPPED,),
    "jax-privacy:keras": (_KERAS, _CLIPPED),
    "jax-privacy:keras-poisson": (_KERAS, _CLIPPED),
    "pfl": _PFL,
    "flwr": _FLWR,
    "opacus": (
        Quote("optimizers/optimizer.py", "self.expected_batch_size * self.accumulated_iterations"),
        Quote("privacy_engine.py", "expected_batch_size = int("),
    ),
}
# what is known of them was read, not run: in a sentence each
_NOT_RUN = (
    NotRun("tensorflow-federated", "0.87.0", "divides by clients_per_round, a constant of the caller's"),
    NotRun("dp-transformers", "1.0.0", "wraps Opacus; batches are shuffled and accounted for as Poisson batches"),
    NotRun("private-transformers", None, "divides by a constant; batches are shuffled and accounted for as Poisson batches"),
    NotRun("fastDP", None, "divides by a constant; batches are shuffled and accounted for as Poisson batches"),
    NotRun("private-vision", None, "divides by a constant; batches are shuffled and accounted for as Poisson batches"),
)  # fmt: skip


def _quotes(name: str) -> tuple[Quote, ...]:
    return _QUOTES.get(name, _QUOTES.get(name.partition(":")[0], ()))


def _quotes_of(mode: Mode) -> tuple[Quote, ...]:
    """Each layer by itself divides in an optimizer of its own where processes share a batch."""
    if mode.wrapper is Wrapper.TORCH_DDP:
        return (
            Quote("optimizers/ddp_perlayeroptimizer.py", "self.expected_batch_size * p.accumulated_iterations"),
            *_quotes("opacus")[1:],
        )
    return _quotes("opacus")


_OPACUS = tuple(OpacusWay(mode, _quotes_of(mode)) for mode in MODES)
SUBJECTS: tuple[Subject, ...] = (*(Way(name, way, _quotes(name)) for name, way in WAYS.items()), *_OPACUS, *_NOT_RUN)


def chosen(names: Sequence[str]) -> tuple[Subject, ...]:
    """All of them, or those of these names: a library has all its ways, LIBRARY:WAY is one.

    >>> [one.name for one in chosen(["optax", "opacus:ghost"])]
    ['optax', 'optax:dpsgd', 'opacus:ghost']
    """
    if not names:
        return SUBJECTS
    libraries, known = list(dict.fromkeys(one.library for one in SUBJECTS)), list[str]()
    for typed in names:
        name = written_as(typed, [*libraries, *(one.name for one in SUBJECTS)]) or typed
        ways = [one.name for one in SUBJECTS if one.library == name.partition(":")[0]]
        if name not in libraries and name not in ways:
            allowed = f"one of {', '.join(ways or libraries)}"
            meant = did_you_mean(name, ways or libraries)
            raise InvalidInput("only", name, allowed, meant or "e.g. --only optax --only opacus:ghost")
        known.append(name)
    # the name of a library stands for all of it, although its first way has the same
    return tuple(one for one in SUBJECTS if one.name in known or one.library in known)


def environments_of(subjects: Sequence[Subject]) -> tuple[Environment, ...]:
    """What has to be there for them, each once."""
    return tuple(dict.fromkeys(one.way.environment for one in subjects if isinstance(one, Way)))
