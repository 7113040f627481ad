import numpy as np
import tensorflow as tf
from tensorflow_privacy.privacy.keras_models.dp_keras_model import DPSequential


def build(features, sigma, clip):
    return DPSequential(
        l2_norm_clip=clip,
        noise_multiplier=sigma,
        layers=[tf.keras.layers.InputLayer(input_shape=(features,)), tf.keras.layers.Dense(1, activation="sigmoid")],
    )


def run(path):
    table = np.load(path)
    x, y = table["x"].astype(np.float32), table["y"]
    batch = x.shape[0] // 40
    model = build(x.shape[1], 1.3, 1.0)
    model.compile(optimizer=tf.keras.optimizers.SGD(0.5), loss=tf.keras.losses.BinaryCrossentropy())
    model.fit(x, y, epochs=10, batch_size=batch)
    return model
