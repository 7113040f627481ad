"""A mode as something that can be probed: rounds on designed records, through the installed library, in processes of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.targets.opacus_modes.group import GroupFault, dismiss, group_of
from noisymean.targets.opacus_modes.modes import Clip, Engine, Mode
from noisymean.targets.opacus_releases.install import installed_version
from noisymean.targets.protocol import Adaptation, Calibration, Knob, Raised, Request, Runnable, Setting

__all__ = ["OpacusMode", "Told", "dismiss", "told"]
# as `training` sets them where the bound is to move
_ADAPTATION = Adaptation(quantile=0.5, learning_rate=1.0)


@final
@dataclass(frozen=True)
class Told:
    """What the library's own accountant was told after some steps, and what each process divides by and has held."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    expected_batch_size: float | None
    held: tuple[tuple[int, ...], ...]
    batches_in_epoch: int
    calibrated_noise: float
    # what was asked for; None where the library chooses
    asked_noise: float | None

    @property
    def processes(self) -> int:
        """How many share a batch."""
        return len(self.held)


@final
@dataclass(frozen=True)
class OpacusMode(Runnable):
    """One mode of the installed Opacus, through `make_private` on an ordinary data loader."""

    mode: Mode

    def __post_init__(self) -> None:
        installed_version()

    @property
    def name(self) -> str:
        return f"opacus=={installed_version()}, {self.mode.way}"

    @property
    def knob(self) -> Knob:
        return Knob.BATCH_SIZE

    @property
    def adaptation(self) -> Adaptation | None:
        """AdaClip moves its bound; nothing else here does."""
        return _ADAPTATION if self.mode.clip is Clip.ADAPTIVE else None

    @property
    def calibration(self) -> Calibration | None:
        """What make_private_with_epsilon was asked for."""
        return self.mode.calibration

    def run(self, run: Request) -> Array:
        """The releases; what the library raises is `Raised`."""
        return self._answered(run)[0]

    def told(self, setting: Setting, rounds: int = 20) -> Told:
        """What the accountant is told at this setting, at a noise of one; and what each process held."""
        records = setting.dataset_size
        # that engine refuses batches of less than ten times the noise
        asked = 0.1 if self.mode.engine is Engine.ADAPTIVE else 1.0
        run = Request(setting, np.eye(records), asked, 1.0, rounds, seed=0, own_noise=True)
        answers = self._answered(run)[1]
        first = answers[0]
        return Told(
            noise_multiplier=first["told_noise"],
            sample_rate=first["told_rate"],
            steps=first["told_steps"],
            expected_batch_size=first["expected_batch_size"],
            held=tuple(tuple(one["held"]) for one in answers),
            batches_in_epoch=first["batches_in_epoch"],
            calibrated_noise=first["noise_multiplier"],
            asked_noise=asked if self.mode.calibration is None else None,
        )

    def _answered(self, run: Request) -> tuple[Array, Sequence[Mapping[str, Any]]]:
        group = group_of(self.mode.processes)
        rows, of_rows = group.lender.lend(run.gradients.shape)
        rows[...] = run.gradients
        sink, of_sink = group.lender.lend((run.rounds, run.gradients.shape[1]))
        order = {
            "batch_size": run.setting.batch_size,
            "noise_multiplier": run.noise_multiplier,
            "max_grad_norm": run.max_grad_norm,
            "rounds": run.rounds,
            "own_noise": run.own_noise,
            "empty_as_it_comes": run.empty_as_it_comes,
            "moving_bound": run.moving_bound,
        }
        request = {
            "mode": f"opacus:{self.mode.name}",
            "order": order,
            "seed": run.seed,
            "rows": of_rows,
            "into": of_sink,
        }
        try:
            answers = group.ask(request)
        except GroupFault as fault:
            raise Raised(fault.what) from None
        return np.array(sink), answers


def told(mode: Mode, setting: Setting) -> Told:
    """What the accountant of this mode is told at this setting."""
    return mode.runnable().told(setting)
