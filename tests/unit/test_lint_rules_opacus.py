"""Calls of Opacus, as people write them: NM001 to NM004, NM009, NM015, NM016, and a noise multiplier of zero."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    "as in the tutorial": """
        import torch
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader

        train_loader = DataLoader(train_set, batch_size=64)
        privacy_engine = PrivacyEngine()
        model, optimizer, train_loader = privacy_engine.make_private(  # !NM001
            module=model,
            optimizer=optimizer,
            data_loader=train_loader,
            noise_multiplier=1.1,
            max_grad_norm=1.0,
        )
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        print(privacy_engine.get_epsilon(delta=1e-5))
        """,
    "an alias of the class, positional arguments": """
        from opacus import PrivacyEngine as PE
        net, opt, dl = PE(accountant="prv").make_private(module=net, optimizer=opt, data_loader=dl, noise_multiplier=0.8, max_grad_norm=1)  # !NM001
        """,
    "an alias of the package": """
        import opacus as op

        def private(net, opt, data):
            engine = op.PrivacyEngine(secure_mode=False)
            return engine.make_private_with_epsilon(  # !NM002
                module=net, optimizer=opt, data_loader=data, target_epsilon=3.0, target_delta=1e-5, epochs=4, max_grad_norm=1.2
            )
        """,
    "an engine that is built elsewhere": """
        from mylab.privacy import get_engine

        def wrap(cfg, net, opt, dl):
            privacy_engine = get_engine(cfg)
            net, opt, dl = privacy_engine.make_private(  # !NM001
                module=net, optimizer=opt, data_loader=dl, noise_multiplier=cfg.sigma, max_grad_norm=cfg.clip
            )
            return net, opt, dl
        """,
    "the bound method under another name": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        wrap = engine.make_private
        model, optimizer, loader = wrap(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
    "settings in a dictionary": """
        from opacus import PrivacyEngine

        DP = dict(noise_multiplier=1.3, max_grad_norm=0.5, poisson_sampling=False)

        def setup(model, optimizer, loader):
            engine = PrivacyEngine()
            return engine.make_private(module=model, optimizer=optimizer, data_loader=loader, **DP)  # !NM001 !NM003
        """,
    "a dictionary that is changed afterwards": """
        from opacus import PrivacyEngine

        kwargs = {"noise_multiplier": 1.3, "max_grad_norm": 0.5}
        kwargs["rand_on_empty"] = True
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, **kwargs)  # !NM001 !NM004
        """,
    "a switch behind a name": """
        from opacus import PrivacyEngine

        USE_POISSON = False

        class Trainer:
            def __init__(self, model, opt, loader):
                self.engine = PrivacyEngine()
                self.model, self.opt, self.loader = self.engine.make_private(  # !NM001 !NM003
                    module=model, optimizer=opt, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
                    poisson_sampling=USE_POISSON,
                )
        """,
    "a switch that the caller has": """
        import argparse
        from opacus import PrivacyEngine

        parser = argparse.ArgumentParser()
        parser.add_argument("--no-poisson", action="store_true")
        args = parser.parse_args()
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(  # !NM001
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
            poisson_sampling=not args.no_poisson,
        )
        """,
    "a loader that makes records up": """
        from opacus.data_loader import DPDataLoader
        private = DPDataLoader.from_data_loader(loader, rand_on_empty=True)  # !NM004
        other = DPDataLoader.from_data_loader(loader, rand_on_empty=False)
        """,
    "Lightning": """
        import lightning as L
        from opacus import PrivacyEngine

        class Classifier(L.LightningModule):
            def on_fit_start(self):
                self.privacy_engine = PrivacyEngine()

            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                data = self.trainer.datamodule.train_dataloader()
                dp_model, optimizer, loader = self.privacy_engine.make_private(  # !NM001
                    module=self, optimizer=optimizer, data_loader=data, noise_multiplier=self.sigma, max_grad_norm=1.0
                )
                return optimizer
        """,
    "a trainer of Hugging Face": """
        from opacus import PrivacyEngine
        from transformers import Trainer

        class PrivateTrainer(Trainer):
            def get_train_dataloader(self):
                loader = super().get_train_dataloader()
                engine = PrivacyEngine()
                self.model, self.optimizer, loader = engine.make_private_with_epsilon(  # !NM002
                    module=self.model, optimizer=self.optimizer, data_loader=loader,
                    target_epsilon=self.args.epsilon, target_delta=1e-6, epochs=3, max_grad_norm=0.1,
                )
                return loader
        """,
    "fixed afterwards": """
        from noisymean.integrations.opacus import fix
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
        fix(optimizer, denominator=600, data_loader=loader)
        """,
    "fixed, and the rate is public as well": """
        from noisymean.integrations.opacus import fix, poisson_loader
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        loader = poisson_loader(train_set, sample_rate="1/100")
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
        fix(optimizer, denominator=600, data_loader=loader)
        """,
    "fixed, and the rate still follows the loader": """
        from noisymean.integrations.opacus import fix
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader
        engine = PrivacyEngine()
        loader = DataLoader(train_set, batch_size=600)
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM016
        fix(optimizer, denominator=600, data_loader=loader)
        """,
    "fixed, and the rate still follows the loader of a function": """
        import opacus
        from noisymean.integrations import opacus as remedy
        from torch.utils.data import DataLoader

        def loader_of(data):
            return DataLoader(data, batch_size=64, num_workers=2)

        def private(model, optimizer, data):
            engine = opacus.PrivacyEngine()
            model, optimizer, loader = engine.make_private(  # !NM016
                module=model, optimizer=optimizer, data_loader=loader_of(data), noise_multiplier=1.0, max_grad_norm=1.0
            )
            remedy.fix(optimizer, denominator=64, data_loader=loader)
        """,
    "somebody else's make_private": """
        class Engine:
            def make_private(self, x):
                return self._wrap(x)

            def run(self, x):
                return self.make_private(x)

        def visibility(repo):
            repo.make_private()
            return super().make_private(repo)
        """,
    "jax-privacy has a function of that name": """
        from jax_privacy import keras_api
        model = keras_api.make_private(model, params)
        """,
    "the loader that went in": """
        from opacus import PrivacyEngine

        def run(model, optimizer, train_dl, test_dl):
            engine = PrivacyEngine()
            model, optimizer, private_dl = engine.make_private(  # !NM001
                module=model, optimizer=optimizer, data_loader=train_dl, noise_multiplier=1.0, max_grad_norm=1.0
            )
            for epoch in range(3):
                for x, y in train_dl:  # !NM009
                    optimizer.zero_grad()
                    loss(model(x), y).backward()
                    optimizer.step()
            for x, y in test_dl:
                evaluate(model, x, y)
        """,
    "the loader that went in, counted and shown": """
        from opacus import PrivacyEngine
        from tqdm import tqdm
        engine = PrivacyEngine()
        model, optimizer, _ = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        for i, (x, y) in enumerate(tqdm(loader)):  # !NM009
            loss(model(x), y).backward()
            optimizer.step()
        """,
    "the loader that went in, handed to a function": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        model, optimizer, dp_loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        train_one_epoch(model, optimizer, loader)  # !NM009
        evaluate(model, loader)
        """,
    "what comes back is thrown away": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        for x, y in loader:  # !NM009
            loss(model(x), y).backward()
            optimizer.step()
        """,
    "the loader that went in is only evaluated": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        model, optimizer, dp_loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        for x, y in dp_loader:
            loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum()
        """,
    "the same name, assigned again": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        private = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        model, optimizer, loader = private
        for x, y in loader:
            loss(model(x), y).backward()
            optimizer.step()
        """,
    "before 1.0": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine(  # !NM015
            model, batch_size=256, sample_size=60000, alphas=range(2, 32), noise_multiplier=1.3, max_grad_norm=1.0
        )
        engine.attach(optimizer)
        """,
    "before 1.0, by a rate": """
        import opacus
        privacy_engine = opacus.PrivacyEngine(module=net, sample_rate=0.01, noise_multiplier=1.3, max_grad_norm=1.0)  # !NM015
        privacy_engine.attach(opt)
        """,
    "torchdp": """
        from torchdp import PrivacyEngine
        engine = PrivacyEngine(model, 64, 50000, alphas=[2, 4], noise_multiplier=1.0, max_grad_norm=1.0)  # !NM015
        """,
    "no noise": """
        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(  # !NM001 !NM032
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=0.0, max_grad_norm=1.0
        )
        """,
    "no noise by default": """
        import argparse
        from opacus import PrivacyEngine
        p = argparse.ArgumentParser()
        p.add_argument("--sigma", type=float, default=0.0)
        args = p.parse_args()
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=args.sigma, max_grad_norm=1.0)  # !NM001
        """,
    "a script of Colab": """
        # -*- coding: utf-8 -*-
        !pip install opacus
        %matplotlib inline

        from opacus import PrivacyEngine
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_opacus(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
