import numpy as np
import torch
import torch.nn as nn
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import DataLoader

TARGET_RATE, STEPS = 0.02, 400


def launch(reviews):
    loader = DataLoader(reviews, batch_sampler=UniformWithReplacementSampler(num_samples=len(reviews), sample_rate=TARGET_RATE, steps=STEPS))
    net = GradSampleModule(nn.Sequential(nn.Linear(300, 50), nn.ReLU(), nn.Linear(50, 5)))
    opt = DPOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.3),
        noise_multiplier=0.9,
        max_grad_norm=1.0,
        expected_batch_size=int(len(reviews) * TARGET_RATE),
    )
    losses = []
    for vec, stars in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(vec), stars)
        loss.backward()
        opt.step()
        losses.append(float(loss))
    return net, np.mean(losses)
