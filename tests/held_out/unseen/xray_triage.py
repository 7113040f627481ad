import argparse

import torch
import torch.nn.functional as F
import torchvision
from opacus import PrivacyEngine
from opacus.validators import ModuleValidator


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("root")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--physical", type=int, default=64)
    p.add_argument("--sigma", type=float, default=0.7)
    p.add_argument("--norm", type=float, default=1.2)
    return p.parse_args()


def privatize(engine, args, **parts):
    settings = {"noise_multiplier": args.sigma, "max_grad_norm": args.norm, "poisson_sampling": False}
    settings.update(parts)
    return engine.make_private(**settings)


def run(args):
    tf = torchvision.transforms.Compose(
        [torchvision.transforms.Grayscale(), torchvision.transforms.Resize((128, 128)), torchvision.transforms.ToTensor()]
    )
    data = torchvision.datasets.ImageFolder(args.root, transform=tf)
    dl = torch.utils.data.DataLoader(data, batch_size=args.physical, num_workers=4, shuffle=True)
    model = torchvision.models.mobilenet_v3_small(num_classes=3)
    model.features[0][0] = torch.nn.Conv2d(1, 16, 3, 2, 1, bias=False)
    model = ModuleValidator.fix(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    engine = PrivacyEngine(accountant="prv")
    model, optimizer, dl = privatize(engine, args, module=model, optimizer=optimizer, data_loader=dl)
    for _ in range(args.epochs):
        for images, findings in dl:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(images), findings).backward()
            optimizer.step()
        print(engine.get_epsilon(delta=1e-5))


if __name__ == "__main__":
    run(parse())
