"""Readmission within 30 days, tabular, one hidden layer."""
import argparse

import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import opacus as op


def read(path):
    df = pd.read_csv(path)
    x = torch.tensor(df.drop(columns="readmitted").values, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    y = torch.tensor(df["readmitted"].values, dtype=torch.float32)
    return TensorDataset(x, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv")
    parser.add_argument("--eps", type=float, default=3.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--bs", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    torch.manual_seed(a.seed)

    full = read(a.csv)
    n_val = len(full) // 10
    train, val = random_split(full, [len(full) - n_val, n_val])
    train_loader = DataLoader(train, batch_size=a.bs, shuffle=True)
    val_loader = DataLoader(val, batch_size=1024)

    model = nn.Sequential(nn.Linear(train[0][0].numel(), 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    delta = 1 / len(train)

    engine = op.PrivacyEngine()
    model, optimizer, private_loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=train_loader,
        target_epsilon=a.eps,
        target_delta=delta,
        epochs=a.epochs,
        max_grad_norm=1.0,
    )

    lossf = nn.BCEWithLogitsLoss()
    for e in range(a.epochs):
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = lossf(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"{e}: {total / len(train_loader):.4f}")

    with torch.no_grad():
        hits = sum(((model(x).squeeze(1) > 0) == (y > 0.5)).sum().item() for x, y in val_loader)
    print("val", hits / len(val), "eps", engine.get_epsilon(delta))


if __name__ == "__main__":
    main()
