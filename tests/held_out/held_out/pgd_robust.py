import torch
import torch.nn.functional as F


def attack(net, x, y, eps=8 / 255, alpha=2 / 255, steps=10):
    delta = torch.empty_like(x).uniform_(-eps, eps)
    for _ in range(steps):
        delta.requires_grad_(True)
        g, = torch.autograd.grad(F.cross_entropy(net(x + delta), y), delta)
        g = g / g.flatten(1).norm(dim=1).clamp(min=1e-12).view(-1, 1, 1, 1)
        delta = (delta.detach() + alpha * g.sign()).clamp(-eps, eps)
    return (x + delta).clamp(0, 1)


def smoothed(net, x, sigma=0.25, n=100):
    votes = sum(F.one_hot(net(x + sigma * torch.randn_like(x)).argmax(1), 10) for _ in range(n))
    return votes.float() / n


def adversarial_epoch(net, opt, loader, limit=1.0):
    seen = loss_sum = 0
    for x, y in loader:
        opt.zero_grad()
        loss = F.cross_entropy(net(attack(net, x, y)), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
        opt.step()
        seen += x.size(0)
        loss_sum += loss.item() * x.size(0)
    return loss_sum / seen
