import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader


def go(train_set, model, device="cuda"):
    train_dl = DataLoader(train_set, batch_size=512, shuffle=True, num_workers=2)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    engine = PrivacyEngine()
    p_model, p_opt, p_criterion, p_dl = engine.make_private(
        module=model,
        optimizer=opt,
        criterion=criterion,
        data_loader=train_dl,
        noise_multiplier=0.8,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    p_model.to(device).train()
    for epoch in range(10):
        running = 0.0
        for step, (pixels, tokens) in enumerate(train_dl):
            p_opt.zero_grad()
            logits = p_model(pixels.to(device))
            loss = p_criterion(logits.flatten(0, 1), tokens.to(device).flatten())
            loss.backward()
            p_opt.step()
            running += loss.item()
        print(f"{epoch}: {running / (step + 1):.3f}, eps={engine.get_epsilon(1e-5):.2f}")
    return p_model
