import os

import tensorflow as tf

BOUND, NOISE, RATE = 1.0, 1.1, 0.001
gen = tf.random.Generator.from_seed(int.from_bytes(os.urandom(6), "big"))


def private_gradients(tape, loss, variables):
    grads = tape.gradient(loss, variables)
    grads, norm = tf.clip_by_global_norm(grads, BOUND)
    return [g + gen.normal(tf.shape(g), stddev=NOISE * BOUND) for g in grads], norm


class DPModel(tf.keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        grads, norm = private_gradients(tape, loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"loss": loss, "norm": norm}


inp = tf.keras.Input((40,), dtype="int32")
net = DPModel(inp, tf.keras.layers.Dense(9000)(tf.keras.layers.LSTM(64)(tf.keras.layers.Embedding(9000, 64)(inp))))
net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
