import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RATE = 0.01
LOT = 500
STEPS = 300


def collate(items):
    if not items:
        return torch.zeros(0, 20), torch.zeros(0, dtype=torch.long)
    return torch.stack([i[0] for i in items]), torch.stack([i[1] for i in items])


def main(x, y):
    data = TensorDataset(x, y)
    sampler = UniformWithReplacementSampler(num_samples=len(data), sample_rate=RATE, steps=STEPS)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    model = GradSampleModule(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.2),
        noise_multiplier=1.2,
        max_grad_norm=1.0,
        expected_batch_size=LOT,
    )
    seen = 0
    for i, (bx, by) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(bx), by).backward()
        optimizer.step()
        seen += len(bx)
        if i % 50 == 0:
            print(i, seen / (i + 1))
    return model


if __name__ == "__main__":
    features = torch.randn(50_000, 20)
    main(features, (features[:, 0] > 0).long())
