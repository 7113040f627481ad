"""Calls of libraries as people spread them over functions, classes and settings; each beside its corrected twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- settings that are handed over as a whole
    "settings of a data class, through a helper": """
        from dataclasses import asdict, dataclass
        from opacus import PrivacyEngine

        @dataclass
        class Settings:
            noise_multiplier: float = 1.1
            max_grad_norm: float = 1.0
            poisson_sampling: bool = False

        def privatise(engine, net, opt, loader, **options):
            return engine.make_private(module=net, optimizer=opt, data_loader=loader, **options)  # !NM001 !NM003

        def main(net, opt, loader):
            return privatise(PrivacyEngine(), net, opt, loader, **asdict(Settings()))
        """,
    "settings of an object, by vars": """
        import dataclasses
        from opacus import PrivacyEngine

        @dataclasses.dataclass
        class Privacy:
            noise_multiplier: float
            max_grad_norm: float
            poisson_sampling: bool = False

        def wrap(net, opt, loader, privacy: Privacy):
            return PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, **vars(privacy))  # !NM001 !NM003

        net, opt, loader = wrap(net, opt, loader, Privacy(1.0, max_grad_norm=0.5))
        """,
    "settings of an object, by its dictionary": """
        from dataclasses import dataclass
        from opacus import PrivacyEngine

        @dataclass(frozen=True)
        class Privacy:
            noise_multiplier: float = 1.0
            max_grad_norm: float = 1.0
            poisson_sampling: bool = False

        class Trainer:
            def __init__(self, net, opt, loader):
                self.privacy = Privacy()
                self.net, self.opt, self.loader = PrivacyEngine().make_private(  # !NM001 !NM003
                    module=net, optimizer=opt, data_loader=loader, **self.privacy.__dict__
                )
        """,
    "attributes of a class": """
        from opacus import PrivacyEngine

        class Config:
            SIGMA = 1.0
            poisson = False

        def wrap(net, opt, loader):
            return PrivacyEngine().make_private(  # !NM001 !NM003
                module=net, optimizer=opt, data_loader=loader, noise_multiplier=Config.SIGMA, max_grad_norm=1.0, poisson_sampling=Config.poisson
            )
        """,
    "a dictionary, through a parameter": """
        from opacus import PrivacyEngine

        DEFAULTS = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "poisson_sampling": False}

        def wrap(net, opt, loader, options):
            return PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, **options)  # !NM001 !NM003

        net, opt, loader = wrap(net, opt, loader, DEFAULTS)
        """,
    "settings that are set otherwise where they are made": """
        from dataclasses import asdict, dataclass
        from opacus import PrivacyEngine

        @dataclass
        class Settings:
            noise_multiplier: float = 1.1
            max_grad_norm: float = 1.0
            poisson_sampling: bool = False

        def main(net, opt, loader):
            settings = Settings(poisson_sampling=True)
            return PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, **asdict(settings))  # !NM001
        """,
    "settings of which nobody knows": """
        import sys
        from dataclasses import asdict, dataclass, replace
        from opacus import PrivacyEngine

        @dataclass
        class Settings:
            noise_multiplier: float = 1.1
            poisson_sampling: bool = False

        def main(net, opt, loader):
            settings = Settings()
            settings.poisson_sampling = "--poisson" in sys.argv
            one = PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, poisson_sampling=settings.poisson_sampling)  # !NM001
            return PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, **asdict(settings))  # !NM001
        """,
    "settings with the switch on": """
        from dataclasses import asdict, dataclass
        from opacus import PrivacyEngine

        @dataclass
        class Settings:
            noise_multiplier: float = 1.1
            max_grad_norm: float = 1.0
            poisson_sampling: bool = True

        def privatise(engine, net, opt, loader, **options):
            return engine.make_private(module=net, optimizer=opt, data_loader=loader, **options)  # !NM001

        net, opt, loader = privatise(PrivacyEngine(), net, opt, loader, **asdict(Settings()))
        """,
    "another data class has the switch": """
        from dataclasses import asdict, dataclass
        from opacus import PrivacyEngine

        @dataclass
        class Baseline:
            poisson_sampling: bool = False

        @dataclass
        class Private:
            noise_multiplier: float = 1.1
            max_grad_norm: float = 1.0

        def main(net, opt, loader):
            return PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, **asdict(Private()))  # !NM001
        """,
    # --- delta
    "delta as the first argument": """
        from opacus import PrivacyEngine

        engine = PrivacyEngine()
        net, opt, loader = engine.make_private(module=net, optimizer=opt, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        print(engine.get_epsilon(1 / len(train_data)))  # !NM005
        """,
    "delta as the first argument of an accountant": """
        from opacus.accountants import RDPAccountant

        def spent(accountant: RDPAccountant, train_data):
            return accountant.get_privacy_spent(1.0 / len(train_data))  # !NM005
        """,
    "delta as a parameter of one's own function": """
        # differential privacy
        def report(engine, delta):
            return engine.get_epsilon(delta)

        def main(engine, train_set):
            print(report(engine, 1 / (10 * len(train_set))))  # !NM005
        """,
    "delta by a helper with a loop": """
        # differentially private training
        def below(n):
            den = 1
            while den <= n:
                den *= 10
            return 1 / den

        def main(train_set):
            delta = below(len(train_set))  # !NM005
            return delta
        """,
    "delta by a helper with another loop": """
        # differentially private training
        def small_delta(records):
            for power in range(3, 12):
                if 10**power > records:
                    return 10 ** -power
            return 1e-12

        def main(engine, train_set):
            return engine.get_epsilon(delta=small_delta(len(train_set)))  # !NM005
        """,
    "delta by a helper at once": """
        # differentially private training
        import math

        def get_delta(n):
            return 10 ** -math.ceil(math.log10(n))

        class Run:
            def __init__(self, train_set):
                self.delta = get_delta(len(train_set))  # !NM005
        """,
    "delta by a helper of the accuracy that is wanted": """
        # differentially private training
        def below(n):
            den = 1
            while den <= n:
                den *= 10
            return 1 / den

        delta = below(60_000)
        """,
    "a rate as the second argument": """
        # differential privacy
        def main(accountant, loader, train_set, steps):
            accountant.step(noise_multiplier=1.0, sample_rate=1 / len(loader))
            return accountant.get_epsilon(1e-5, 1 / len(loader))
        """,
    "a share by a helper that is no delta": """
        # differentially private training
        def share(n):
            return 1 / n

        def main(train_set, engine):
            weight = share(len(train_set))
            delta = 1e-6
            return engine.get_epsilon(delta), weight
        """,
    # --- weighted samplers
    "a sampler from a helper": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, WeightedRandomSampler

        def balanced(labels):
            weights = [1 / labels.count(one) for one in labels]
            return WeightedRandomSampler(weights, len(weights))  # !NM007

        def main(net, opt, train_set, labels):
            loader = DataLoader(train_set, batch_size=64, sampler=balanced(labels))
            net, opt, loader = PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
    "a sampler from a helper by name, and arguments by position": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, WeightedRandomSampler

        def balanced(labels):
            sampler = WeightedRandomSampler([1 / labels.count(one) for one in labels], len(labels))  # !NM007
            return sampler

        def main(net, opt, train_set, labels):
            loader = DataLoader(train_set, 64, sampler=balanced(labels))
            return PrivacyEngine().make_private(net, opt, loader, 1.0, 1.0)  # !NM001
        """,
    "a sampler by position, in a loader from a helper": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader
        from torch.utils.data.sampler import WeightedRandomSampler

        class Data:
            def make_sampler(self):
                return WeightedRandomSampler(self.weights, len(self.weights))  # !NM007

            def make_loader(self):
                return DataLoader(self.train_set, 64, False, self.make_sampler())

        def main(net, opt, data):
            loader = data.make_loader()
            return PrivacyEngine().make_private(net, opt, loader, 1.0, 1.0)  # !NM001
        """,
    "a sampler from a helper for what is not private": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, WeightedRandomSampler

        def balanced(labels):
            return WeightedRandomSampler([1 / labels.count(one) for one in labels], len(labels))

        def main(net, opt, train_set, shadow_set, labels):
            loader = DataLoader(train_set, 64)
            other = DataLoader(shadow_set, 64, sampler=balanced(labels))
            return PrivacyEngine().make_private(net, opt, loader, 1.0, 1.0), other  # !NM001
        """,
    "a plain sampler from a helper": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, RandomSampler

        def sampler(data):
            return RandomSampler(data)

        def main(net, opt, train_set):
            loader = DataLoader(train_set, batch_size=64, sampler=sampler(train_set))
            return PrivacyEngine().make_private(net, opt, loader, 1.0, 1.0)  # !NM001
        """,
    # --- the loader that went in
    "an attribute, in another method": """
        from opacus import PrivacyEngine

        class Trainer:
            def __init__(self, net, opt, loader):
                self.net, self.opt, self.loader = net, opt, loader

            def protect(self):
                self.net, self.opt, _ = PrivacyEngine().make_private(module=self.net, optimizer=self.opt, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001

            def fit(self):
                for x, y in self.loader:  # !NM009
                    self.opt.zero_grad()
                    criterion(self.net(x), y).backward()
                    self.opt.step()
        """,
    "an attribute, in the same method": """
        from opacus import PrivacyEngine

        class Trainer:
            def fit(self, epochs):
                self.dp_net, self.dp_opt, self.dp_loader = PrivacyEngine().make_private(  # !NM001
                    module=self.net, optimizer=self.opt, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0
                )
                for epoch in range(epochs):
                    for i, (x, y) in enumerate(self.loader):  # !NM009
                        criterion(self.dp_net(x), y).backward()
                        self.dp_opt.step()
        """,
    "an attribute by position, and a name that is thrown away": """
        from opacus import PrivacyEngine
        from tqdm import tqdm

        class Client:
            def __init__(self, net, opt, trainloader):
                self.trainloader = trainloader
                self.net, self.opt, _loader = PrivacyEngine().make_private(net, opt, self.trainloader, 1.0, 1.0)  # !NM001

            def fit(self):
                for batch in tqdm(self.trainloader):  # !NM009
                    criterion(self.net(batch)).backward()
                    self.opt.step()
        """,
    "an attribute that comes back": """
        from opacus import PrivacyEngine

        class Trainer:
            def protect(self):
                self.net, self.opt, self.loader = PrivacyEngine().make_private(  # !NM001
                    module=self.net, optimizer=self.opt, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0
                )

            def fit(self):
                for x, y in self.loader:
                    criterion(self.net(x), y).backward()
                    self.opt.step()
        """,
    "an attribute that is looked at without a step": """
        from opacus import PrivacyEngine

        class Trainer:
            def protect(self):
                self.net, self.opt, self.dp_loader = PrivacyEngine().make_private(  # !NM001
                    module=self.net, optimizer=self.opt, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0
                )

            def accuracy(self):
                return sum((self.net(x).argmax(1) == y).sum() for x, y in self.loader)

            def fit(self):
                for x, y in self.dp_loader:
                    criterion(self.net(x), y).backward()
                    self.opt.step()
        """,
    "an attribute for training without privacy first": """
        from opacus import PrivacyEngine

        class Trainer:
            def protect(self):
                self.net, self.opt, self.dp_loader = PrivacyEngine().make_private(  # !NM001
                    module=self.net, optimizer=self.opt, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0
                )

            def warm_up(self):
                for x, y in self.loader:
                    criterion(self.net(x), y).backward()
                    self.opt.step()

            def fit(self):
                for x, y in self.dp_loader:
                    criterion(self.net(x), y).backward()
                    self.opt.step()
        """,
    "an attribute that is replaced afterwards": """
        from opacus import PrivacyEngine

        class Trainer:
            def protect(self):
                self.net, self.opt, loader = PrivacyEngine().make_private(  # !NM001
                    module=self.net, optimizer=self.opt, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0
                )
                self.loader = loader

            def fit(self):
                for x, y in self.loader:
                    criterion(self.net(x), y).backward()
                    self.opt.step()
        """,
    # --- calibrated
    "settings that calibrate themselves": """
        from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

        def plan(data, batch, steps):
            return BandMFExecutionPlanConfig.default(  # !NM010
                iterations=steps, expected_participations=batch * steps / len(data)
            ).calibrate(target_epsilon=1.0, target_delta=1e-6)
        """,
    "settings that calibrate themselves, by a name": """
        from jax_privacy import execution_plan

        def plan(data, batch, steps):
            config = execution_plan.BandMFConfig.default(num_bands=4, sampling_prob=batch / len(data))
            return config.calibrate(1.0, 1e-6)  # !NM010
        """,
    "settings that calibrate themselves, twice removed": """
        import dataclasses
        from jax_privacy import execution_plan

        def plan(train_images, batch, steps):
            rate = batch / len(train_images)
            config = execution_plan.Config(steps=steps)
            config = dataclasses.replace(config, sampling_prob=rate)
            calibrated = config.calibrate(epsilon=1.0)  # !NM010
            return calibrated
        """,
    "settings that calibrate themselves from public numbers": """
        from jax_privacy import execution_plan

        def plan(data, steps):
            config = execution_plan.BandMFConfig.default(iterations=steps, expected_participations=4)
            return config.calibrate(target_epsilon=1.0, target_delta=1e-6), len(data)
        """,
    "a model that calibrates its outputs": """
        # differential privacy
        from calibration import Temperature

        def after(model, train_set):
            scaler = Temperature(bins=10, device="cpu")
            return scaler.calibrate(model)
        """,
    # --- copies of TensorFlow Privacy
    "a copy in the folder": """
        import tensorflow as tf
        from privacy.optimizers import dp_optimizer

        def model_fn(features, labels):
            optimizer = dp_optimizer.DPGradientDescentGaussianOptimizer(l2_norm_clip=1.0, noise_multiplier=1.1, num_microbatches=256, learning_rate=0.1)  # !NM012
            return optimizer.minimize(loss=features)
        """,
    "a copy in another folder": """
        import tensorflow as tf
        from third_party.privacy.optimizers.dp_optimizer import DPAdamGaussianOptimizer

        optimizer = DPAdamGaussianOptimizer(l2_norm_clip=1.0, noise_multiplier=1.1, num_microbatches=1, learning_rate=0.1)  # !NM012
        """,
    "a copy of the file": """
        import tensorflow as tf
        import dp_optimizer

        Optimizer = dp_optimizer.make_gaussian_optimizer_class(tf.compat.v1.train.AdagradOptimizer)  # !NM012
        """,
    "a copy, relative": """
        import tensorflow as tf
        from ..vendored.tensorflow_privacy.privacy.optimizers import dp_optimizer_keras as keras_dp

        optimizer = keras_dp.DPKerasSGDOptimizer(l2_norm_clip=1.0, noise_multiplier=1.1, num_microbatches=1, learning_rate=0.1)  # !NM012
        """,
    "an optimizer of Opacus": """
        from opacus.optimizers import DPOptimizer

        optimizer = DPOptimizer(opt, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=64)
        """,
    "an optimizer of one's own": """
        # differential privacy
        import torch
        from optimizers import DPAdamOptimizer

        optimizer = DPAdamOptimizer(params, sigma=1.0)
        """,
    # --- jax-privacy and batches that are cut
    "a permutation, and weights by hand": """
        import jax
        import numpy as np
        from jax_privacy import clipped_grad, noise_addition

        grad_fn = clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1,))  # !NM014

        def run(params, x, update, rng, privatizer, state):
            for epoch in range(10):
                order = rng.permutation(len(x))
                for start in range(0, len(x), 128):
                    grads = grad_fn(params, x[order[start : start + 128]])
                    noisy, state = privatizer.update(grads, state)
                    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, noisy)
            return params
        """,
    "a shuffle, and a function that moves": """
        import jax
        import numpy as np
        import jax_privacy

        def train(params, data, rng, move):
            clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0)  # !NM014
            index = np.arange(len(data))
            for epoch in range(10):
                rng.shuffle(index)
                for chosen in np.array_split(index, 100):
                    params = move(params, clipped(params, data[chosen]))
            return params
        """,
    "a permutation, and a function clipped": """
        import jax
        from jax_privacy import clipping

        def train(params, x, key, apply):
            grad_fn = clipping.clipped_fun(jax.grad(loss), l2_clip_norm=1.0, batch_argnums=1)  # !NM014
            for epoch in range(10):
                key, sub = jax.random.split(key)
                order = jax.random.permutation(sub, x.shape[0])
                for start in range(0, x.shape[0], 64):
                    params = apply(params, grad_fn(params, x[order[start : start + 64]]))
            return params
        """,
    "a permutation, and batches of jax-privacy": """
        import jax
        import numpy as np
        from jax_privacy import batch_selection, clipped_grad

        def train(params, x, rng, apply):
            x = x[rng.permutation(len(x))]
            grad_fn = clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1,))
            for chosen in batch_selection.CyclicPoissonSampling(sampling_prob=0.01, iterations=100).batch_iterator(60_000):
                params = apply(params, grad_fn(params, x[chosen]))
            return params
        """,
    "a clipped sum of values": """
        import jax
        from jax_privacy import clipping

        def total(values):
            return clipping.clipped_fun(lambda x: x, l2_clip_norm=1.0, batch_argnums=0)(values)
        """,
    "a clipped gradient, looked at": """
        import jax
        from jax_privacy import clipped_grad

        def sensitivity():
            return clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1,)).sensitivity()
        """,
    "a dictionary of a class": """
        from opacus import PrivacyEngine
        class Cfg:
            DP = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "poisson_sampling": False}
        def wrap(engine, net, opt, loader, **kw):
            return engine.make_private(module=net, optimizer=opt, data_loader=loader, **kw)  # !NM001 !NM003
        net, opt, loader = wrap(PrivacyEngine(), net, opt, loader, **Cfg.DP)
        """,
    "settings of a data class, through a parameter": """
        from dataclasses import dataclass
        import dataclasses
        from opacus import PrivacyEngine
        @dataclass
        class DPConfig:
            noise_multiplier: float = 1.0
            max_grad_norm: float = 1.0
            poisson_sampling: bool = False
        def wrap(engine, net, opt, loader, cfg):
            return engine.make_private(module=net, optimizer=opt, data_loader=loader, **dataclasses.asdict(cfg))  # !NM001 !NM003
        net, opt, loader = wrap(PrivacyEngine(), net, opt, loader, DPConfig(noise_multiplier=0.8))
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_calls(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
