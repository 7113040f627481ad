"""What one optimizer's steps were really made of: looked at when it takes them, because nothing is left to see later.

An accountant takes a step for one fresh batch, every record of it clipped once, and noise that was never used before.
Opacus sees to that only as long as it is used as its tutorials do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import torch

from noisymean.grounds import Known
from noisymean.integrations.opacus.counting import Epoch, counted
from noisymean.integrations.opacus.sampler import UNKNOWN, Drawn, of_loader, otherwise
from noisymean.integrations.opacus.seen import GHOST, Made, Seen, batch_of, see, workers

# So many coordinates of the noise, to so many decimals, are the same in two steps once in 10^20 pairs of steps.
_COORDINATES, _DECIMALS = 8, 2
# What is used again is used from its beginning: so many steps of it are kept in checkpoints.
_KEPT = 1024


@final
@dataclass(frozen=True)
class Used:
    """Random numbers that steps have used: which must not come again. Hashes of them, in order."""

    noises: dict[int, None] = field(default_factory=dict)
    batches: dict[int, None] = field(default_factory=dict)
    # how far the epoch is, of batches in which a record is once an epoch
    epoch: Epoch = field(default_factory=Epoch)

    def plain(self) -> dict[str, list[int]]:
        """What was seen as plain data, to be stored in a checkpoint."""
        kept = {"noises": list(self.noises)[:_KEPT], "batches": list(self.batches)[:_KEPT]}
        return {**kept, "left_in_epoch": [self.epoch.left]}

    def add(self, plain: Mapping[str, Sequence[int]]) -> None:
        """What a checkpoint has kept."""
        for name, known in (("noises", self.noises), ("batches", self.batches)):
            known.update(dict.fromkeys(int(one) for one in plain[name]))
        # those that were written before epochs were looked at have numbers for Poisson sampling only
        self.epoch.left = max(self.epoch.left, *map(int, plain.get("left_in_epoch", [0])))


@final
class Watch:
    """On one optimizer that make_private makes. `used` is the accountant's, whatever optimizer used it."""

    def __init__(self, made: Made, drawn: Drawn, used: Used, noise_from_records: bool | None) -> None:
        self._loader, self._drawn = made.loader, drawn
        known = made.loader is not None and not drawn.other
        self._batches = None if not known else counted(made.loader, used.batches, used.epoch)
        self._clips = made.module if hasattr(made.module, "get_norm_sample") else None
        self._norms: Any = None
        self._noises, self._noise_from_records = used.noises, noise_from_records
        # what was seen of the noise of some step
        self.noise_missing = self.noise_again = False

    def __getstate__(self) -> dict[str, Any]:
        # a copy of the optimizer has no loader that anyone has seen
        return {**vars(self), "_loader": None, "_drawn": UNKNOWN, "_batches": None, "_clips": None, "_norms": None}

    def step(self, optimizer: Any) -> tuple[Seen, int | None]:
        """How the step that has just been taken was released, and on how many records, where that is shown."""
        accumulated = int(optimizer.accumulated_iterations)
        seen = see(optimizer, accumulated=accumulated, drawn=self._drawn, clips=self._clips)
        size, faults = batch_of(optimizer), [seen.fault]
        if self._clips is not None:
            norms = getattr(self._clips, "_per_sample_gradient_norms", None)
            if not hasattr(self._clips, "_per_sample_gradient_norms"):
                faults.append("this release of Opacus does not show whether ghost clipping has clipped")
            elif norms is None or norms is self._norms:
                faults.append(f"nothing was clipped: {GHOST}")
            elif not optimizer._is_last_step_skipped and workers(optimizer) == 1:
                size = len(norms)
            self._norms = norms
        faults.append(self._used_noise(optimizer))
        drawn = self._drawn_now()
        if drawn == self._drawn:
            faults.append(self._not_drawn(optimizer, size))
        fault = next(filter(None, faults), "")
        return replace(seen, drawn=drawn, fault=fault, noise_from_records=self._noise_from_records), size

    def _drawn_now(self) -> Drawn:
        """As make_private's loader draws, if it still does."""
        if self._loader is None or self._drawn == UNKNOWN:
            return self._drawn
        now = of_loader(self._loader)
        if now != self._drawn and self._drawn.known is Known.SEEN:
            why = "the data loader was changed after make_private"
            return now if now.other else otherwise(why, self._drawn.records)
        return self._drawn

    def _not_drawn(self, optimizer: Any, size: int | None) -> str:
        """Why the batch of this step is not the next one of make_private's loader."""
        if self._batches is None:
            return ""
        signals = len(getattr(optimizer, "_step_skip_queue", ()))
        return self._batches.take(size, cut=bool(optimizer._is_last_step_skipped), signals=signals)

    def left_out(self) -> str:
        """Why the steps that were taken are not those of a run that goes on: a batch was drawn for one that never came."""
        return "" if self._batches is None else self._batches.left_out()

    @property
    def why_not(self) -> str:
        """What speaks against one step for each new batch."""
        return "" if self._batches is None else self._batches.why_not

    @property
    def skipped_empty(self) -> bool:
        """Whether an empty batch had no step."""
        return self._batches is not None and self._batches.skipped_empty

    def _used_noise(self, optimizer: Any) -> str:
        """Why the noise of this step is none: it is missing, or another step had it."""
        scale = float(optimizer.noise_multiplier) * float(optimizer.max_grad_norm)
        if not scale > 0.0 or getattr(optimizer, "rank", 0) != 0:
            # the first of several workers adds the noise for all
            return ""
        divided = 1.0
        if optimizer.loss_reduction == "mean":
            divided = float(optimizer.expected_batch_size) * int(optimizer.accumulated_iterations)
        noise: list[float] = []
        for parameter in optimizer.params:
            total, released = getattr(parameter, "summed_grad", None), parameter.grad
            if type(total) is not torch.Tensor or type(released) is not torch.Tensor:
                return ""
            few = _COORDINATES - len(noise)
            found = released.detach().flatten()[:few].double() * divided - total.detach().flatten()[:few].double()
            noise += (found / scale).tolist()
            if len(noise) == _COORDINATES:
                break
        if len(noise) < _COORDINATES:
            return ""
        print_of = tuple(round(one, _DECIMALS) for one in noise)
        if not any(print_of):
            self.noise_missing = True
            return "no noise was added, whatever the noise multiplier is"
        key = hash(print_of)
        if key in self._noises:
            self.noise_again = True
            return "the noise of one step is that of another: the random numbers were started again"
        self._noises[key] = None
        return ""
