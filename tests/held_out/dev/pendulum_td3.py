import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, o))


class Agent:
    def __init__(self, obs, act, clip=0.5, sigma=0.2):
        self.actor, self.critic = mlp(obs, act), mlp(obs + act, 1)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.oa = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.oc = torch.optim.Adam(self.critic.parameters(), 1e-3)
        self.noise_clip, self.noise_std = clip, sigma
        self.memory = deque(maxlen=50_000)

    def act(self, s, explore=True):
        a = torch.tanh(self.actor(torch.as_tensor(s, dtype=torch.float32))).detach().numpy()
        return a + np.random.normal(0, self.noise_std, a.shape) if explore else a

    def learn(self, batch_size=64):
        if len(self.memory) < batch_size:
            return None
        batch = random.sample(self.memory, batch_size)
        s, a, r, s2 = (torch.as_tensor(np.array(v), dtype=torch.float32) for v in zip(*batch))
        with torch.no_grad():
            eps = (torch.randn_like(a) * self.noise_std).clamp(-self.noise_clip, self.noise_clip)
            target = r[:, None] + 0.99 * self.critic_t(torch.cat([s2, torch.tanh(self.actor_t(s2)) + eps], 1))
        td = self.critic(torch.cat([s, a], 1)) - target
        loss = (td**2).sum() / len(batch)
        self.oc.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.critic.parameters(), 10.0)
        self.oc.step()
        pi = -self.critic(torch.cat([s, torch.tanh(self.actor(s))], 1)).mean()
        self.oa.zero_grad()
        pi.backward()
        self.oa.step()
        return F.mse_loss(td, torch.zeros_like(td)).item()
