"""The field beside Opacus, and Opacus in all its modes: each library run, and what it divides by set beside what it claims.

question     the one run that every accounting is asked about
subjects     what is run: a way of a library, a mode of Opacus; and what cannot be
sources      a statement in an installed source, found again by its text
claims       what a library's own accounting says, of which batches, for which neighbours, and where it says so
denominators what a release is divided by, from runs of our own, apart from everything else that a probe asks
cohorts      how batches are drawn that are no Poisson batches: of one size, in order, with repeats
rows         what is known of one subject: a row
verdicts     from what was found to the words of a row: is it exposed, and what is really lost
running      the rows in turn; those that are finished are kept
"""

from noisymean.field.rows import Exposed, Row
from noisymean.field.running import run_field
from noisymean.field.subjects import SUBJECTS, Subject, chosen

__all__ = ["SUBJECTS", "Exposed", "Row", "Subject", "chosen", "run_field"]
