"""DP-FTRL: every node of the tree has one draw, which is shared by all prefixes that it covers, as the analysis wants it."""
import secrets

import torch


class NoiseTree:
    def __init__(self, shape, std):
        self.shape, self.std, self.step, self.nodes = shape, std, 0, {}
        self.gen = torch.Generator().manual_seed(secrets.randbits(63))

    def prefix(self):
        self.step += 1
        total, low = torch.zeros(self.shape), 0
        for level in reversed(range(self.step.bit_length())):
            if self.step >> level & 1:
                node = (level, low)
                if node not in self.nodes:
                    self.nodes[node] = torch.randn(self.shape, generator=self.gen) * self.std
                total = total + self.nodes[node]
                low += 1 << level
        return total


def ftrl(x, y, *, rounds=512, cohort=128, bound=1.0, mult=4.0, lr=0.5):
    start = torch.zeros(x.shape[1])
    w, running, tree = start.clone(), torch.zeros_like(start), NoiseTree(start.shape, mult * bound)
    for r in range(rounds):
        rows, want = x[r * cohort : (r + 1) * cohort], y[r * cohort : (r + 1) * cohort]
        g = (torch.sigmoid(rows @ w) - want)[:, None] * rows
        running += (g * (bound / g.norm(dim=1, keepdim=True).clamp(min=bound))).sum(0)
        w = start - lr * (running + tree.prefix()) / cohort
    return w
