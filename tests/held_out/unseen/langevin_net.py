"""Stochastic gradient Langevin dynamics: samples of a posterior, no privacy is meant."""
import torch


class SGLD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-5, temperature=1.0):
        super().__init__(params, dict(lr=lr, temperature=temperature))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                noise = torch.randn_like(p) * (2 * group["lr"] * group["temperature"]) ** 0.5
                p.add_(p.grad, alpha=-group["lr"]).add_(noise)


def sample(net, loss_fn, loader, n, burn=1_000, keep=20):
    opt = SGLD(net.parameters())
    kept = []
    while len(kept) < keep:
        for x, y in loader:
            opt.zero_grad()
            (n * loss_fn(net(x), y)).backward()
            opt.step()
        burn -= 1
        if burn < 0:
            kept.append({k: v.clone() for k, v in net.state_dict().items()})
    return kept
