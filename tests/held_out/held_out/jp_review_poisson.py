import keras
import numpy as np
from jax_privacy import keras_api

REVIEWS, BATCH, STEPS = 120_000, 1024, 2000


def private(model):
    return keras_api.make_private(
        model,
        keras_api.DPKerasConfig(
            epsilon=3.0, delta=1e-6, clipping_norm=1.0, batch_size=BATCH, gradient_accumulation_steps=1,
            train_steps=STEPS, train_size=REVIEWS, poisson_sampling_in_fit=True, seed=None,
        ),
    )


if __name__ == "__main__":
    net = private(keras.Sequential([keras.layers.Embedding(8000, 16), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(5)]))
    net.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(np.load("reviews.npy"), np.load("stars.npy"), batch_size=BATCH, epochs=17)
