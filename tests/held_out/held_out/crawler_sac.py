import copy
from collections import deque
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, o))


class Agent:
    def __init__(self, obs, act, seed=5):
        torch.manual_seed(seed)
        self.pi, self.q = mlp(obs, act), mlp(obs + act, 1)
        self.q_slow = copy.deepcopy(self.q)
        self.opt = torch.optim.Adam([*self.pi.parameters(), *self.q.parameters()], 3e-4)
        self.smooth, self.noise_clip, self.max_norm = 0.2, 0.5, 10.0

    def act(self, o, explore=0.1):
        a = self.pi(torch.as_tensor(o, dtype=torch.float32)).tanh().detach().numpy()
        return np.clip(a + np.random.normal(0, explore, a.shape), -1, 1)

    def learn(self, batch, gamma=0.99):
        o, a, r, o2, d = batch
        with torch.no_grad():
            noise = (torch.randn_like(a) * self.smooth).clamp(-self.noise_clip, self.noise_clip)
            a2 = (self.pi(o2).tanh() + noise).clamp(-1, 1)
            y = r + gamma * (1 - d) * self.q_slow(torch.cat([o2, a2], 1)).squeeze(1)
        lq = F.mse_loss(self.q(torch.cat([o, a], 1)).squeeze(1), y)
        lp = -self.q(torch.cat([o, self.pi(o).tanh()], 1)).sum() / len(o)
        self.opt.zero_grad()
        (lq + lp).backward()
        nn.utils.clip_grad_norm_(self.pi.parameters(), self.max_norm)
        self.opt.step()


if __name__ == "__main__":
    env, memory = gym.make("Ant-v4"), deque(maxlen=10**6)
    agent = Agent(env.observation_space.shape[0], env.action_space.shape[0])
    o, _ = env.reset(seed=5)
    for t in range(10**6):
        a = agent.act(o)
        o2, r, end, cut, _ = env.step(a)
        memory.append((o, a, r, o2, float(end)))
        o = env.reset()[0] if end or cut else o2
        if t > 10_000:
            agent.learn([torch.as_tensor(np.array(c), dtype=torch.float32) for c in zip(*random.sample(memory, 256))])
