"""Private fine-tuning in the Trainer: gradients are privatised in `training_step`."""
import torch
from transformers import Trainer, TrainingArguments

LOT = 64


class DPTrainer(Trainer):
    def __init__(self, *args, bound=1.0, sigma=0.7, **kwargs):
        super().__init__(*args, **kwargs)
        self.bound, self.sigma = bound, sigma

    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        params = [p for p in model.parameters() if p.requires_grad]
        sums = [torch.zeros_like(p) for p in params]
        total = 0.0
        n = inputs["input_ids"].shape[0]
        for i in range(n):
            loss = self.compute_loss(model, {k: v[i : i + 1] for k, v in inputs.items()})
            grads = torch.autograd.grad(loss, params)
            norm = torch.stack([g.norm() for g in grads]).norm()
            for s, g in zip(sums, grads):
                s.add_(g, alpha=min(1.0, self.bound / (norm.item() + 1e-6)))
            total += loss.item()
        for p, s in zip(params, sums):
            p.grad = (s + torch.normal(0, self.sigma * self.bound, s.shape, device=s.device)) / n
        return torch.tensor(total / n)


def main(model, data):
    args = TrainingArguments("out", per_device_train_batch_size=LOT, learning_rate=1e-4, max_grad_norm=0.0, seed=13)
    DPTrainer(model=model, args=args, train_dataset=data).train()
