import torch
from torch.autograd.functional import jacobian

LOT = 30


def losses(w, x, y):
    return torch.nn.functional.binary_cross_entropy_with_logits(x @ w, y, reduction="none")


def fit(x, y, *, rate, steps, clip=1.0, sigma=2.0, lr=0.3):
    w = torch.zeros(x.shape[1])
    for _ in range(steps):
        drawn = torch.rand(x.shape[0]) < rate
        if not drawn.any():
            continue
        rows = jacobian(lambda v: losses(v, x[drawn], y[drawn]), w)
        rows = rows / (rows.norm(dim=1, keepdim=True) / clip).clamp(min=1.0)
        w = w - lr * (rows.sum(0) + sigma * clip * torch.randn(w.shape)) / LOT
    return w
