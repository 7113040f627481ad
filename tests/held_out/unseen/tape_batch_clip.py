import tensorflow as tf


class PrivateModel(tf.keras.Model):
    def __init__(self, inner, clip=1.0, sigma=0.6):
        super().__init__()
        self.inner, self.clip, self.sigma = inner, clip, sigma

    def call(self, x, training=False):
        return self.inner(x, training=training)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
        grads = tape.gradient(loss, self.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, self.clip)
        grads = [g + tf.random.normal(tf.shape(g), stddev=self.sigma * self.clip) for g in grads]
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.compiled_metrics.update_state(y, self(x))
        return {m.name: m.result() for m in self.metrics}


def run(inner, data):
    model = PrivateModel(inner)
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    model.fit(data, epochs=5)
    return model
