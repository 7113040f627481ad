from collections import OrderedDict

import flwr as fl
import torch
from opacus import PrivacyEngine

from ecg import Beats, partition


class Hospital(fl.client.NumPyClient):
    """One hospital: a new engine every round."""

    def __init__(self, cid):
        self.net = Beats()
        self.loader = partition(cid, batch_size=64)
        self.eps = 0.0

    def get_parameters(self, config):
        return [v.detach().cpu().numpy() for v in self.net.state_dict().values()]

    def fit(self, parameters, config):
        keys = self.net.state_dict().keys()
        self.net.load_state_dict(OrderedDict((k, torch.tensor(v)) for k, v in zip(keys, parameters)))
        engine = PrivacyEngine()
        opt = torch.optim.SGD(self.net.parameters(), lr=config["lr"])
        net, opt, private = engine.make_private(
            module=self.net, optimizer=opt, data_loader=self.loader,
            noise_multiplier=config["sigma"], max_grad_norm=config["clip"],
        )
        for x, y in private:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        self.eps += engine.get_epsilon(delta=1e-5)
        self.net = net._module
        return self.get_parameters(config), len(self.loader.dataset), {"eps": self.eps}


if __name__ == "__main__":
    import sys

    fl.client.start_numpy_client(server_address="localhost:9092", client=Hospital(int(sys.argv[1])))
