import tensorflow as tf
import tensorflow_privacy as tfp

BATCH = 256
(x, y), held = tf.keras.datasets.fashion_mnist.load_data()
x = x[..., None].astype("float32") / 255.0

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(16, 8, strides=2, padding="same", activation="relu", input_shape=(28, 28, 1)),
        tf.keras.layers.MaxPool2D(2, 1),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=tfp.VectorizedDPKerasAdamOptimizer(
        l2_norm_clip=1.0, noise_multiplier=0.8, num_microbatches=BATCH, learning_rate=1e-3
    ),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
    metrics=["accuracy"],
)
model.fit(x[:59_904], y[:59_904], batch_size=BATCH, epochs=15)
print(model.evaluate(held[0][..., None] / 255.0, held[1]))
