"""A learner over two bases: one `TRLLearner` for each policy, which moves that policy's adapter and no other.

Each holds both adapters, since a learner does; the one that is not its policy's gets no row and never moves. A step is
one optimizer step of each, A's first, both from samples that were drawn before either moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.engine.trl.learner import STATE_FOLDER, TRLLearner
from agon.errors import EngineError
from agon.protocols import Peers, Phase, Tokens, Update, alone
from agon.types import Policy, Stream


class TwoBaseLearner:
    """Implements `agon.protocols.Learner` in one process."""

    rank, processes = 0, 1

    def __init__(self, learners: Mapping[Policy, TRLLearner]) -> None:
        self.learners = learners
        if any(learner.processes > 1 for learner in learners.values()):
            raise EngineError(
                "a pair over two bases trains in one process", fix="start it without torchrun, as: agon train"
            )

    @property
    def step(self) -> int:
        """Steps that both have done."""
        return min(learner.step for learner in self.learners.values())

    @property
    def consistent(self) -> bool:
        """Whether both have done the same steps, whole."""
        steps = {learner.step for learner in self.learners.values()}
        return len(steps) == 1 and all(learner.consistent for learner in self.learners.values())

    def update(self, streams: Sequence[Stream], phase: Phase = alone) -> Update:
        """One step of each. Only A's can be interrupted: once A has moved, B's is finished too, so that a run that is
        stopped can be saved."""
        step, metrics = self.step, dict[Policy, Mapping[str, float]]()
        for policy, learner in self.learners.items():
            own = [stream for stream in streams if stream.policy is policy]
            metrics |= learner.update(own, phase if policy is Policy.A else alone).metrics
        return Update(step, metrics)

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        for learner in self.learners.values():
            learner.rehearse(prompt_tokens, completion_tokens)

    def export(self, policy: Policy, folder: Path) -> str:
        return self.learners[policy].export(policy, folder)

    def hash(self, policy: Policy) -> str:
        return self.learners[policy].hash(policy)

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs under a policy's weights; there is no one bare base to score."""
        if policy is None:
            raise EngineError("A and B have different bases", fix="score the base of one policy with its own learner")
        return self.learners[policy].score(policy, rows)

    def save(self, folder: Path) -> None:
        """Write each policy's adapter from its own base, and one `trainer_state/` folder with a part for each."""
        for policy, learner in self.learners.items():
            learner.export(policy, folder / policy.value)
            learner.save_state(folder / STATE_FOLDER / policy.value)

    def load(self, folder: Path) -> None:
        for policy, learner in self.learners.items():
            learner.pair.load(policy, folder / policy.value)
            learner.load_state(folder / STATE_FOLDER / policy.value)

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def store(self) -> None:
        """One process meets nobody."""

    def join(self, peers: Peers) -> None:
        """There are none."""

    def memory(self) -> Mapping[str, int]:
        """Peak bytes: both are in one process, and on one device."""
        return self.learners[Policy.A].memory()
