"""Reward diagnostics: which terms group normalisation cancels, what signal the others carry, why groups are dead.

Works on any GRPO log with a group id and reward columns; nothing else of Agon is needed. Advantages are those of
`game/advantage.py` with epsilon 0, so that "no change" is exact. The theory is section 4.4 of the paper: a
group-constant term cancels, a group-wise affine one rescales, an action-independent one has no expected gradient.
"""

from agon.diagnose.diagnosis import Diagnosis, diagnose
from agon.diagnose.groups import GroupLog, RewardRow
from agon.diagnose.read import Columns, read
from agon.diagnose.terms import Term

__all__ = ["Columns", "Diagnosis", "GroupLog", "RewardRow", "Term", "diagnose", "read"]
