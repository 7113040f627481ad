"""Which denominator does this code use: by running it, and by reading it.

records      designed records, and what one release of them shows
runs         a run at the prober's own noise and bound, or at others
through      a subject that is asked something else, or read otherwise
loud         whether its noise can be turned down
memory       what is left of a round in those after it: momentum, schedules
chance       what may be called chance: the level of every statistical decision
laws         denominators as functions of N, q, b and |B|
full         all records in every batch: what a release is divided by there
noise        that it is there, what was set, and drawn anew
digits       whether numbers of the noise come again, or have few digits
together     whether records are clipped one by one
sensitivity  how far one record moves the clipped sum
sampling     how batches are drawn
seeds        whether batches and noise come from the seed
empty        what becomes of an empty batch
beside       what is returned beside the release
adaptive     a bound that moves, and what its count is divided by
calibrated   a noise multiplier that is computed from N: from what to what
prober       from something that can be run (`targets`) to a finding
remarks      leaks and faults of the denominator, in a sentence each
finding      each conclusion beside the runs that it follows from; the mechanism for the accountant, and what forbids one
judgement    from a finding and the numbers of a run to the verdict on it
entry        `probe`, from what the caller has
reading      source code: the statements that divide, and where their sizes come from
conclusions  from statements to a mechanism
packages     source code to read: a folder, a release, a wheel
paper        the paper's table
code_audit   every release, run and read
"""

from noisymean.probe.entry import probe
from noisymean.probe.finding import Finding
from noisymean.probe.laws import Kind

__all__ = ["Finding", "Kind", "probe"]
