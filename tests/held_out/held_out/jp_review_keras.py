import keras
import numpy as np
from jax_privacy import keras_api

reviews, stars = np.load("reviews.npy"), np.load("stars.npy")

model = keras.Sequential([keras.layers.Embedding(8000, 16), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(5)])
cfg = keras_api.DPKerasConfig(
    epsilon=3.0,
    delta=1e-6,
    clipping_norm=1.0,
    batch_size=1024,
    gradient_accumulation_steps=1,
    train_steps=2000,
    train_size=120_000,
    seed=None,
)
model = keras_api.make_private(model, cfg)
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(reviews, stars, batch_size=1024, epochs=17)
