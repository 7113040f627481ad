import keras
import numpy as np
from jax_privacy import keras_api


def main():
    x, y = np.load("x.npy"), np.load("y.npy")
    net = keras.Sequential([keras.layers.Dense(128, activation="relu"), keras.layers.Dense(5)])
    settings = keras_api.DPKerasConfig(
        epsilon=2.0, delta=1e-6, clipping_norm=1.0, batch_size=512, train_steps=3_000, train_size=100_000,
        gradient_accumulation_steps=1, seed=None,
    )
    net = keras_api.make_private(net, settings)
    net.compile(optimizer=keras.optimizers.Adam(1e-3), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(x, y, batch_size=512, epochs=15)
    net.save("private.keras")


main()
