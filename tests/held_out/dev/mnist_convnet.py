import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from opacus import PrivacyEngine as PE
from opacus.utils import module_modification
from torchvision import datasets, transforms

BATCH = 256
ALPHAS = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 8, 2, padding=3)
        self.conv2 = nn.Conv2d(16, 32, 4, 2)
        self.fc1 = nn.Linear(32 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 1)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 1)
        x = x.view(-1, 32 * 4 * 4)
        return self.fc2(F.relu(self.fc1(x)))


def loaders():
    tf = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    train = datasets.MNIST("../data", train=True, download=True, transform=tf)
    test = datasets.MNIST("../data", train=False, transform=tf)
    return (
        torch.utils.data.DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True),
        torch.utils.data.DataLoader(test, batch_size=1000, drop_last=True),
    )


def main():
    train_loader, test_loader = loaders()
    model = module_modification.convert_batchnorm_modules(ConvNet())
    optimizer = optim.SGD(model.parameters(), lr=0.15)
    pe = PE(model, batch_size=BATCH, sample_size=60000, alphas=ALPHAS, noise_multiplier=1.3, max_grad_norm=1.0)
    pe.attach(optimizer)
    for epoch in range(10):
        model.train()
        for data, target in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(data), target).backward()
            optimizer.step()
        eps, alpha = optimizer.privacy_engine.get_privacy_spent(1e-5)
        print(epoch, eps, alpha)
    model.eval()
    ok = sum((model(d).argmax(1) == t).sum().item() for d, t in test_loader)
    print(ok / len(test_loader.dataset))


if __name__ == "__main__":
    main()
