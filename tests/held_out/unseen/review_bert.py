import torch
from datasets import load_dataset
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

NAME = "prajjwal1/bert-tiny"
tok = AutoTokenizer.from_pretrained(NAME)
net = AutoModelForSequenceClassification.from_pretrained(NAME, num_labels=2)
for p in net.bert.embeddings.parameters():
    p.requires_grad_(False)

raw = load_dataset("imdb", split="train")
enc = raw.map(lambda r: tok(r["text"], truncation=True, max_length=128), batched=True, remove_columns=["text"])
enc = enc.rename_column("label", "labels")
train_dl = DataLoader(enc, batch_size=1024, shuffle=True, drop_last=True, collate_fn=DataCollatorWithPadding(tok))

net.train()
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=5e-4)
pe = PrivacyEngine(secure_mode=False)
net, opt, train_dl = pe.make_private(module=net, optimizer=opt, data_loader=train_dl, noise_multiplier=0.9, max_grad_norm=0.1)

for epoch in range(3):
    with BatchMemoryManager(data_loader=train_dl, max_physical_batch_size=32, optimizer=opt) as dl:
        for batch in dl:
            opt.zero_grad()
            net(**batch).loss.backward()
            opt.step()
    print(epoch, pe.get_epsilon(1e-5))
