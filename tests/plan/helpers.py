"""Configs of the paper's recipe, and the figures of a plan that its tests pin."""

from __future__ import annotations

from pathlib import Path

from agon.config import Config, load_config
from agon.engine.published import RECIPES, TEXT
from agon.plan.base_shapes import shape_of
from agon.plan.budget import completions_of_evaluation, count, summary
from agon.plan.gpus import GPUS, Node, find_gpu
from agon.plan.hours import Assumptions
from agon.plan.memory import fit, sequence_bytes
from agon.plan.plan import HardwarePlan, plan_on

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "configs" / "paper" / "main" / "agon.yaml"
BASES = {name: shape_of(published) for name, published in (TEXT | RECIPES).items()}
SMALL, LARGE = BASES["Qwen/Qwen3-0.6B"], BASES["Qwen/Qwen3-32B"]


def recipe(*overrides: str) -> Config:
    return load_config(RECIPE, overrides)


def planned(*overrides: str, gpu: str = "h100", gpus: int = 1, price: float | None = None) -> HardwarePlan:
    config = recipe(*overrides)
    return plan_on(config, Node(find_gpu(gpu), gpus, price), count(config.data))


def parts(config: Config, gpu: str) -> tuple[int, int, int, int, int, bool]:
    """Bytes of base, of adapters with gradients and Adam's state, of the largest pass, of an engine without its cache,
    of the cache of 10,000 tokens; and whether it fits."""
    shape = BASES[config.model.name]
    laid = fit(config, shape, find_gpu(gpu))
    learner, engine = laid.learner, laid.engine
    assert engine is not None
    trained = learner.adapters + learner.gradients + learner.adam
    cache = sequence_bytes(shape, config, 10_000)
    return learner.base, trained, learner.activations, engine.static, cache, not laid.problems()


def drawn(config: Config) -> tuple[object, ...]:
    """Steps, rollouts, tokens at most, evaluation points and the completions that they draw."""
    counts = count(config.data)
    column = summary(config, counts)
    rows = (column[row] for row in ("steps", "rollouts", "generated tokens, at most"))
    return *rows, *completions_of_evaluation(config, counts)


def seconds(config: Config, gpu: str, gpus: int = 1, assumed: Assumptions | None = None) -> dict[str, float]:
    """Seconds of play, update, step, evaluation and the run."""
    found = plan_on(config, Node(GPUS[gpu], gpus), count(config.data), assumed, advise=False).hours
    assert found is not None
    parts = {"play": found.step.play, "update": found.step.update, "step": found.step.total}
    return {**parts, "evaluation": found.evaluation, "run": found.run}
