import keras
from jax_privacy import keras_api

BATCH = 512
SETTINGS = keras_api.DPKerasConfig(
    epsilon=2.0,
    delta=1e-6,
    clipping_norm=1.0,
    batch_size=BATCH,
    train_steps=3_000,
    train_size=100_000,
    gradient_accumulation_steps=1,
    seed=None,
    poisson_sampling_in_fit=True,
)


def train(x, y):
    net = keras.Sequential([keras.layers.Dense(128, activation="relu"), keras.layers.Dense(5)])
    net = keras_api.make_private(net, SETTINGS)
    net.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(x, y, batch_size=BATCH, epochs=15)
    return net
