import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
from tensorflow_privacy.privacy.analysis import compute_dp_sgd_privacy_lib
from tensorflow_privacy.privacy.optimizers import dp_optimizer_keras

MAX_FEATURES, MAXLEN, BATCH = 10000, 256, 512


def data():
    (xtr, ytr), (xte, yte) = tf.keras.datasets.imdb.load_data(num_words=MAX_FEATURES)
    pad = tf.keras.preprocessing.sequence.pad_sequences
    return (pad(xtr, MAXLEN), ytr), (pad(xte, MAXLEN), yte)


def build():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(MAX_FEATURES, 16),
            tf.keras.layers.GlobalAveragePooling1D(),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(1),
        ]
    )


def main(sigma=0.56, clip=1.0, epochs=25):
    (xtr, ytr), (xte, yte) = data()
    n = len(xtr)
    model = build()
    opt = dp_optimizer_keras.DPKerasAdamOptimizer(
        l2_norm_clip=clip, noise_multiplier=sigma, num_microbatches=BATCH, learning_rate=0.02
    )
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction=tf.losses.Reduction.NONE)
    model.compile(optimizer=opt, loss=loss, metrics=["accuracy"])
    model.fit(xtr[: n - n % BATCH], ytr[: n - n % BATCH], epochs=epochs, batch_size=BATCH, validation_data=(xte, yte))
    eps, _ = compute_dp_sgd_privacy_lib.compute_dp_sgd_privacy(
        n=n, batch_size=BATCH, noise_multiplier=sigma, epochs=epochs, delta=1.0 / n**1.1
    )
    print("eps", eps)


if __name__ == "__main__":
    main()
