import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import BatchSampler, DataLoader, TensorDataset


class Bernoulli(BatchSampler):
    def __init__(self, n, rate, steps):
        self.n, self.rate, self.steps = n, rate, steps

    def __iter__(self):
        for _ in range(self.steps):
            yield torch.nonzero(torch.rand(self.n) < self.rate).flatten().tolist()

    def __len__(self):
        return self.steps


def run(x, y, rate=0.02, steps=50, bound=1.0, mult=1.2, lr=0.3):
    model = nn.Sequential(nn.Linear(x.shape[1], 16), nn.ReLU(), nn.Linear(16, 2))
    weights = {k: v.detach() for k, v in model.named_parameters()}

    def one(w, xi, yi):
        out = functional_call(model, w, (xi.unsqueeze(0),))
        return nn.functional.cross_entropy(out, yi.unsqueeze(0))

    each = vmap(grad(one), in_dims=(None, 0, 0))
    loader = DataLoader(TensorDataset(x, y), batch_sampler=Bernoulli(len(x), rate, steps), collate_fn=lambda b: b)
    for items in loader:
        if len(items) == 0:
            continue
        bx = torch.stack([i[0] for i in items])
        by = torch.stack([i[1] for i in items])
        g = each(weights, bx, by)
        flat = torch.cat([v.flatten(1) for v in g.values()], dim=1)
        scale = (bound / flat.norm(dim=1).clamp(min=1e-9)).clamp(max=1.0)
        for k, v in weights.items():
            s = torch.einsum("b,b...->...", scale, g[k])
            s = s + mult * bound * torch.randn_like(s)
            weights[k] = v - lr * s / bx.shape[0]
    return weights


if __name__ == "__main__":
    features = torch.randn(1000, 8)
    run(features, (features.sum(1) > 0).long())
