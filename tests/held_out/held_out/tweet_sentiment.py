# opacus 0.13
import torch
import torch.nn as nn
import torch.optim as optim
from opacus import PrivacyEngine
from torchtext.legacy import data

TEXT, LABEL = data.Field(lower=True, batch_first=True), data.LabelField()
train, valid = data.TabularDataset.splits(path=".", train="tr.tsv", validation="va.tsv", format="tsv", fields=[("t", TEXT), ("y", LABEL)])
TEXT.build_vocab(train, max_size=9000)
LABEL.build_vocab(train)
it, vit = data.BucketIterator.splits((train, valid), batch_size=100, sort_key=lambda e: len(e.t))
net = nn.Sequential(nn.EmbeddingBag(len(TEXT.vocab), 20), nn.Linear(20, 3))
opt = optim.Adam(net.parameters())
privacy = PrivacyEngine(net, sample_rate=100 / len(train), alphas=[1 + k / 10 for k in range(1, 100)], noise_multiplier=1.1, max_grad_norm=1.0)
privacy.attach(opt)
for ep in range(5):
    for b in it:
        opt.zero_grad()
        nn.functional.cross_entropy(net(b.t), b.y).backward()
        opt.step()
    eps, alpha = privacy.get_privacy_spent(1 / len(train))
    print(ep, eps, alpha)
