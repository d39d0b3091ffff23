"""The worlds of the tabletop experiments: what each base was taught, and the problems it is asked.

neutral        soft mistakes that A and B share: the base `agon:tiny`
relay          chains longer than a pass; a reader rarely continues from a recap
halves         firm mistakes, dealt out between A and B: sampling does not find the right value, the rival has it
soft-halves    the same with mistakes that sampling sometimes leaves, so that most groups have mixed drafts

In these four a reader adopts only right values, so a wrong draft never misleads. In READERS it does:

gullible       A and B copy what a recap shows, right or wrong, four times in five
repair         A and B copy a whole recap nine times in ten, and otherwise work again: one token says which
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agon.data.tabletop.halves import beliefs_of
from agon.data.tabletop.lessons import Beliefs, GullibleMixture, LessonMixture, Teacher
from agon.data.tabletop.relay import RelayMixture, RelayTeacher
from agon.data.tabletop.repair import RepairMixture, RepairTeacher
from agon.types import Policy


@dataclass(frozen=True)
class World:
    """A base and its problems."""

    base: str
    """Folder of the base among the assets of the package."""
    family: str
    difficulty: int
    mixture: LessonMixture
    seed: int = 0
    """Weights, lessons and misconceptions."""
    steps: int = 700
    """Of pretraining."""
    taught: int = 0
    """Steps of the lessons that A and B have apart; 0 for none."""

    def teacher(self) -> Teacher:
        """Who teaches the base."""
        if isinstance(self.mixture, RelayMixture):
            return RelayTeacher(self.seed, self.mixture)
        return Teacher(self.seed, self.mixture)

    def teacher_of(self, policy: Policy) -> Teacher:
        """Who teaches a policy what the base does not know."""
        return Teacher(self.seed, self.mixture, beliefs_of(policy, Beliefs(self.seed, self.mixture)))


FIRM = LessonMixture(misconceived=0.38, least=0.0001, most=0.0003, checked=0.0)
SOFT = LessonMixture(misconceived=0.8, least=0.3, most=0.6, checked=0.0)

WORLDS: Mapping[str, World] = {
    "neutral": World("tiny", "chain", 5, LessonMixture()),
    "relay": World("relay", "relay", 8, RelayMixture(), steps=900),
    "halves": World("halves", "chain", 5, FIRM, steps=500, taught=150),
    "soft-halves": World("soft-halves", "chain", 5, SOFT, steps=500, taught=150),
}
"""The worlds of docs/results/tabletop-plan.md."""


@dataclass(frozen=True)
class Readers:
    """The base and problems of neutral, with adapters for A and B that were taught how to read a recap."""

    mixture: LessonMixture
    seed: int = 5
    """Of A's lessons; B's is one more."""
    taught: int = 100
    """Steps of the lessons."""

    def teacher_of(self, policy: Policy) -> Teacher:
        """Who teaches a policy to read; what it believes stays what the base believes."""
        neutral = WORLDS["neutral"]
        own = Beliefs(neutral.seed, neutral.mixture)
        seed = self.seed + list(Policy).index(policy)
        if isinstance(self.mixture, RepairMixture):
            return RepairTeacher(seed, self.mixture, own)
        return Teacher(seed, self.mixture, own)


READERS: Mapping[str, Readers] = {
    "gullible": Readers(GullibleMixture()),
    "repair": Readers(RepairMixture(), taught=800),
}
"""The worlds of docs/results/competition-plan.md."""
