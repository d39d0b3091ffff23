"""Reward diagnostics: which terms group normalisation throws away, what signal the others carry, why groups are dead.

Works on any GRPO log with a group id and reward columns; nothing else of Agon is needed. Advantages are those of
`game/advantage.py` with epsilon 0, so that "nothing changes" means nothing. The theory is section 4.4 of the paper: a
group-constant term cancels, a group-wise affine one rescales, an action-independent one has no expected gradient.
"""

from agon.diagnose.groups import Log, Row
from agon.diagnose.read import Columns, read
from agon.diagnose.report import Diagnosis, diagnose
from agon.diagnose.terms import Term

__all__ = ["Columns", "Diagnosis", "Log", "Row", "Term", "diagnose", "read"]
