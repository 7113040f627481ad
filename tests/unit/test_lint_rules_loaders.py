"""Batches and what is computed from the data: NM005 to NM008, NM010, NM036 and NM037."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- delta
    "delta of the training set": """
        from opacus import PrivacyEngine
        DELTA = 1 / len(train_dataset)  # !NM005
        """,
    "half of it": """
        from opacus import PrivacyEngine
        def budget(engine, dataset):
            target_delta = 0.5 / len(dataset)  # !NM005
            return engine.get_epsilon(target_delta)
        """,
    "a power of the number of records": """
        import opacus
        delta = len(train_loader.dataset) ** -1.1  # !NM005
        """,
    "cut off": """
        import opacus
        delta = min(1e-5, 1.0 / len(trainset))  # !NM005
        """,
    "as a keyword": """
        import opacus
        epsilon = engine.get_epsilon(delta=1.0 / len(loader.dataset))  # !NM005
        """,
    "in a dictionary": """
        import opacus
        n = X_train.shape[0]
        config = {
            "sigma": 1.0,
            "target_delta": 1.0 / n,  # !NM005
        }
        """,
    "of an attribute": """
        class DPTrainer:
            \"\"\"Differentially private training.\"\"\"
            def __init__(self, data):
                self.n = len(data)
                self.delta = 1 / (10 * self.n)  # !NM005
        """,
    "a public constant": """
        import opacus
        DELTA = 1e-5
        N_PUBLIC = 60_000
        OTHER_DELTA = 1 / N_PUBLIC
        """,
    "a delta that is none of privacy": """
        def smooth_l1(x, y):
            delta = 1 / len(x)
            return (x - y).abs().clamp(max=delta)
        """,
    # --- drop_last
    "dropped": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader
        train_loader = DataLoader(train_set, batch_size=256, shuffle=True, drop_last=True)  # !NM006
        test_loader = DataLoader(test_set, batch_size=256, drop_last=True)
        """,
    "dropped by the loader that is made private only": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader as DL
        public = DL(public_set, batch_size=256, drop_last=True)
        mine = DL(  # !NM006
            records,
            batch_size=256,
            drop_last=True,
        )
        engine = PrivacyEngine()
        model, optimizer, mine = engine.make_private(module=model, optimizer=optimizer, data_loader=mine, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
    "not dropped": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader
        train_loader = DataLoader(train_set, batch_size=256, drop_last=False)
        """,
    "dropped without privacy": """
        from torch.utils.data import DataLoader
        noise = torch.randn(4)
        train_loader = DataLoader(train_set, batch_size=256, shuffle=True, drop_last=True)
        """,
    # --- samplers
    "weighted": """
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, WeightedRandomSampler
        sampler = WeightedRandomSampler(weights, len(weights))  # !NM007
        train_loader = DataLoader(train_set, batch_size=64, sampler=sampler)
        """,
    "weighted, inside of the loader": """
        import torch
        from opacus import PrivacyEngine
        train_loader = torch.utils.data.DataLoader(
            train_set, batch_size=64, sampler=torch.utils.data.WeightedRandomSampler(w, 1000)  # !NM007
        )
        """,
    "uniform": """
        from opacus.utils.uniform_sampler import UniformWithReplacementSampler
        sampler = UniformWithReplacementSampler(num_samples=1000, sample_rate=0.1)
        train_loader = DataLoader(train_set, batch_sampler=sampler)
        """,
    # --- batch sizes
    "a batch size of the data": """
        from opacus import PrivacyEngine
        loader = DataLoader(train_set, batch_size=len(train_set) // 100)  # !NM008
        """,
    "the root of N": """
        from opacus import PrivacyEngine
        n = len(train_set)
        batch_size = int(math.sqrt(n))
        loader = DataLoader(train_set, batch_size=batch_size)  # !NM008
        """,
    "an expected size of the data": """
        from opacus.optimizers import DPOptimizer
        q = 0.01
        dp_optimizer = DPOptimizer(  # !NM008
            optimizer=optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=int(q * len(train_set))
        )
        """,
    "an expected size that is set": """
        from opacus.optimizers import DPOptimizer
        optimizer.expected_batch_size = len(batch)  # !NM008
        """,
    "public batch sizes": """
        from opacus import PrivacyEngine
        BATCH = 600
        loader = DataLoader(train_set, batch_size=BATCH)
        test_loader = DataLoader(test_set, batch_size=len(test_set))
        dp_optimizer = DPOptimizer(optimizer=optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=BATCH)
        """,
    # --- calibration
    "sigma for the rate of a loader": """
        from opacus.accountants.utils import get_noise_multiplier
        sigma = get_noise_multiplier(  # !NM010
            target_epsilon=3.0, target_delta=1e-5, sample_rate=1 / len(train_loader), epochs=10
        )
        """,
    "sigma for batches over N": """
        from opacus.accountants.utils import get_noise_multiplier
        sample_rate = args.batch_size / len(train_dataset)
        args.sigma = get_noise_multiplier(target_epsilon=1.0, target_delta=1e-5, sample_rate=sample_rate, steps=1000)  # !NM010
        """,
    "sigma by dp_accounting": """
        import dp_accounting

        def sigma(data, batch, steps):
            q = batch / len(data)
            return dp_accounting.calibrate_dp_mechanism(  # !NM010
                dp_accounting.rdp.RdpAccountant,
                lambda s: dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(s)), steps),
                3.0,
                1e-5,
            )
        """,
    "sigma for public numbers": """
        from opacus.accountants.utils import get_noise_multiplier
        RATE = 0.01
        sigma = get_noise_multiplier(target_epsilon=3.0, target_delta=1e-5, sample_rate=RATE, epochs=10)
        """,
    # --- empty batches
    "empty batches are skipped": """
        from opacus import PrivacyEngine
        for batch in private_loader:
            if len(batch) == 0:  # !NM036
                continue
            loss(model(batch)).backward()
            optimizer.step()
        """,
    "by their shape": """
        from opacus import PrivacyEngine
        for x, y in private_loader:
            if x.shape[0] < 1:  # !NM036
                print("empty")
                continue
            loss(model(x), y).backward()
            optimizer.step()
        """,
    "by a mask": """
        # DP-SGD with coins
        def step(w, x, mask):
            if not mask.any():  # !NM036
                return w
            g = clipped_sum(w, x[mask]) + sigma * C * torch.randn_like(w)
            return w - lr * g / 100
        """,
    "a lightning step that returns nothing": """
        from opacus import PrivacyEngine
        import pytorch_lightning as pl
        class Net(pl.LightningModule):
            def training_step(self, batch, i):
                x, y = batch
                if x.numel() == 0:  # !NM036
                    return None
                self.opt.zero_grad()
                self.manual_backward(self.loss(x, y))
                self.opt.step()
        """,
    "empty batches of an evaluation": """
        from opacus import PrivacyEngine
        def evaluate(model, loader):
            for x, y in loader:
                if len(x) == 0:
                    continue
                total += loss(model(x), y)
        """,
    "an empty dataset is refused": """
        from opacus import PrivacyEngine
        def train(loader):
            if len(loader) == 0:
                raise ValueError("no data")
            for x, y in loader:
                loss(model(x), y).backward()
                optimizer.step()
        """,
    # --- accounting
    "a Poisson accountant beside a shuffled loader": """
        from opacus.accountants import RDPAccountant
        loader = DataLoader(train_set, batch_size=256, shuffle=True)
        accountant = RDPAccountant()
        for x, y in loader:
            noisy_step(model, x, y)
            accountant.step(noise_multiplier=1.0, sample_rate=256 / 60000)  # !NM037
        """,
    "rdp beside a permutation": """
        from tensorflow_privacy import compute_rdp, get_privacy_spent
        def run(x, y, q, sigma, steps):
            order = np.random.permutation(60000)
            for i in range(steps):
                idx = order[i * 256 : (i + 1) * 256]
                noisy_step(x[idx], y[idx])
            rdp = compute_rdp(q=q, noise_multiplier=sigma, steps=steps, orders=range(2, 64))  # !NM037
            return get_privacy_spent(range(2, 64), rdp, target_delta=1e-5)
        """,
    "rdp beside coins": """
        from tensorflow_privacy import compute_rdp, get_privacy_spent
        def run(x, y, q, sigma, steps):
            for i in range(steps):
                mask = np.random.rand(60000) < q
                noisy_step(x[mask], y[mask])
            rdp = compute_rdp(q=q, noise_multiplier=sigma, steps=steps, orders=range(2, 64))
            return get_privacy_spent(range(2, 64), rdp, target_delta=1e-5)
        """,
    "keras' fit": """
        import tensorflow_privacy
        from tensorflow_privacy.privacy.analysis import compute_dp_sgd_privacy_lib
        optimizer = tensorflow_privacy.DPKerasAdamOptimizer(l2_norm_clip=1.0, noise_multiplier=1.1, num_microbatches=250)  # !NM012
        model.compile(optimizer=optimizer, loss=loss)
        model.fit(x_train, y_train, epochs=15, batch_size=250)
        compute_dp_sgd_privacy_lib.compute_dp_sgd_privacy(n=60000, batch_size=250, noise_multiplier=1.1, epochs=15, delta=1e-5)  # !NM037
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_loaders(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
