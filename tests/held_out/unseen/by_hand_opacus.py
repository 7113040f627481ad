"""The parts of Opacus without its engine."""
import torch
from opacus import GradSampleModule
from opacus.accountants import RDPAccountant
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader


def assemble(net, data, *, rate_of=100, sigma=1.0, clip=1.0):
    loader = DPDataLoader.from_data_loader(DataLoader(data, batch_size=rate_of))
    wrapped = GradSampleModule(net)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1),
        noise_multiplier=sigma,
        max_grad_norm=clip,
        expected_batch_size=int(len(data) * loader.sample_rate),
    )
    accountant = RDPAccountant()
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=loader.sample_rate))
    return wrapped, optimizer, loader, accountant


def train(net, data, epochs):
    wrapped, optimizer, loader, accountant = assemble(net, data)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(wrapped(x), y).backward()
            optimizer.step()
    return accountant.get_epsilon(delta=1e-5)
