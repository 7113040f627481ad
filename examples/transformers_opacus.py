"""A Trainer of Hugging Face's transformers with Opacus, and its privacy logged beside its loss.

    pip install '.[transformers]'
    python examples/transformers_opacus.py              as it is usually written: an ordinary loader
    python examples/transformers_opacus.py --fixed      with a rate and a denominator that do not depend on the data

A Trainer draws batches with a loader of its own, and clears the gradients of the model but not those of the optimizer. `Private`
changes both, which Opacus needs; the rest is one line, `add_callback`. The texts are made up, so that nothing has to be fetched.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from typing import Any

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainingArguments

from noisymean.integrations.callbacks.hugging_face import PrivacyCallback
from noisymean.integrations.opacus import fix, poisson_loader

WORDS, LENGTH = 50, 12


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Made-up texts: of class 1 if the first word is from the second half of the words."""

    def __init__(self, records: int) -> None:
        self.words = torch.randint(WORDS, (records, LENGTH))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = self.words[index]
        return {"words": words, "labels": (words[0] >= WORDS // 2).long()}


class Classifier(nn.Module):
    """The mean of the words' vectors, and a layer on it; with labels it gives the loss as well, as a Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.classes = nn.Embedding(WORDS, 16), nn.Linear(16, 2)

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The scores of both classes."""
        scores = self.classes(self.vectors(words).mean(dim=1))
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


class Private(Trainer):
    """A Trainer that takes the batches and clears the gradients of Opacus."""

    def __init__(self, loader: Any, **options: Any) -> None:
        self.private_loader = loader
        super().__init__(**options)
        # Opacus' module takes any keyword, which is not to say that the model does
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> Any:
        """The loader that make_private returned, as it is."""
        return self.private_loader

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        """The optimizer's gradients are those of this batch alone."""
        self.optimizer.zero_grad()
        return super().training_step(*arguments, **options)


def main() -> None:
    """Train, and show what was logged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--fixed", action="store_true", help="divide by a public constant, and sample at a public rate")
    parser.add_argument("--report-to", default="none", help="tensorboard, wandb and others, as transformers knows them")
    chosen = parser.parse_args()
    # the remark that secure mode is off, and torch's on the hooks of a module whose input needs no gradient
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    texts, model = Texts(chosen.records), Classifier()
    rate = f"1/{-(-chosen.records // chosen.batch_size)}"
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=poisson_loader(texts, sample_rate=rate) if chosen.fixed else DataLoader(texts, chosen.batch_size),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    if chosen.fixed:
        fix(optimizer, denominator=chosen.batch_size, data_loader=loader)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Private(
            loader,
            model=model,
            args=TrainingArguments(
                folder, num_train_epochs=chosen.epochs, logging_steps=10, save_strategy="no", report_to=chosen.report_to,
                max_grad_norm=0.0, use_cpu=True, disable_tqdm=True,
            ),
            optimizers=(optimizer, None),
        )  # fmt: skip
        callback = PrivacyCallback(trainer, data_loader=loader)
        trainer.add_callback(callback)
        trainer.train()
    for logged in trainer.state.log_history:
        print({name: float(f"{value:.4g}") for name, value in logged.items() if not name.startswith("train_")})
    print(callback.logger and callback.logger.last)


if __name__ == "__main__":
    main()
