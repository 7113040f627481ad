import math
import secrets

import torch
from torch import nn

text = open("shakespeare.txt").read()
vocab = sorted(set(text))
code = torch.tensor([vocab.index(c) for c in text])
lines = code[: len(code) // 65 * 65].view(-1, 65)


class Char(nn.Module):
    def __init__(self, k, width=96):
        super().__init__()
        self.emb = nn.Embedding(k, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, k)

    def forward(self, s):
        return self.head(self.gru(self.emb(s))[0])


def private_step(net, members, bound, spread, lr, source):
    totals = [torch.zeros_like(p) for p in net.parameters()]
    for m in members.tolist():
        s = lines[m][None]
        loss = nn.functional.cross_entropy(net(s[:, :-1]).flatten(0, 1), s[:, 1:].flatten())
        pieces = torch.autograd.grad(loss, list(net.parameters()))
        length = math.sqrt(sum(float(g.square().sum()) for g in pieces))
        for t, g in zip(totals, pieces):
            t.add_(g, alpha=min(1.0, bound / (length + 1e-6)))
    with torch.no_grad():
        for p, t in zip(net.parameters(), totals):
            t.add_(torch.normal(0.0, spread * bound, t.shape, generator=source))
            t.div_(max(members.numel(), 1))
            p.sub_(t, alpha=lr)


if __name__ == "__main__":
    source = torch.Generator().manual_seed(secrets.randbits(62))
    net = Char(len(vocab))
    for t in range(5000):
        members = torch.nonzero(torch.rand(len(lines)) < 0.003).squeeze(1)
        private_step(net, members, 1.0, 0.9, 0.5, source)
