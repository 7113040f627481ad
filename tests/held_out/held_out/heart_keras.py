import numpy as np
import tensorflow as tf
import tensorflow_privacy as tfp
from sklearn.datasets import fetch_openml

frame = fetch_openml("heart-statlog", as_frame=False)
x, y = frame.data.astype("float32"), (frame.target == "present").astype("int32")
x = (x - np.array([54, 0.6, 3, 131, 249, 0.1, 1, 149, 0.3, 1, 1.5, 0.6, 4.6])) / 20

net = tfp.DPSequential(
    l2_norm_clip=1.0,
    noise_multiplier=2.0,
    num_microbatches=None,
    layers=[tf.keras.layers.Dense(16, activation="gelu"), tf.keras.layers.Dense(2)],
)
net.compile(optimizer=tf.keras.optimizers.SGD(0.2), loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
net.fit(x, y, epochs=50, batch_size=30, verbose=2)
net.save("heart")
