"""The same for a Trainer of Hugging Face's transformers: a callback that looks at the optimizer that the Trainer steps.

    trainer = Trainer(model=model, args=arguments, optimizers=(optimizer, None), train_dataset=dataset)
    trainer.add_callback(PrivacyCallback(trainer, data_loader=loader))

A Trainer clears the gradients of the model and not those of the optimizer, and draws batches with a loader of its own: both have
to be changed for Opacus, as examples/transformers_opacus.py does. The callback changes nothing, it looks.
"""

from __future__ import annotations

from typing import Any, final

from opacus.optimizers import DPOptimizer

from noisymean.errors import InvalidInput, MissingDependency
from noisymean.integrations.callbacks.logger import PrivacyLogger

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as fault:
    if fault.name != "transformers":
        raise
    raise MissingDependency("transformers", "transformers") from None


@final
class PrivacyCallback(TrainerCallback):  # type: ignore[misc]
    """Writes claimed, leaked and guaranteed epsilon `to` a writer, or to a Trainer and so to all that it reports to.

    What else it takes is PrivacyLogger's. `data_loader` is the one that make_private returned, unless the Trainer's own is that.
    One process of several writes. `logger` is the PrivacyLogger, once training has begun.
    """

    def __init__(self, to: Any, **about_the_run: Any) -> None:
        self._to, self._told = to, about_the_run
        self.logger: PrivacyLogger | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Find the optimizer, and complain here rather than in the middle."""
        self.logger = None
        if not state.is_world_process_zero:
            return
        optimizer: Any = kwargs.get("optimizer")
        # accelerate wraps it
        while not isinstance(optimizer, DPOptimizer) and hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer
        if not isinstance(optimizer, DPOptimizer):
            raise InvalidInput(
                "optimizers", type(optimizer).__name__, "with the optimizer that make_private returned", "of Opacus 1.x"
            )
        draws = kwargs.get("train_dataloader")
        about = {"data_loader": draws, **self._told}
        if None not in (draws, about["data_loader"]) and not _same(draws, about["data_loader"]):
            raise InvalidInput(
                "data_loader",
                type(about["data_loader"]).__name__,
                "the one that the Trainer draws from, and it has made another one",
                "return yours from get_train_dataloader, as examples/transformers_opacus.py does",
            )
        self.logger = PrivacyLogger(optimizer, self._to, **about)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After each step."""
        if self.logger is not None:
            self.logger.step(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After the last one."""
        if self.logger is not None:
            self.logger.close(state.global_step)


def _same(one: Any, other: Any) -> bool:
    """Whether two loaders draw the same batches: accelerate makes another loader around what draws them."""
    drawing = getattr(one, "batch_sampler", None)
    return one is other or (drawing is not None and drawing is getattr(other, "batch_sampler", None))
