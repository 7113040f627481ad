import torch
import torchvision
from opacus import PrivacyEngine
from opacus.utils import module_modification

BATCH, VIRTUAL, N = 50, 1000, 50_000
model = module_modification.convert_batchnorm_modules(torchvision.models.resnet18(num_classes=10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
engine = PrivacyEngine(
    model,
    batch_size=VIRTUAL,
    sample_size=N,
    alphas=[1 + a / 10 for a in range(1, 100)],
    noise_multiplier=1.1,
    max_grad_norm=1.0,
)
engine.attach(optimizer)

ds = torchvision.datasets.CIFAR10("cifar", transform=torchvision.transforms.ToTensor())
loader = torch.utils.data.DataLoader(ds, batch_size=BATCH, shuffle=True)
every = VIRTUAL // BATCH
for epoch in range(20):
    for i, (x, y) in enumerate(loader):
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        if (i + 1) % every:
            optimizer.virtual_step()
        else:
            optimizer.step()
            optimizer.zero_grad()
    print(optimizer.privacy_engine.get_privacy_spent(1e-5))
