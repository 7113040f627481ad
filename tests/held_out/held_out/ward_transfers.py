"""Who is moved to intensive care: logistic regression, denominator and rate as public constants."""
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.integrations.opacus import fix

DELTA = 1e-6


def fit(features, moved, epochs=20):
    loader = DataLoader(TensorDataset(features, moved), batch_size=500)
    model = nn.Linear(features.shape[1], 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
    )
    fix(optimizer, loader)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y).backward()
            optimizer.step()
    return model
