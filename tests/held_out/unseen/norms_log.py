"""How long are the gradients of single records? For choosing a bound on public data; nothing is trained here."""
import json

import torch
from torch.func import functional_call, grad, vmap


def norms(model, loss_fn, loader, limit=2_000):
    params = {k: v.detach() for k, v in model.named_parameters()}

    def one(p, x, y):
        return loss_fn(functional_call(model, p, (x[None],)), y[None])

    found = []
    for x, y in loader:
        rows = vmap(grad(one), in_dims=(None, 0, 0))(params, x, y)
        found.append(torch.stack([g.flatten(1).norm(dim=1) for g in rows.values()]).norm(dim=0))
        if sum(map(len, found)) >= limit:
            break
    return torch.cat(found)[:limit]


def report(values, bounds=(0.1, 0.3, 1.0, 3.0)):
    clipped = {b: (values.clamp(max=b).sum() / len(values)).item() for b in bounds}
    share = {b: (values > b).float().mean().item() for b in bounds}
    print(json.dumps({"median": values.median().item(), "mean_after": clipped, "share_clipped": share}))
