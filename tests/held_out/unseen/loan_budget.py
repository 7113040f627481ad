from opacus import PrivacyEngine
import torch
from torch.utils.data import DataLoader

from loans.data import LoanSet
from loans.nets import Scorer


class Experiment:
    target = 3.0

    def __init__(self, folder, epochs=8):
        self.data = LoanSet(folder)
        self.epochs = epochs
        self.delta = 1 / (2 * len(self.data))

    def prepare(self):
        net = Scorer(hidden=48)
        opt = torch.optim.Adam(net.parameters(), lr=3e-4)
        engine = PrivacyEngine()
        parts = engine.make_private_with_epsilon(
            module=net,
            optimizer=opt,
            data_loader=DataLoader(self.data, batch_size=256),
            target_epsilon=self.target,
            target_delta=self.delta,
            epochs=self.epochs,
            max_grad_norm=1.0,
        )
        return engine, parts

    def __call__(self):
        engine, (net, opt, batches) = self.prepare()
        for _ in range(self.epochs):
            for rows, repaid in batches:
                opt.zero_grad()
                torch.nn.functional.binary_cross_entropy_with_logits(net(rows), repaid).backward()
                opt.step()
        return net, engine.get_epsilon(self.delta)


if __name__ == "__main__":
    model, eps = Experiment("data/loans")()
    print(f"spent {eps:.3f} of {Experiment.target}")
