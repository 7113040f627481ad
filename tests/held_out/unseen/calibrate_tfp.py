import tensorflow as tf
from dp_accounting import dp_event, mechanism_calibration
from dp_accounting.rdp import RdpAccountant
import tensorflow_privacy as tfp


class Job:
    def __init__(self, x, y, batch=500, epochs=10):
        self.x, self.y, self.batch, self.epochs = x, y, batch, epochs

    @property
    def steps(self):
        return self.epochs * self.x.shape[0] // self.batch

    def sigma(self, eps=3.0, delta=1e-6):
        q = self.batch / self.x.shape[0]

        def event(s):
            return dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(s)), self.steps)

        return mechanism_calibration.calibrate_dp_mechanism(RdpAccountant, event, eps, delta)

    def run(self, net):
        opt = tfp.DPKerasAdagradOptimizer(l2_norm_clip=1.0, noise_multiplier=self.sigma(), num_microbatches=self.batch, learning_rate=0.05)
        net.compile(opt, loss=tf.keras.losses.BinaryCrossentropy(reduction="none"))
        net.fit(self.x, self.y, batch_size=self.batch, epochs=self.epochs)
        return net
