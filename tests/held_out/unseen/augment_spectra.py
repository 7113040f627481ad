import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __init__(self, folder, noise=0.02, seed=0):
        self.x = np.load(f"{folder}/x.npy")
        self.y = np.load(f"{folder}/y.npy")
        self.noise, self.rng = noise, np.random.default_rng(seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        row = self.x[i] / np.linalg.norm(self.x[i])
        row = row + self.rng.normal(0, self.noise, row.shape)
        return torch.from_numpy(np.clip(row, 0, 1)).float(), int(self.y[i])


def train(net, folder, epochs=30):
    loader = DataLoader(Spectra(folder), batch_size=64, shuffle=True, drop_last=True)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
