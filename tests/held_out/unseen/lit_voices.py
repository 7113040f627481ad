import lightning as L
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader


class Voices(L.LightningModule):
    def __init__(self, sigma=1.0, clip=1.0, lr=0.1, delta=1e-5):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.body = nn.Sequential(nn.Linear(40, 128), nn.ReLU(), nn.Linear(128, 35))
        self.engine = PrivacyEngine()

    def configure_optimizers(self):
        sgd = torch.optim.SGD(self.body.parameters(), lr=self.hparams.lr)
        poisson = False
        self.body, sgd, self._private = self.engine.make_private(
            module=self.body,
            optimizer=sgd,
            data_loader=self.trainer.datamodule.train_dataloader(),
            noise_multiplier=self.hparams.sigma,
            max_grad_norm=self.hparams.clip,
            poisson_sampling=poisson,
        )
        return sgd

    def training_step(self, batch, _):
        opt = self.optimizers()
        opt.zero_grad()
        x, y = batch
        loss = nn.functional.cross_entropy(self.body(x), y)
        self.manual_backward(loss)
        opt.step()
        self.log("train/loss", loss)

    def on_train_epoch_end(self):
        self.log("eps", self.engine.get_epsilon(self.hparams.delta))


class Words(L.LightningDataModule):
    def __init__(self, train, batch=500):
        super().__init__()
        self.train, self.batch = train, batch

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch, shuffle=True)
