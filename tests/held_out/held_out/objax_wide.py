import random
import sys

import jax.numpy as jn
import numpy as np
import objax
from objax.zoo.wide_resnet import WideResNet

flags = dict(a.lstrip("-").split("=") for a in sys.argv[1:])
SIGMA, CLIP = float(flags.get("sigma", 1.0)), float(flags.get("clip", 1.0))
images, labels = np.load("svhn_x.npy"), np.load("svhn_y.npy")
model = WideResNet(3, 10, depth=16, width=2)
opt = objax.optimizer.Momentum(model.vars())
objax.random.DEFAULT_GENERATOR.seed(random.SystemRandom().getrandbits(31))


def loss(x, y):
    return objax.functional.loss.cross_entropy_logits_sparse(model(x, training=True), y).mean()


dp_gv = objax.privacy.dpsgd.PrivateGradValues(loss, model.vars(), SIGMA, CLIP, microbatch=1)


@objax.Function.with_vars(model.vars() + opt.vars() + dp_gv.vars())
def step(x, y, lr):
    g, v = dp_gv(x, y)
    opt(lr, g)
    return v


step = objax.Jit(step)
for i in range(4000):
    take = np.random.random(len(images)) < 0.004
    step(jn.asarray(images[take]), jn.asarray(labels[take]), 0.1)
