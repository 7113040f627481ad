"""An accountant for Opacus that sees the denominator, and promises only what is proved for the mean that is released.

    engine = PrivacyEngine()
    engine.accountant = Accountant(dataset_size=len(train_set))        # any 1.x, before make_private

Opacus tells accountants the noise and the rate of a step; this one also looks at the optimizer that takes it.
"""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, final

import opacus.accountants
from opacus.accountants import IAccountant

from noisymean.errors import InvalidInput
from noisymean.integrations.opacus.inspection import Spent, checked_size, guaranteed, spent_by
from noisymean.integrations.opacus.neighbours import Stretch, cases, promised
from noisymean.integrations.opacus.seen import Public, Seen, Told, noise_of, see
from noisymean.mechanisms import Rate, exact_rate

NAME = "noisymean"
History = list[tuple[float, float, int]]


class NoGuarantee(UserWarning):
    """No finite epsilon can be promised; the text says why."""


@final
@dataclass(frozen=True, eq=False)
class _Hook:
    """What an optimizer calls after each step."""

    told: Told

    def __call__(self, optimizer: Any) -> None:
        accumulated = int(optimizer.accumulated_iterations)
        self.told.accountant.record(
            noise_of(optimizer), self.told.sample_rate * accumulated, see(optimizer, accumulated=accumulated)
        )


class Accountant(IAccountant):  # type: ignore[misc]
    """Epsilon of the noisy mean that Opacus releases, for the training set with one record more or one less.

    `dataset_size` is the number of training records. `batch_size` is that of the data loader, if it was an ordinary one; without
    it every size that fits is considered. `sample_rate` and `denominator` are for those that are public constants (see `fix`),
    and `dimension` is the number of trainable parameters: once training has begun all three are found by looking, before that
    they are needed to calibrate the noise.
    """

    def __init__(
        self,
        *,
        dataset_size: int | None = None,
        batch_size: int | None = None,
        dimension: int | None = None,
        denominator: float | None = None,
        sample_rate: Rate | None = None,
    ) -> None:
        self.dataset_size = None if dataset_size is None else checked_size(dataset_size)
        self.batch_size = batch_size
        self.dimension = dimension
        rate = None if sample_rate is None else float(exact_rate(sample_rate))
        self.public = Public(None if denominator is None else float(denominator), rate)
        self.history = []

    @property
    def history(self) -> History:
        """(noise multiplier, sampling rate, steps) of each stretch of equal steps, as in Opacus' own accountants."""
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        # a history that somebody writes comes without an optimizer to look at
        self._history = list(history)
        self._seen: list[Seen | None] = [None] * len(self._history)

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step of which nothing else is known."""
        self.record(noise_multiplier, sample_rate, None)

    def record(self, noise_multiplier: float, sample_rate: float, seen: Seen | None) -> None:
        """Count one step."""
        stretch = (float(noise_multiplier), float(sample_rate))
        if self._history and self._history[-1][:2] == stretch and self._seen[-1] == seen:
            self._history[-1] = (*stretch, self._history[-1][2] + 1)
        else:
            self._history.append((*stretch, 1))
            self._seen.append(seen)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What make_private attaches to the optimizer."""
        return _Hook(Told(self, float(sample_rate)))

    def stretches(self) -> list[Stretch]:
        """The history with what was seen, or, where nothing was, with what was announced."""
        seen = self._seen if len(self._seen) == len(self._history) else [None] * len(self._history)
        return [
            promised(Stretch(sigma, rate, steps, one or self._announced(rate)), self.public.sample_rate)
            for (sigma, rate, steps), one in zip(self._history, seen, strict=True)
        ]

    def _announced(self, rate: float) -> Seen:
        """What make_private will do, on the size that we were told."""
        denominator = self.public.denominator
        if denominator is None:
            denominator = float(int(checked_size(self.dataset_size) * rate))
        return Seen(denominator, self.dimension, public=self.public)

    def spent(self, delta: float) -> Spent:
        """Claimed, leaked and guaranteed epsilon so far."""
        stretches = self.stretches()
        if not stretches:
            return Spent(delta, 0.0, None, 0.0, None, (), "undetermined")
        return spent_by(stretches, cases(stretches, checked_size(self.dataset_size), self.batch_size), delta)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """The epsilon that is guaranteed so far; inf, with a warning that says why, where none is known."""
        stretches = self.stretches()
        if not stretches:
            return 0.0
        sound, notes = guaranteed(cases(stretches, checked_size(self.dataset_size), self.batch_size), delta)
        if sound is not None:
            return sound
        warnings.warn(f"no finite epsilon; {'; '.join(notes)}", NoGuarantee, stacklevel=2)
        return math.inf

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self._history)

    @classmethod
    def mechanism(cls) -> str:
        """The name in checkpoints and registries."""
        return NAME

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """Numbers, text, lists and dicts only: any loader of checkpoints can read it."""
        # OrderedDict[str, Any]() would remember its parameters, and take them into the checkpoint
        state: MutableMapping[str, Any] = OrderedDict() if destination is None else destination
        state["history"] = list(self._history)
        state["mechanism"] = self.mechanism()
        state["dataset_size"], state["batch_size"], state["dimension"] = (
            self.dataset_size,
            self.batch_size,
            self.dimension,
        )
        state["public"] = {"denominator": self.public.denominator, "sample_rate": self.public.sample_rate}
        state["seen"] = [None if one is None else one.plain() for one in self._seen]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a checkpoint of this accountant."""
        wanted = {"history", "mechanism", "dataset_size", "batch_size", "dimension", "public", "seen"}
        if not state_dict or not wanted <= set(state_dict):
            missing = ", ".join(sorted(wanted - set(state_dict or ())))
            raise InvalidInput("state_dict", f"without {missing}", "one that this accountant's state_dict() wrote")
        if state_dict["mechanism"] != self.mechanism():
            raise InvalidInput("state_dict", state_dict["mechanism"], f"of the accountant {self.mechanism()}")
        if self.dataset_size not in (None, state_dict["dataset_size"]):
            raise InvalidInput(
                "dataset_size",
                self.dataset_size,
                f"{state_dict['dataset_size']}, as in the checkpoint",
                "it is one run",
            )
        self.dataset_size = state_dict["dataset_size"]
        self.batch_size, self.dimension = state_dict["batch_size"], state_dict["dimension"]
        self.public = Public(**state_dict["public"])
        self.history = [(float(sigma), float(rate), int(steps)) for sigma, rate, steps in state_dict["history"]]
        seen = [None if one is None else Seen.from_plain(one) for one in state_dict["seen"]]
        if len(seen) != len(self._history):
            raise InvalidInput("state_dict", f"{len(seen)} in seen", f"as many as in history, {len(self._history)}")
        self._seen = seen


def register(
    *,
    dataset_size: int,
    batch_size: int | None = None,
    dimension: int | None = None,
    denominator: float | None = None,
    sample_rate: Rate | None = None,
) -> str:
    """Give Opacus >= 1.6.0 this accountant by name, for `PrivacyEngine(accountant=...)` and `get_noise_multiplier`; the name.

    An accountant that is made by name is made without arguments, so the facts of the run are given here.
    """
    if not hasattr(opacus.accountants, "register_accountant"):
        raise InvalidInput(
            "opacus", opacus.__version__, ">= 1.6.0 to register an accountant", "set engine.accountant instead"
        )

    class Registered(Accountant):
        """The accountant of this run."""

        def __init__(self) -> None:
            super().__init__(
                dataset_size=dataset_size,
                batch_size=batch_size,
                dimension=dimension,
                denominator=denominator,
                sample_rate=sample_rate,
            )

    # a run that is described anew takes the place of the one before
    opacus.accountants.register_accountant(NAME, Registered, force=True)
    return NAME
