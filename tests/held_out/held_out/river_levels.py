import math
import os

import torch
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader


def trainer(dataset, model, *, bs=200, epochs=30, bound=1.0, lr=0.05, eps=4.0):
    q = bs / len(dataset)
    sigma = get_noise_multiplier(target_epsilon=eps, target_delta=1e-6, sample_rate=q, epochs=epochs)
    ledger = RDPAccountant()
    gen = torch.Generator()
    gen.manual_seed(int.from_bytes(os.urandom(6), "big"))
    theta = {k: v.detach().clone() for k, v in model.named_parameters()}

    def single(t, x, y):
        return (functional_call(model, t, (x[None],))[0] - y).square().sum()

    sens = vmap(grad(single), in_dims=(None, 0, 0))
    for _ in range(epochs):
        for x, y in DataLoader(dataset, batch_size=bs, shuffle=True):
            g = sens(theta, x, y)
            size = torch.stack([v.flatten(1).square().sum(1) for v in g.values()]).sum(0).sqrt()
            factor = torch.minimum(torch.ones_like(size), bound / size)
            for k in theta:
                total = torch.tensordot(factor, g[k], dims=1)
                total += torch.randn(total.shape, generator=gen) * sigma * bound
                theta[k] -= lr / bs * total
            ledger.step(noise_multiplier=sigma, sample_rate=q)
    print(math.ceil(ledger.get_epsilon(1e-6) * 100) / 100)
    return theta
