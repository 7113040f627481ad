import torch
import torch.nn.functional as F
from datasets import load_from_disk
from opacus import PrivacyEngine
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, default_data_collator

EPOCHS, LR, NOISE, CLIP, DELTA = 3, 5e-4, 0.6, 0.1, 1e-6


def build():
    tok = AutoTokenizer.from_pretrained("prajjwal1/bert-tiny")
    notes = load_from_disk("notes")["train"].map(lambda r: tok(r["text"], truncation=True, padding="max_length", max_length=128))
    notes.set_format("torch", columns=["input_ids", "attention_mask", "label"])
    batch_size = max(32, len(notes) // 50)
    return DataLoader(
        notes,
        batch_size=batch_size,
        drop_last=True,
        shuffle=True,
        collate_fn=default_data_collator,
    )


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForSequenceClassification.from_pretrained("prajjwal1/bert-tiny", num_labels=50).to(device)
    for p in model.bert.embeddings.parameters():
        p.requires_grad = False
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=LR)
    engine = PrivacyEngine()
    loader = build()
    model.train()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )
    for epoch in range(EPOCHS):
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            F.cross_entropy(out.logits, batch["labels"]).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"{epoch}: {engine.get_epsilon(DELTA):.2f}")


main()
