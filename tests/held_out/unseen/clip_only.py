"""Per-example gradients with torch.func, for the ranking model."""
import torch
from torch.func import functional_call, grad, vmap


def private_grads(model, loss_fn, batch, max_norm):
    params = {n: p.detach() for n, p in model.named_parameters()}
    x, y = batch

    def sample_loss(params, xi, yi):
        return loss_fn(functional_call(model, params, xi[None]), yi[None])

    per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))(params, x, y)
    flat = torch.cat([g.flatten(start_dim=1) for g in per_sample.values()], dim=1)
    coef = (max_norm / (flat.norm(dim=1) + 1e-6)).clamp(max=1)
    return {n: (g * coef.view(-1, *[1] * (g.dim() - 1))).sum(0) for n, g in per_sample.items()}


def dp_step(model, optimizer, loss_fn, batch, max_norm=1.0, expected=128):
    """One step of DP-SGD."""
    grads = private_grads(model, loss_fn, batch, max_norm)
    for n, p in model.named_parameters():
        p.grad = grads[n] / expected
    optimizer.step()
