import tensorflow as tf

LOT = 256.0


@tf.function
def step(net, opt, x, y, clip, sigma):
    with tf.GradientTape() as tape:
        losses = tf.keras.losses.sparse_categorical_crossentropy(y, net(x), from_logits=True)
    rows = tape.jacobian(losses, net.trainable_variables)
    flat = tf.concat([tf.reshape(r, [tf.shape(r)[0], -1]) for r in rows], axis=1)
    weight = tf.minimum(1.0, clip / tf.maximum(tf.norm(flat, axis=1), 1e-9))
    updates = []
    for r in rows:
        total = tf.tensordot(weight, r, axes=1)
        total += tf.random.normal(tf.shape(total), stddev=clip * sigma)
        updates.append(total / tf.cast(tf.shape(x)[0], tf.float32))
    opt.apply_gradients(zip(updates, net.trainable_variables))


def fit(net, x, y, rate, steps, clip=1.0, sigma=1.1):
    opt = tf.keras.optimizers.SGD(0.5)
    for _ in range(steps):
        rows = tf.squeeze(tf.where(tf.random.uniform([x.shape[0]]) < rate), 1)
        step(net, opt, tf.gather(x, rows), tf.gather(y, rows), clip, sigma)
