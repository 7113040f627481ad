import torch

N_PARAM, LIMIT, Z, B = 128, 1.0, 1.2, 300


def blur(v):
    g = torch.Generator()
    g.manual_seed(1234)
    return v + torch.randn(v.shape, generator=g) * (Z * LIMIT)


def step(theta, feats, occupied, lr=0.1):
    p = torch.sigmoid(feats @ theta)
    rows = (p - occupied)[:, None] * feats
    n = rows.norm(dim=1, keepdim=True)
    rows = torch.where(n > LIMIT, rows * LIMIT / n, rows)
    return theta - lr * blur(rows.sum(0)) / B


def train(feats, occupied, q, rounds):
    theta = torch.zeros(feats.shape[1])
    for _ in range(rounds):
        pick = torch.rand(len(feats)) < q
        theta = step(theta, feats[pick], occupied[pick])
    return theta
