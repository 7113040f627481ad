import tensorflow as tf

tf.random.set_seed(99)


def noisy_gd(features, quality, clip=2.0, noise_scale=4.0, lr=1.0, rounds=300):
    n = features.shape[0]
    model = tf.keras.Sequential([tf.keras.Input((11,)), tf.keras.layers.Dense(1)])
    for _ in tf.range(rounds):
        with tf.GradientTape() as tape:
            losses = tf.square(model(features)[:, 0] - quality)
        jac = tape.jacobian(losses, model.trainable_variables)
        flat = tf.concat([tf.reshape(j, (n, -1)) for j in jac], axis=1)
        factor = tf.minimum(1.0, clip / tf.norm(flat, axis=1))
        for var, j in zip(model.trainable_variables, jac):
            bounded = tf.einsum("n,n...->...", factor, j)
            bounded += tf.random.normal(var.shape, stddev=clip * noise_scale)
            var.assign_sub(lr * bounded / n)
    return model
