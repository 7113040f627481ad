import dp_accounting
import numpy as np
from dp_accounting import rdp
from numpy.random import default_rng

CLIP, LR = 1.0, 0.4


def make_event(rate, steps):
    def of(sigma):
        return dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma)), steps)

    return of


def prepare(fields, batch, epochs, epsilon):
    count = fields.shape[0]
    rate, steps = batch / count, int(epochs * count / batch)
    delta = count ** -1.1
    sigma = dp_accounting.calibrate_dp_mechanism(rdp.RdpAccountant, make_event(rate, steps), epsilon, delta)
    return rate, steps, sigma


def learn(fields, tonnes, batch=300, epochs=8, epsilon=1.0):
    rate, steps, sigma = prepare(fields, batch, epochs, epsilon)
    coin, bell = default_rng(), default_rng()
    w = np.zeros(fields.shape[1])
    for _ in range(steps):
        sel = np.flatnonzero(coin.random(len(fields)) < rate)
        r = (fields[sel] @ w - tonnes[sel])[:, None] * fields[sel]
        lengths = np.sqrt((r * r).sum(-1, keepdims=True))
        r = np.where(lengths > CLIP, CLIP * r / lengths, r)
        w = w - LR * (np.add.reduce(r) + bell.standard_normal(w.size) * CLIP * sigma) / batch
    return w
