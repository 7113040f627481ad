"""One line for each known pitfall of training with DP: passed, found, or not checkable here, with the reason.

pitfalls   the catalogue: every pitfall, with its sentence, and what would check it
value      what a scorecard is: facts, lines, outcomes; how facts become a line
source     facts about source code, which is read and never run

Facts about an engine of Opacus are collected by `noisymean.integrations.opacus.check`.
"""

from noisymean.scorecard.pitfalls import PITFALLS, Pitfall
from noisymean.scorecard.value import Fact, Line, Outcome, Scorecard, Subject

__all__ = ["PITFALLS", "Fact", "Line", "Outcome", "Pitfall", "Scorecard", "Subject"]
