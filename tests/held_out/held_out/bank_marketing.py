"""Fine-tunes a small MLP on the bank marketing data with a privacy budget."""
import argparse

import pandas as pd
import torch
import torch.nn as nn
from opacus import PrivacyEngine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--csv", default="bank-full.csv")
    ap.add_argument("--eps", type=float, default=3.0)
    ap.add_argument("--bs", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=15)
    return ap.parse_args()


def load(path, bs):
    frame = pd.get_dummies(pd.read_csv(path, sep=";"))
    y = frame.pop("y_yes").to_numpy()
    a, b, ya, yb = train_test_split(frame.to_numpy(dtype="float32"), y, test_size=0.2, random_state=11)
    scaler = StandardScaler().fit(a)
    train = TensorDataset(torch.tensor(scaler.transform(a)), torch.tensor(ya))
    test = TensorDataset(torch.tensor(scaler.transform(b)), torch.tensor(yb))
    return DataLoader(train, batch_size=bs, shuffle=True), DataLoader(test, batch_size=1024, drop_last=True)


def main():
    a = parse()
    trainloader, testloader = load(a.csv, a.bs)
    width = trainloader.dataset.tensors[0].shape[1]
    mlp = nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 2))
    sgd = torch.optim.SGD(mlp.parameters(), lr=0.5)
    pe = PrivacyEngine(accountant="prv")
    mlp, sgd, trainloader = pe.make_private_with_epsilon(
        module=mlp,
        optimizer=sgd,
        data_loader=trainloader,
        epochs=a.epochs,
        target_epsilon=a.eps,
        target_delta=1 / len(trainloader.dataset),
        max_grad_norm=1.0,
    )
    for ep in range(a.epochs):
        mlp.train()
        for xb, yb in trainloader:
            sgd.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(mlp(xb), yb.long()).backward()
            sgd.step()
        mlp.eval()
        with torch.no_grad():
            hits = sum((mlp(xb).argmax(-1) == yb).sum().item() for xb, yb in testloader)
        print(ep, hits / len(testloader.dataset))


if __name__ == "__main__":
    main()
