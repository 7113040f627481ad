import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets, transforms as T


def split(everything, share=0.9):
    order = np.random.RandomState(0).permutation(len(everything))
    cut = int(share * len(everything))
    return Subset(everything, order[:cut]), Subset(everything, order[cut:])


def accuracy(net, loader):
    right = seen = 0
    for x, y in loader:
        right += (net(x).argmax(1) == y).sum().item()
        seen += len(y)
    return right / seen


def run(logical=1024, physical=64):
    tr, va = split(datasets.Food101("food", transform=T.Compose([T.Resize((64, 64)), T.ToTensor()])))
    fit_loader = DataLoader(tr, batch_size=logical)
    check = DataLoader(va, batch_size=256, shuffle=False, drop_last=True)
    net = nn.Sequential(nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(5408, 101))
    opt = torch.optim.SGD(net.parameters(), lr=1.0)
    eng = PrivacyEngine(accountant="rdp")
    net, opt, fit_loader = eng.make_private(module=net, optimizer=opt, data_loader=fit_loader, noise_multiplier=0.9, max_grad_norm=1.0)
    for epoch in range(20):
        with BatchMemoryManager(data_loader=fit_loader, max_physical_batch_size=physical, optimizer=opt) as parts:
            for x, y in parts:
                opt.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                opt.step()
        print(accuracy(net, check), eng.get_epsilon(delta=1e-5))


if __name__ == "__main__":
    run()
