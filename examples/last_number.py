"""A verifier of one's own, for models too small to keep to a format: the last number that was written counts.

PYTHONPATH=examples agon train configs/examples/smollm2.yaml
"""

from __future__ import annotations

import re

from agon.types import Completion, Problem


def verify(problem: Problem, completion: Completion) -> bool:
    """Whether the last number of the completion is the answer."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", completion.text)
    return bool(numbers) and float(numbers[-1]) == float(problem.answer)
