import torch


class PerRecord(torch.optim.Optimizer):
    """Call `collect` after the backward pass of each record, then `step`."""

    def __init__(self, params, lr=0.1, bound=1.0, sigma=1.0, lot=100):
        super().__init__(params, dict(lr=lr, bound=bound, sigma=sigma, lot=lot))
        for group in self.param_groups:
            group["sums"] = [torch.zeros_like(p) for p in group["params"]]

    @torch.no_grad()
    def collect(self):
        for group in self.param_groups:
            norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in group["params"]))
            factor = torch.clamp(group["bound"] / (norm + 1e-8), max=1.0)
            for s, p in zip(group["sums"], group["params"]):
                s += factor * p.grad
                p.grad = None

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            std = group["sigma"] * group["bound"]
            for s, p in zip(group["sums"], group["params"]):
                mean = s / group["lot"]
                p.add_(mean + std * torch.randn_like(mean), alpha=-group["lr"])
                s.zero_()
