import secrets

import numpy as np
import tensorflow as tf

BATCH, CLIP, Z, LR = 256, 1.0, 1.1, 0.05
rng = tf.random.Generator.from_seed(secrets.randbits(63))


class Rain(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.a = tf.keras.layers.Dense(32, activation="relu")
        self.b = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.b(self.a(x))[..., 0]


@tf.function
def per_record(net, x, y):
    def one(pair):
        xi, yi = pair
        with tf.GradientTape() as tape:
            miss = tf.square(net(xi[None])[0] - yi)
        g = tape.gradient(miss, net.trainable_variables)
        clipped, _ = tf.clip_by_global_norm(g, CLIP)
        return clipped

    return tf.vectorized_map(one, (x, y))


def advance(net, x, y):
    for v, g in zip(net.trainable_variables, per_record(net, x, y)):
        mean = tf.reduce_sum(g, axis=0) / BATCH
        mean += rng.normal(v.shape, stddev=Z * CLIP)
        v.assign_sub(LR * mean)


def fit(x, y, steps=2000, q=0.01):
    net = Rain()
    net(x[:1])
    for _ in range(steps):
        keep = np.random.rand(len(x)) < q
        advance(net, tf.constant(x[keep]), tf.constant(y[keep]))
    return net
