"""Which denominator does this code use: by running it, and by reading it.

subject   what can be run: records and settings in, releases out
records   designed records, and what one release of them shows
laws      denominators as functions of N, q, b and |B|
sampling  how batches are drawn
prober    from a subject to a finding
finding   each conclusion beside the runs that it follows from; the mechanism for the accountant
subjects  Opacus releases, optimizers and engines, functions of gradients, formulas
reading   source code: the statement that divides
code_audit  every release, run and read
"""

from noisymean.probe.entry import probe
from noisymean.probe.finding import Finding
from noisymean.probe.laws import Kind

__all__ = ["Finding", "Kind", "probe"]
