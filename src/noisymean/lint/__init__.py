"""Rules for code that trains with DP: read, never run.

findings    what a rule is, what it finds, what was not read
catalogue   every rule, with its sentence and its remedy
tree        which files are read: whole trees, with limits
text        a file or a notebook as parsed source, with its lines
script      one parsed file: what names stand for, numbers that are written down, what stands around a node
walked      what a step does to its arrays, statement by statement
rules       what recognises each rule
silence     comments that silence a rule on a line
linter      all of it, over a tree
pages       what the documentation says of each rule
"""

from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Finding, Idle, Ignored, Linted, NotRead, Place, Rule, Severity

__all__ = ["RULES", "Finding", "Idle", "Ignored", "Linted", "NotRead", "Place", "Rule", "Severity"]
