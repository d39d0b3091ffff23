"""The whole method on one page: play, learn, publish, with real engines on the base that ships with Agon.

    python examples/minimal_loop.py

`agon.train` does the same, and logs, evaluates, checks the engine, saves and resumes.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from agon import Policy, Version, load_config, load_verifier, play
from agon.data import splits
from agon.engine.base import base_files
from agon.engine.hf.sampler import HFSampler
from agon.engine.learner.learner import PairLearner

STEPS, BATCH = 3, 4
CONFIG = Path(__file__).resolve().parent.parent / "configs" / "tabletop" / "agon.yaml"

config = load_config(CONFIG, [f"train.problems_per_step={BATCH}", f"train.max_steps={STEPS}", "game.group_size=4"])
game, problems = config.rules(), splits(config.data).train
base = base_files(config.model)
model = config.model.model_copy(update={"name": base})
learner = PairLearner(model, config.train, total_steps=STEPS)  # one frozen base, two LoRA adapters, one optimizer
sampler = HFSampler(base)
verify = load_verifier(config.verifier)
scratch = TemporaryDirectory()


def publish(step: int) -> None:
    """Hand both adapters to the sampler, each under a version that was never used before."""
    for policy in Policy:
        version = Version.of(policy, step, learner.hash(policy)[:8])
        learner.export(policy, Path(scratch.name, version))
        sampler.publish(version, Path(scratch.name, version))


with asyncio.Runner() as loop:
    publish(0)
    for step in range(STEPS):
        # Lines 2 to 9 of Algorithm 1: draft, challenge, score.
        batch = problems[step * BATCH : (step + 1) * BATCH]
        played = loop.run(play(batch, step, game, sampler, verify))
        for stream in played.streams:
            rewards = [rollout.reward.total for rollout in stream.rollouts() if rollout.reward]
            print(f"step {step}: {stream.policy.name} {stream.name:<11} mean reward {sum(rewards) / len(rewards):.2f}")
        # Line 10: both policies learn from samples that were drawn before either moved.
        learner.update(played.streams)
        publish(step + 1)
sampler.close()
verify.close()
scratch.cleanup()
