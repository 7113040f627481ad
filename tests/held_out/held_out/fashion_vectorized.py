import argparse

import tensorflow as tf
from tensorflow_privacy.privacy.analysis.compute_dp_sgd_privacy_lib import compute_dp_sgd_privacy
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras_vectorized import VectorizedDPKerasAdamOptimizer as DPAdam

p = argparse.ArgumentParser()
for name, default in dict(batch=250, epochs=20, z=1.1, c=1.5, lr=1e-3).items():
    p.add_argument("--" + name, type=type(default), default=default)
o = p.parse_args()

(xtr, ytr), (xte, yte) = tf.keras.datasets.fashion_mnist.load_data()
train = tf.data.Dataset.from_tensor_slices((xtr[..., None] / 255.0, ytr)).shuffle(60_000).batch(o.batch, drop_remainder=True)
test = tf.data.Dataset.from_tensor_slices((xte[..., None] / 255.0, yte)).batch(500)

net = tf.keras.Sequential(
    [tf.keras.layers.Conv2D(16, 5, 2, activation="relu"), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)]
)
opt = DPAdam(o.c, o.z, num_microbatches=o.batch, learning_rate=o.lr)
per_example = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=tf.keras.losses.Reduction.NONE)
net.compile(opt, per_example, metrics=["accuracy"])
net.fit(train, epochs=o.epochs, validation_data=test)
print(compute_dp_sgd_privacy(len(xtr), o.batch, o.z, o.epochs, delta=1 / (1.1 * xtr.shape[0])))
