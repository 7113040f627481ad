import pandas as pd
import torch
from opacus import PrivacyEngine
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 12
BATCH = 128


def load(path):
    frame = pd.read_csv(path)
    y = torch.tensor(frame.pop("default").values, dtype=torch.float32)
    x = torch.tensor(frame.values, dtype=torch.float32)
    return TensorDataset(x, y)


def main(private=True):
    train = load("train.csv")
    loader = DataLoader(train, batch_size=BATCH, shuffle=True)
    net = nn.Sequential(nn.Linear(23, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = optim.SGD(net.parameters(), lr=0.2)
    engine = PrivacyEngine() if private else None
    if private:
        net, opt, loader = engine.make_private(
            module=net, optimizer=opt, data_loader=loader, noise_multiplier=1.3, max_grad_norm=0.8
        )
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(EPOCHS):
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(net(xb).squeeze(-1), yb)
            loss.backward()
            opt.step()
            total += loss.item()
        line = f"epoch {epoch} loss {total / len(loader):.4f}"
        if engine:
            line += f" eps {engine.get_epsilon(1e-6):.2f}"
        print(line)


if __name__ == "__main__":
    main()
