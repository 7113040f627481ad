"""What a finished run tells: the denominator of its noisy means, and with it the number of records, read off its checkpoints.

Notation. A run of DP-SGD with learning rate lr, clipping bound C and noise multiplier sigma takes T steps on n parameters. What
the optimizer was handed at step t is

    g_t = (S_t + sigma C z_t) / c,          t = 1 .. T

with S_t the sum of the clipped gradients of a batch, z_t standard normal and c the denominator. The g_t follow from consecutive
weights, the variance of their noise is (sigma C / c)^2, and there are n T numbers to measure it by. What is in the way is S_t.

checkpoints  which files, in which order, and what is missing between them
stored       one file: names and shapes first, then pieces of its tensors; nothing in it is ever executed
optimizers   weights back to g_t: SGD, momentum and Nesterov exactly, all else refused
series       the g_t in blocks of columns, so that a large run is read once and never held as a whole
spectrum     slow drift and leading directions taken out; what is left is noise, and a remainder that is bounded
denominator  from there to an interval for c, and to the likelihood of any c
sizes        which N a denominator comes from
found        the answer
"""

from noisymean.finished.entry import probe_run
from noisymean.finished.found import FinishedRun

__all__ = ["FinishedRun", "probe_run"]
