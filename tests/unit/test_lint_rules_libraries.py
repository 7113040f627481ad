"""Calls of the other libraries: NM011 to NM014."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    "optax": """
        import optax
        tx = optax.contrib.dpsgd(learning_rate=0.1, l2_norm_clip=1.0, noise_multiplier=1.1, seed=seed)  # !NM011
        """,
    "optax, imported from contrib": """
        from optax import contrib

        def make(lr, seed):
            return contrib.dpsgd(lr, 1.0, 1.1, seed)  # !NM011
        """,
    "optax, under another name": """
        from optax.contrib import differentially_private_aggregate as dp_aggregate
        import optax
        tx = optax.chain(
            dp_aggregate(l2_norm_clip=1.0, noise_multiplier=1.1, key=key),  # !NM011
            optax.adam(1e-3),
        )
        """,
    "optax, by partial": """
        import functools
        import optax
        make = functools.partial(optax.contrib.dpsgd, l2_norm_clip=1.0, noise_multiplier=1.1, seed=args.seed)  # !NM011
        """,
    "optax without privacy": """
        import optax
        noise = 0.1
        tx = optax.chain(optax.clip_by_global_norm(1.0), optax.add_noise(0.01, 0.55, 0), optax.adam(1e-3))
        """,
    "a dpsgd of one's own": """
        import optax

        def dpsgd(params, batch):
            return privately(params, batch)

        params = dpsgd(params, batch)
        """,
    "keras": """
        import tensorflow as tf
        from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras import DPKerasSGDOptimizer
        opt = DPKerasSGDOptimizer(l2_norm_clip=1.0, noise_multiplier=0.9, num_microbatches=1, learning_rate=0.1)  # !NM012
        """,
    "keras, a class that is made": """
        import tensorflow as tf
        import tensorflow_privacy as tfp
        DPAdamW = tfp.make_keras_optimizer_class(tf.keras.optimizers.AdamW)  # !NM012
        """,
    "a model of keras": """
        from tensorflow_privacy.privacy.keras_models import dp_keras_model
        model = dp_keras_model.DPSequential(l2_norm_clip=1.0, noise_multiplier=0.5, layers=layers)  # !NM012
        """,
    "estimators": """
        from tensorflow_privacy.privacy.optimizers import dp_optimizer
        def model_fn(features, labels, mode):
            if FLAGS.dpsgd:
                optimizer = dp_optimizer.DPGradientDescentGaussianOptimizer(  # !NM012
                    l2_norm_clip=FLAGS.l2_norm_clip, noise_multiplier=FLAGS.noise_multiplier, num_microbatches=FLAGS.microbatches
                )
            else:
                optimizer = tf.compat.v1.train.GradientDescentOptimizer(FLAGS.learning_rate)
            return optimizer
        """,
    "keras without privacy": """
        import tensorflow as tf
        model.add(tf.keras.layers.GaussianNoise(0.1))
        opt = tf.keras.optimizers.Adam(clipnorm=1.0)
        """,
    "objax": """
        import objax
        gv = objax.privacy.dpsgd.PrivateGradValues(loss, model.vars(), noise_multiplier=1.3, l2_norm_clip=1.0, microbatch=1)  # !NM013
        """,
    "objax, imported": """
        import objax
        from objax.privacy.dpsgd import PrivateGradValues
        gv = PrivateGradValues(loss, model.vars(), 1.3, 1.0, 1, batch_axis=(0, 0))  # !NM013
        """,
    "objax without privacy": """
        import objax
        gv = objax.GradValues(loss, model.vars())
        noise = objax.random.normal((2,))
        """,
    "jax-privacy's keras": """
        from jax_privacy import keras_api
        params = keras_api.DPKerasConfig(epsilon=1.0, delta=1e-5, clipping_norm=1.0, batch_size=256, train_steps=100, train_size=60000)  # !NM014
        """,
    "jax-privacy's keras, switched off": """
        import jax_privacy.keras_api as kp
        params = kp.DPKerasConfig(epsilon=1.0, delta=1e-5, clipping_norm=1.0, batch_size=256, poisson_sampling_in_fit=False)  # !NM014
        """,
    "jax-privacy's keras, switched on": """
        from jax_privacy import keras_api
        params = keras_api.DPKerasConfig(epsilon=1.0, delta=1e-5, clipping_norm=1.0, batch_size=256, poisson_sampling_in_fit=True)
        """,
    "jax-privacy's keras, settings from elsewhere": """
        from jax_privacy import keras_api
        params = keras_api.DPKerasConfig(**config.privacy)
        """,
    "jax-privacy's gradients over shuffled batches": """
        import jax_privacy, optax
        grad_fn = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=1)  # !NM014
        for batch in batches:
            updates, state = optimizer.update(grad_fn(params, batch), state)
            params = optax.apply_updates(params, updates)
        """,
    "jax-privacy's gradients over Poisson batches": """
        import jax_privacy, optax
        from jax_privacy import batch_selection
        grad_fn = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=1, normalize_by=256)
        strategy = batch_selection.CyclicPoissonSampling(sampling_prob=0.01, iterations=100)
        for idx in strategy.batch_iterator(60000):
            updates, state = optimizer.update(grad_fn(params, data[idx]), state)
            params = optax.apply_updates(params, updates)
        """,
    "jax-privacy's gradients, and no training": """
        import jax_privacy
        grad_fn = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=1)
        assert grad_fn(params, data).shape == params.shape
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_libraries(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
