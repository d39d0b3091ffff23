"""Which problems can teach a base something: those that it solves sometimes, and neither never nor always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agon.bridge import Runner
from agon.config import Config, Init
from agon.engine.shipped import init_folders
from agon.eval.draw import Evaluator
from agon.eval.engines import local
from agon.eval.target import Target
from agon.interrupt import Interrupt, Interrupted
from agon.protocols import Sampler
from agon.rundir.files import weights_hash
from agon.types import BASE, Bout, Policy, Problem, Sampling, Version
from agon.verify import load_verifier

Progress = Callable[[int, int], None]
BATCH = 32
"""Problems drawn at a time: between two batches the progress is shown."""


@dataclass(frozen=True, slots=True)
class ProbedProblem:
    """A problem, and how often the base solves it as training would draw it."""

    problem: Problem
    right: int
    of: int
    """Answers with a verdict."""

    @property
    def teaches(self) -> bool:
        """Whether some answers are right and some are wrong: a group of drafts can be live."""
        return 0 < self.right < self.of

    def live(self, group_size: int) -> float:
        """How likely a group of drafts is to have two different outcomes, at the rate measured here."""
        rate = self.right / self.of if self.of else 0.0
        return 1 - rate**group_size - (1 - rate) ** group_size


@dataclass(frozen=True, slots=True)
class BaseRates:
    """What a base makes of some problems."""

    problems: Sequence[ProbedProblem]
    samples: int
    group_size: int
    well_formed: float
    truncated: float
    kept: list[Problem] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", [one.problem for one in self.problems if one.teaches])

    @property
    def never(self) -> int:
        return sum(one.of > 0 and one.right == 0 for one in self.problems)

    @property
    def unknown(self) -> int:
        """Problems of which no answer has a verdict."""
        return sum(one.of == 0 for one in self.problems)

    @property
    def always(self) -> int:
        return sum(one.of > 0 and one.right == one.of for one in self.problems)

    @property
    def live_groups(self) -> float:
        """The share of groups of drafts that would be live in the first step."""
        return sum(one.live(self.group_size) for one in self.problems) / len(self.problems)


def probe(config: Config, problems: Sequence[Problem], samples: int, progress: Progress) -> BaseRates:
    """Draw `samples` answers to every problem, under the prompt and decoding of training, of A as it starts: the bare
    base, or the adapter that `model.init.a` names."""
    target = Target(config.model.name, config, Path("evals"))
    train, drawn = config.train, list[Bout]()
    sampler = local(target, 1)
    start = _first_version(config.model.init, sampler)
    try:
        with (
            load_verifier(config.verifier, sandbox=config.sandbox.settings(), right=config.reward.right) as verify,
            Runner() as runner,
            Interrupt() as interrupt,
        ):
            sampling = Sampling(train.temperature, 1.0, train.max_completion_tokens)
            evaluator = Evaluator(sampler, verify, sampling, train.max_peek_tokens, train.seed)
            for first in range(0, len(problems), BATCH):
                progress(first, len(problems))
                work = evaluator.bouts(problems[first : first + BATCH], {start: start}, samples)
                drawn += runner.run(interrupt.watching(work))[start]
    except Interrupted:
        raise KeyboardInterrupt("stopped: nothing was written") from None
    finally:
        sampler.close()
    progress(len(problems), len(problems))
    return count(problems, drawn, samples, config.game.group_size)


def _first_version(init: Init, sampler: Sampler) -> Version:
    """What A starts from; an adapter at zero, or with B's small noise, is the base."""
    folder = init_folders(init).get(Policy.A)
    if folder is None:
        return BASE
    version = Version.of(Policy.A, 0, (weights_hash(folder) or "")[:8])
    sampler.publish(version, folder)
    return version


def count(problems: Sequence[Problem], bouts: Sequence[Bout], samples: int, group_size: int) -> BaseRates:
    """What the drafts of these bouts say about each problem."""
    outcomes: dict[str, list[bool]] = {problem.id: [] for problem in problems}
    for bout in bouts:
        if bout.draft.verdict.graded:
            outcomes[bout.problem.id].append(bout.draft.verdict.correct)
    probed = [ProbedProblem(one, sum(outcomes[one.id]), len(outcomes[one.id])) for one in problems]
    drafts = [bout.draft for bout in bouts]
    formed = sum(draft.verdict.well_formed for draft in drafts) / max(1, len(drafts))
    cut = sum(draft.completion.finish == "length" for draft in drafts) / max(1, len(drafts))
    return BaseRates(probed, samples, group_size, formed, cut)
