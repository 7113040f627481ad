import tensorflow.compat.v1 as tf
from tensorflow_privacy.privacy.optimizers import dp_optimizer

tf.disable_v2_behavior()


def model_fn(features, labels, mode, params):
    hidden = tf.layers.dense(features["x"], 50, activation=tf.nn.relu)
    logits = tf.layers.dense(hidden, 10)
    vector = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    scalar = tf.reduce_mean(vector)
    if mode == tf.estimator.ModeKeys.TRAIN:
        if params["private"]:
            opt = dp_optimizer.DPGradientDescentGaussianOptimizer(
                l2_norm_clip=params["clip"],
                noise_multiplier=params["sigma"],
                num_microbatches=params["micro"],
                learning_rate=params["lr"],
            )
            op = opt.minimize(loss=vector, global_step=tf.train.get_global_step())
        else:
            op = tf.train.GradientDescentOptimizer(params["lr"]).minimize(scalar, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=scalar, train_op=op)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, axis=1))}
    return tf.estimator.EstimatorSpec(mode, loss=scalar, eval_metric_ops=metrics)
