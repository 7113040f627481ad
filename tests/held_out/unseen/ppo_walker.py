import gymnasium as gym
import numpy as np
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, act))
        self.log_std = nn.Parameter(torch.zeros(act))

    def sample(self, obs):
        mean = self.mean(obs)
        action = mean + self.log_std.exp() * torch.randn_like(mean)
        return action.clamp(-1, 1)

    def log_prob(self, obs, action):
        z = (action - self.mean(obs)) / self.log_std.exp()
        return (-0.5 * z**2 - self.log_std).sum(-1)


def update(policy, opt, obs, act, adv, old, eps=0.2):
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for rows in torch.randperm(len(obs)).split(64):
        ratio = (policy.log_prob(obs[rows], act[rows]) - old[rows]).exp()
        loss = -torch.min(ratio * adv[rows], ratio.clamp(1 - eps, 1 + eps) * adv[rows]).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()


def rollout(env, policy, steps):
    obs, _ = env.reset(seed=1)
    out = []
    for _ in range(steps):
        action = policy.sample(torch.as_tensor(obs, dtype=torch.float32)).detach()
        nxt, reward, done, cut, _ = env.step(np.clip(action.numpy(), -1, 1))
        out.append((obs, action, reward))
        obs = env.reset()[0] if done or cut else nxt
    return out
