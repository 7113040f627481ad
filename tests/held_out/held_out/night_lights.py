import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader
from torchvision import models, transforms
from torchvision.datasets import ImageFolder


class NightLights:
    """Poverty classes from satellite pictures."""

    def __init__(self, root, sigma, clip):
        self.tf = transforms.Compose([transforms.RandomCrop(96), transforms.ToTensor()])
        self.batches = DataLoader(ImageFolder(root, self.tf), batch_size=64, shuffle=True, num_workers=4)
        self.net = models.shufflenet_v2_x0_5(num_classes=4, norm_layer=lambda c: torch.nn.GroupNorm(4, c))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9)
        self.guard = PrivacyEngine(secure_mode=False)
        self.net, self.opt, _ = self.guard.make_private(
            module=self.net, optimizer=self.opt, data_loader=self.batches, noise_multiplier=sigma, max_grad_norm=clip
        )

    def epoch(self):
        total = 0.0
        for pictures, classes in self.batches:
            self.opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.net(pictures), classes)
            loss.backward()
            self.opt.step()
            total += loss.item()
        return total / len(self.batches)

    def spent(self):
        return self.guard.get_epsilon(1e-5)


if __name__ == "__main__":
    job = NightLights("tiles", 1.0, 1.2)
    for e in range(30):
        print(e, job.epoch(), job.spent())
