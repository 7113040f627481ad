import secrets

import tensorflow as tf

PUBLIC = dict(rate=0.02, expected=300, clip=1.0, z=0.8, steps=1200, lr=0.1)


class Solar(tf.Module):
    def __init__(self, width):
        self.w = tf.Variable(tf.zeros((width,)))
        self.b = tf.Variable(0.0)

    def __call__(self, x):
        return tf.linalg.matvec(x, self.w) + self.b


def noisy(model, x, y, dice):
    with tf.GradientTape() as tape:
        err = tf.math.squared_difference(model(x), y)
    jw, jb = tape.jacobian(err, [model.w, model.b], experimental_use_pfor=True)
    norm = tf.sqrt(tf.reduce_sum(jw**2, 1) + jb**2)
    f = tf.math.divide_no_nan(tf.minimum(norm, PUBLIC["clip"]), norm)
    sums = tf.linalg.matvec(jw, f, transpose_a=True), tf.tensordot(f, jb, 1)
    return [(s + dice.normal(s.shape, stddev=PUBLIC["z"] * PUBLIC["clip"])) / PUBLIC["expected"] for s in sums]


def fit(x, y):
    dice = tf.random.Generator.from_seed(secrets.randbits(62))
    model = Solar(x.shape[1])
    for _ in range(PUBLIC["steps"]):
        who = tf.where(dice.uniform((x.shape[0],)) < PUBLIC["rate"])[:, 0]
        gw, gb = noisy(model, tf.gather(x, who), tf.gather(y, who), dice)
        model.w.assign_sub(PUBLIC["lr"] * gw)
        model.b.assign_sub(PUBLIC["lr"] * gb)
    return model
