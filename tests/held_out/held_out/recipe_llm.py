import json
import sys

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

settings = json.load(open(sys.argv[1]))
lm = AutoModelForCausalLM.from_pretrained(settings["base"])
rows = torch.load(settings["tokens"])
seq = DataLoader(rows, batch_size=settings["logical"], shuffle=True, drop_last=True)
opt = torch.optim.AdamW(lm.parameters(), lr=settings["lr"])
ghost = PrivacyEngine()
lm, opt, loss_of, seq = ghost.make_private(
    module=lm,
    optimizer=opt,
    data_loader=seq,
    criterion=torch.nn.CrossEntropyLoss(),
    grad_sample_mode="ghost",
    noise_multiplier=settings["sigma"],
    max_grad_norm=settings["clip"],
    poisson_sampling=False,
)
for ids in seq:
    opt.zero_grad()
    logits = lm(ids).logits
    loss_of(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    opt.step()
print(ghost.get_epsilon(1e-7))
