import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
import objax
from jax_privacy import keras_api
from objax.privacy import dpsgd


def keras_run(x, y, epochs=3):
    size = len(x)
    cfg = keras_api.DPKerasConfig(
        epsilon=1.0,
        delta=1e-6,
        clipping_norm=1.0,
        batch_size=size // 100,
        train_steps=epochs * 100,
        train_size=size,
        gradient_accumulation_steps=1,
    )
    net = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(2)])
    net = keras_api.make_private(net, cfg)
    net.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), optimizer="adam")
    net.fit(x, y, epochs=epochs, batch_size=size // 100)
    return net


def objax_run(x, y, sigma=1.0, epochs=3, batch=100):
    model = objax.nn.Sequential([objax.nn.Linear(x.shape[1], 32), objax.functional.relu, objax.nn.Linear(32, 2)])
    opt = objax.optimizer.Momentum(model.vars())

    def loss(a, b):
        return objax.functional.loss.cross_entropy_logits_sparse(model(a), b).mean()

    gv = dpsgd.PrivateGradValues(loss, model.vars(), sigma, 1.0, microbatch=1, batch_axis=(0, 0))

    @objax.Function.with_vars(model.vars() + gv.vars() + opt.vars())
    def step(a, b):
        g, v = gv(a, b)
        opt(0.01, g)
        return v

    step = objax.Jit(step)
    for _ in range(epochs):
        p = np.random.permutation(len(x))
        for i in range(0, len(x) - batch + 1, batch):
            step(x[p[i : i + batch]], y[p[i : i + batch]])
    return model
