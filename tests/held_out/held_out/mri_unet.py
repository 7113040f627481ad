import os
from types import SimpleNamespace

import torch
import yaml
from functorch import grad, make_functional, vmap

cfg = SimpleNamespace(**yaml.safe_load(open(os.environ.get("CFG", "mri.yaml"))))


class Scans(torch.utils.data.Dataset):
    def __init__(self, where):
        self.files = sorted(os.scandir(where), key=lambda e: e.name)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        both = torch.load(self.files[i].path)
        return both["scan"], both["lesion"]


class Stepper:
    def __init__(self, net, data):
        self.fn, self.w = make_functional(net)
        self.data = data
        self.lot = cfg.rate * len(data)
        self.each = vmap(grad(self.loss), in_dims=(None, 0, 0))

    def loss(self, w, scan, lesion):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.fn(w, scan[None])[0], lesion)

    def draw(self):
        hit = (torch.rand(len(self.data)) < cfg.rate).nonzero().flatten()
        scans, lesions = zip(*(self.data[i] for i in hit.tolist()))
        return torch.stack(scans), torch.stack(lesions)

    def __call__(self):
        parts = self.each(self.w, *self.draw())
        norms = torch.linalg.vector_norm(torch.stack([p.flatten(1).norm(dim=1) for p in parts]), dim=0)
        c = (cfg.bound / (norms + 1e-7)).clamp(max=1)
        out = []
        for p, w in zip(parts, self.w):
            s = torch.einsum("n,n...->...", c, p)
            blurred = s + cfg.sigma * cfg.bound * torch.randn_like(s)
            out.append(w - cfg.lr * blurred / self.lot)
        self.w = tuple(out)
