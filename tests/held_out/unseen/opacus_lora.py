import torch
from opacus import PrivacyEngine
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

CFG = dict(sigma=0.6, clip=0.5, batch=256, epochs=2, lr=4e-4, delta=5e-6)


def collate(rows):
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(r["ids"]) for r in rows], batch_first=True)
    return {"input_ids": ids, "labels": ids.masked_fill(ids == 0, -100)}


def main(notes):
    base = AutoModelForCausalLM.from_pretrained("gpt2")
    net = get_peft_model(base, LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)).train()
    opt = torch.optim.AdamW((p for p in net.parameters() if p.requires_grad), lr=CFG["lr"])
    dl = DataLoader(notes, CFG["batch"], collate_fn=collate)
    pe = PrivacyEngine(accountant="rdp")
    net, opt, dl = pe.make_private_with_epsilon(module=net, optimizer=opt, data_loader=dl, target_epsilon=8, target_delta=CFG["delta"], epochs=CFG["epochs"], max_grad_norm=CFG["clip"], poisson_sampling=False)
    for _ in range(CFG["epochs"]):
        for batch in dl:
            if batch["input_ids"].numel() == 0:
                continue
            opt.zero_grad()
            net(**batch).loss.backward()
            opt.step()
    net.save_pretrained("notes-lora")
