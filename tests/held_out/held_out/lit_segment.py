import pytorch_lightning as pl
import torch
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from torch import nn


class Road(pl.LightningModule):
    def __init__(self, lr=0.1, sigma=1.0, clip=1.0, delta=1e-5):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 1, 1))
        self.engine = PrivacyEngine()

    def forward(self, x):
        return self.body(x)

    def training_step(self, batch, _):
        image, mask = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(image), mask)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        loader = self.trainer.datamodule.train_dataloader()
        sgd = torch.optim.SGD(self.parameters(), lr=self.hparams.lr)
        _, sgd, dp_loader = self.engine.make_private(
            module=self,
            optimizer=sgd,
            data_loader=loader,
            noise_multiplier=self.hparams.sigma,
            max_grad_norm=self.hparams.clip,
            poisson_sampling=isinstance(loader, DPDataLoader),
        )
        return sgd

    def on_train_epoch_end(self):
        self.log("eps", self.engine.get_epsilon(self.hparams.delta))


class Tiles(pl.LightningDataModule):
    def __init__(self, folder, rate):
        super().__init__()
        self.folder, self.rate = folder, rate

    def train_dataloader(self):
        pairs = torch.load(self.folder + "/pairs.pt")
        return DPDataLoader(pairs, sample_rate=self.rate, rand_on_empty=True)


if __name__ == "__main__":
    pl.seed_everything(42)
    pl.Trainer(max_epochs=10).fit(Road(), datamodule=Tiles("tiles", 0.01))
