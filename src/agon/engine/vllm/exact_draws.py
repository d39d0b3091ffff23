"""Whether a version draws to the last bit what other weights draw: there, one optimizer step cannot hide in rounding.

Engine and learner round differently, in bfloat16 by more than a step changes, and it takes many tokens to see through
that (`slope.py`). An engine rounds like itself: what it draws alone, with nothing else in the batch, has the same
log-probs each time, and a change of the weights changes most of them, since each is a sum over the whole vocabulary. So
a few tokens tell which weights drew them. If a new version draws those of the version before, of the rival or of the
base, and the learner tells the two apart, then the engine has served the wrong weights.

Not every engine repeats itself: kernels may add in any order. That is tried once; such an engine is left to the slopes.
Adapters that change places as they are both replaced draw what nothing drew before, and are left to the slopes too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agon.engine.vllm.slope import flat
from agon.engine.vllm.suspects import Suspect
from agon.protocols import Learner, Stretch, Tokens
from agon.types import Policy, Version

APART = 0.5
"""The share of tokens at which the learner's log-probs must differ before an engine's are expected to."""


@dataclass(slots=True)
class ExactDraws:
    """What versions drew alone, and whether one drew what it should not have."""

    learner: Learner
    repeats: bool = True
    """Whether the engine gives the same log-probs each time."""
    _drawn: dict[Version, list[Tokens]] = field(default_factory=dict)

    def keep(self, drawn: Mapping[Version, list[Tokens]], versions: Sequence[Version]) -> None:
        """Take in what was drawn; of what is known, keep these versions only."""
        self._drawn = {version: rows for version, rows in self._drawn.items() if version in versions} | dict(drawn)

    def same(
        self, policy: Policy, version: Version, others: Mapping[Suspect, Version], before: Path | None
    ) -> Suspect | None:
        """The suspect whose draws this version repeats, though the learner tells the two apart."""
        rows = self._drawn[version]
        for suspect, other in others.items():
            if self.repeats and self._drawn.get(other) == rows and self._apart(policy, suspect, rows, before):
                return suspect
        return None

    def _apart(self, policy: Policy, suspect: Suspect, rows: Sequence[Tokens], before: Path | None) -> bool:
        """Whether the learner tells a policy from a suspect; `before` has the weights of the version before."""
        if suspect is Suspect.BEFORE:
            if before is None:
                return False
            other = self.learner.score(policy, rows, Stretch(before, 0.0))
        else:
            other = self.learner.score(policy.rival if suspect is Suspect.RIVAL else None, rows)
        return float(np.mean(flat(self.learner.score(policy, rows)) != flat(other))) > APART
