from absl import app, flags
import tensorflow as tf
from tensorflow_privacy.privacy.analysis.compute_dp_sgd_privacy_lib import compute_dp_sgd_privacy
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras import DPKerasSGDOptimizer

from clinic import rows

FLAGS = flags.FLAGS
flags.DEFINE_float("sigma", 1.0, "noise multiplier")
flags.DEFINE_float("clip", 1.0, "bound of the norm")
flags.DEFINE_integer("batch", 100, "batch size")
flags.DEFINE_integer("epochs", 20, "epochs")


def main(_):
    x, y = rows("train")
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10_000).batch(FLAGS.batch)
    net = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(1)])
    sgd = DPKerasSGDOptimizer(FLAGS.clip, FLAGS.sigma, num_microbatches=1 * FLAGS.batch, learning_rate=0.1)
    net.compile(sgd, tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction=tf.keras.losses.Reduction.NONE))
    net.fit(data, epochs=FLAGS.epochs)
    n = len(x)
    eps, order = compute_dp_sgd_privacy(n, FLAGS.batch, FLAGS.sigma, FLAGS.epochs, delta=1 / n)
    print(f"({eps:.2f}, {1 / n:.1e})-DP at order {order}")


if __name__ == "__main__":
    app.run(main)
