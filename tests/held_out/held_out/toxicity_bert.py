import os

import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


class PrivateTrainer(Trainer):
    def __init__(self, *args, target_epsilon=8.0, max_norm=0.3, **kw):
        super().__init__(*args, **kw)
        self.target_epsilon, self.max_norm = target_epsilon, max_norm
        self.engine = PrivacyEngine()

    def train(self):
        self.create_optimizer()
        dl = self.get_train_dataloader()
        n_train = len(self.train_dataset)
        delta = 0.5 / n_train
        wrapped, optim, dl = self.engine.make_private_with_epsilon(
            module=self.model.train(), optimizer=self.optimizer, data_loader=dl, target_delta=delta,
            target_epsilon=self.target_epsilon, epochs=int(self.args.num_train_epochs), max_grad_norm=self.max_norm,
        )
        for epoch in range(int(self.args.num_train_epochs)):
            with BatchMemoryManager(data_loader=dl, max_physical_batch_size=8, optimizer=optim) as pieces:
                for inputs in pieces:
                    inputs = self._prepare_inputs(inputs)
                    optim.zero_grad()
                    wrapped(**inputs).loss.backward()
                    optim.step()
            self.log({"epoch": epoch, "eps": self.engine.get_epsilon(delta)})


if __name__ == "__main__":
    data = torch.load(os.environ["COMMENTS"])
    base = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    args = TrainingArguments("out", per_device_train_batch_size=256, num_train_epochs=3, report_to=[])
    PrivateTrainer(base, args, train_dataset=data).train()
