import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader


class TextVAE(nn.Module):
    def __init__(self, vocab, dim=128, latent=16):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim)
        self.mu, self.logvar = nn.Linear(dim, latent), nn.Linear(dim, latent)
        self.dec = nn.Sequential(nn.Linear(latent, dim), nn.ReLU(), nn.Linear(dim, vocab))

    def forward(self, bag):
        h = F.relu(self.emb(bag))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(out, bag, mu, logvar):
    rec = -(F.log_softmax(out, 1).gather(1, bag)).sum()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return (rec + kl) / bag.shape[0]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max_grad_norm", type=float, default=5.0)
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = torch.randint(0, 5000, (20000, 40))
    loader = DataLoader(data, batch_size=128, shuffle=True, drop_last=True)
    model = TextVAE(5000)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for bag in loader:
            opt.zero_grad()
            loss = elbo(*[(o := model(bag))[0], bag, o[1], o[2]])
            loss.backward()
            clip_grad_norm_(model.parameters(), args.max_grad_norm)
            opt.step()
            total += loss.item() * len(bag)
        print(epoch, total / len(loader.dataset))


if __name__ == "__main__":
    main()
