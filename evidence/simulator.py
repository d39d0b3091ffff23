"""The simulation of a run (`_pipeline.py`) against real runs, and what it says about more GPUs than anybody has here.

Each part runs alone with `--part`; the quick form is the scaling, with fewer steps.

- check: costs are fitted on runs of two configurations, a vLLM server on one core and the run on another; five others,
  of different sizes, lengths, arms and staleness, are predicted from lengths of the first two and then measured, in
  turns.
- scaling: with the costs of `agon plan` for a GPU, strong and weak scaling to 64 GPUs; beside it the seconds that
  the plan itself states for the same learners and engines, which it ranks layouts by.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from _lib import ROOT, Part, arguments, verdict_of_parts
from _pipeline import Costs, Layout, Lengths, simulate
from _timed import CONFIG, FIRST, settings, timed_runs
from agon import RunDir
from agon.config import Config, load_config
from agon.engine.published import TEXT
from agon.plan.base_shapes import shape_of
from agon.plan.fit import fit, with_value
from agon.plan.gpus import GPUS, Node
from agon.plan.hours import in_flight, step_seconds
from agon.plan.step_time import Assumptions, Speed, bouts_of
from agon.rundir import read_bouts

EXTRA_SOURCES = ("configs/tabletop", "configs/paper", "src/agon/cli/train.py")
PARTS = ("check", "scaling")
FITTED = {
    "4 x 4, 64 tokens": ("train.problems_per_step=4", "game.group_size=4", "train.max_completion_tokens=64"),
    "8 x 4, 32 tokens": ("train.problems_per_step=8", "game.group_size=4", "train.max_completion_tokens=32"),
}
PREDICTED = {
    "8 x 4, 48 tokens": ("train.problems_per_step=8", "game.group_size=4", "train.max_completion_tokens=48"),
    "2 x 4, 96 tokens": ("train.problems_per_step=2", "game.group_size=4", "train.max_completion_tokens=96"),
    "4 x 4, 64 tokens, grpo": (*FITTED["4 x 4, 64 tokens"], "arm=grpo"),
    "4 x 4, 64 tokens, one ahead": (*FITTED["4 x 4, 64 tokens"], "train.staleness=1"),
    "8 x 4, 48 tokens, two ahead": (
        "train.problems_per_step=8", "game.group_size=4", "train.max_completion_tokens=48", "train.staleness=2",
        "sampler.max_loras=6",
    ),
}  # fmt: skip
RUNS, STEPS, WITHIN = 5, 8, 0.15
"""Runs of each configuration, their steps, and how far a prediction may be off."""
WORK = """
import sys, time, numpy
x, began, until = numpy.ones((384, 384), numpy.float32), time.perf_counter(), time.time() + float(sys.argv[1])
while True:
    for _ in range(1000):
        x = x @ x / 384
    sum(range(10_000_000))
    if time.time() >= until:
        break
print(time.perf_counter() - began)
"""
"""Multiplications, as in an engine or an update, and Python, as around them."""
GPU, BASE, PRICE = "h100", "Qwen/Qwen3-4B", 2.5
GPU_COUNTS = {"strong": (2, 4, 8, 16, 32, 64), "weak": (2, 8, 32, 64)}
STRIDE = 64
"""Tokens that a simulated engine draws at once: of thousands, so this is fine enough."""
FEED = 0.0015
"""Seconds of a row in the process that feeds engines on other nodes: measured, 1 to 2 ms."""


# -- check -------------------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Real runs of one configuration: lists over the steps of all runs, but for `seconds`."""

    steps: list[list[Lengths]] = field(default_factory=list)
    play: list[float] = field(default_factory=list)
    learner: list[float] = field(default_factory=list)
    """Update, publication, checks and records."""
    seconds: list[float] = field(default_factory=list)
    """Of a step, by run."""

    def add(self, run: RunDir) -> None:
        timings, steps = run.timings.records()[FIRST:], lengths_by_step(run)
        for timing in timings:
            play = timing.seconds.get("play", 0.0)
            self.steps.append(steps[timing.step])
            self.play.append(play)
            self.learner.append(sum(timing.seconds.values()) - play)
        self.seconds.append(fmean(sum(timing.seconds.values()) for timing in timings))


def check(quick: bool) -> dict[str, Any]:
    """Fit on two configurations, predict five, measure all of them in turns."""
    wanted, runs, steps = FITTED | PREDICTED, 1 if quick else RUNS, FIRST + 2 if quick else STEPS
    measured, slow = {name: Measured() for name in wanted}, list[float]()
    with timed_runs() as train_timed:
        for number in range(runs):
            for name, words in wanted.items():
                measured[name].add(train_timed(f"train.max_steps={steps}", *words))
                made = measured[name]
                play = fmean(made.play[FIRST - steps :])
                print(f"  run {number}, {name}: {made.seconds[-1]:.2f} s per step, play {play:.2f}", flush=True)
            slow.append(slowdown(rounds=2))
    costs = fitted([measured[name] for name in FITTED], median(slow))
    rows = {}
    for name, words in wanted.items():
        config = load_config(CONFIG, settings(*words))
        predicted = predict(config, costs, [measured[other] for other in FITTED], steps)
        rows[name] = {"predicted": round(predicted, 3), "measured": round(median(measured[name].seconds), 3)}
    off = {name: round(row["predicted"] / row["measured"] - 1, 3) for name, row in rows.items()}
    return {"costs": {k: float(f"{v:.3g}") for k, v in vars(costs).items()}, "steps": rows, "off": off, "runs": runs}


def check_holds(found: dict[str, Any]) -> bool:
    return all(abs(found["off"][name]) <= WITHIN for name in PREDICTED)


def lengths_by_step(run: RunDir) -> dict[int, list[Lengths]]:
    made = defaultdict[int, list[Lengths]](list)
    for row in read_bouts(run).to_pylist():
        draft = row["draft_prompt_tokens"], row["draft_tokens"]
        challenge = row["challenge_prompt_tokens"] or 0, row["challenge_tokens"] or 0
        made[row["step"]].append(Lengths(*draft, *challenge))
    return made


def fitted(runs: Sequence[Measured], beside: float) -> Costs:
    """Costs that give the measured times: a line for the learner, which updates and checks, a search for the engine.

    A token of a prompt costs the engine as much as a completion more in a batch. Verdicts are reached while completions
    are drawn, and their cost is part of that.
    """
    from scipy.optimize import minimize

    tokens = [sum(lengths.learnt for lengths in step) for run in runs for step in run.steps]
    slope, level = np.polyfit(tokens, [seconds for run in runs for seconds in run.learner], 1)

    def costs(logs: Sequence[float]) -> Costs:
        step, row = np.exp(logs)
        return Costs(step, row, row, 0.0, max(level, 0.0), max(slope, 0.0), 0.0, beside=beside)

    def loss(logs: Sequence[float]) -> float:
        made = costs(logs)
        waited = [fmean(simulate(made, Layout(), run.steps).waited) for run in runs]
        return sum((found / median(run.play) - 1) ** 2 for found, run in zip(waited, runs, strict=True))

    best = minimize(loss, np.log([5e-3, 1e-3]), method="Nelder-Mead", options={"maxiter": 200, "xatol": 1e-3})
    return costs(best.x)


def slowdown(rounds: int) -> float:
    """How much longer a core takes for the same work while another core works: clock, caches and memory are shared."""
    first, *_, last = sorted(os.sched_getaffinity(0))
    alone, beside = list[float](), list[float]()
    for _ in range(rounds):
        alone.append(_seconds_of_work(first))
        with subprocess.Popen(_work_on(last, 3600.0)) as other:
            time.sleep(1.0)
            beside.append(_seconds_of_work(first))
            other.kill()
    return max(median(beside) / median(alone), 1.0)


def _seconds_of_work(core: int) -> float:
    done = subprocess.run(_work_on(core, 0.0), capture_output=True, text=True, check=True)
    return float(done.stdout)


def _work_on(core: int, seconds: float) -> list[str]:
    return ["taskset", "--cpu-list", str(core), sys.executable, "-c", WORK, str(seconds)]


def predict(config: Config, costs: Costs, known: Sequence[Measured], steps: int) -> float:
    """Seconds per step of a configuration, with lengths drawn from those of the known one with the longest."""
    rng, cap = random.Random(0), config.train.max_completion_tokens
    pools = [[lengths for step in run.steps for lengths in step] for run in known]
    pool = max(pools, key=lambda pool: max(lengths.draft for lengths in pool))
    longest = max(lengths.draft for lengths in pool)
    game = config.rules()
    count, two = config.train.problems_per_step * game.drafts_per_problem, game.two_stages

    def bout() -> Lengths:
        one = rng.choice(pool)
        scale = max(cap / longest, 1.0)
        draft, challenge = (min(cap, round(scale * tokens)) for tokens in (one.draft, one.challenge))
        return Lengths(one.prompt, draft, one.seen if two else 0, challenge if two else 0)

    played = [[bout() for _ in range(count)] for _ in range(steps)]
    return float(simulate(costs, Layout(staleness=config.train.staleness), played).seconds(FIRST))


# -- scaling -----------------------------------------------------------------------------------------------------------


def scaling(quick: bool) -> dict[str, Any]:
    """Strong and weak scaling of the paper's recipe, with the costs that `agon plan` assumes of a GPU."""
    config, steps = load_config(ROOT / "configs" / "paper" / "base.yaml", [f"model.name={BASE}"]), 8 if quick else 10
    costs, rows = gpu_costs(config), list[dict[str, Any]]()
    for kind in ("strong", "weak"):
        for k in (0, 1):
            for gpus in GPU_COUNTS[kind][: 2 if quick else None]:
                problems = config.train.problems_per_step * (gpus // 2 if kind == "weak" else 1)
                rows.append({"kind": kind, **best_split(config, costs, gpus, problems, k, steps)})
                print(f"  {rows[-1]}", flush=True)
    return {"gpu": GPU, "base": BASE, "rows": rows, "costs": {k: float(f"{v:.3g}") for k, v in vars(costs).items()}}


def scaling_holds(found: dict[str, Any]) -> bool:
    """A step ahead is never slower, nothing computes more than all of the time, and the plan agrees."""
    seconds = {(row["kind"], row["gpus"], row["staleness"]): row["seconds"] for row in found["rows"]}
    shares = [row[part] for row in found["rows"] for part in ("engines_idle", "learner_idle") if part in row]
    ahead = all(seconds[kind, gpus, 1] <= 1.02 * value for (kind, gpus, k), value in seconds.items() if not k)
    agrees = all(abs(row["plan_seconds"] / row["seconds"] - 1) <= WITHIN for row in found["rows"])
    return ahead and agrees and all(0 <= share <= 1 for share in shares)


def gpu_costs(config: Config) -> Costs:
    """The plan's assumptions about a GPU as costs of the simulation."""
    assumed, shape = Assumptions(), shape_of(TEXT[BASE])
    speed = Speed.of(shape, config, GPUS[GPU], assumed)
    assert speed is not None
    mean = mean_tokens(config)
    fixed, by_token = speed._cache()
    reads = speed.bandwidth * assumed.bandwidth
    return Costs(
        step=max(speed.floor, 2 * speed._drawn_parameters / reads),
        row=(fixed + (mean / 2 + assumed.prompt) * by_token) / reads,
        prefill=2 * shape.multiplied / (speed.flops * assumed.linear),
        verdict=0.01,
        update=1.0,
        token=assumed.live * speed.update([mean] * 8) / (8 * mean),
        rest=assumed.publish + speed.checks(),
        feed=FEED,
    )


def mean_tokens(config: Config) -> int:
    return int(Assumptions().mean * config.train.max_completion_tokens)


def planned(config: Config, gpus: int, learners: int, problems: int, k: int) -> tuple[int, float]:
    """What the plan says of the same layout: completions that an engine draws at once, and seconds per step."""
    for key, value in (
        ("sampler.replicas", gpus - learners),
        ("train.staleness", k),
        ("train.problems_per_step", problems),
    ):
        config = with_value(config, key, value)
    assumed, shape, node = Assumptions(), shape_of(TEXT[BASE]), Node(GPUS[GPU], gpus)
    speed, laid = Speed.of(shape, config, node.gpu, assumed), fit(config, shape, node.gpu, gpus)
    assert speed is not None
    return in_flight(laid, shape, config, assumed), step_seconds(config, node, laid, speed).total


def best_split(config: Config, costs: Costs, gpus: int, problems: int, k: int, steps: int) -> dict[str, Any]:
    """The fastest share of learner GPUs: seconds per step, idle time and dollars."""
    game, assumed = config.rules(), Assumptions()
    bouts = bouts_of(problems * config.game.group_size, game.two_stages, config.train.max_completion_tokens, assumed)
    seen = assumed.prompt + assumed.peek
    pairs = [Lengths(assumed.prompt, a, seen, b) for a, b in zip(bouts.drafts, bouts.challenges, strict=True)]
    played = [random.Random(step).sample(pairs, len(pairs)) for step in range(steps)]
    found, by_plan = {}, {}
    for learners in sorted({max(1, round(gpus * share)) for share in (0.12, 0.25, 0.5)}):
        slots, by_plan[learners] = planned(config, gpus, learners, problems, k)
        layout = Layout(gpus - learners, slots, 32, learners, staleness=k, stride=STRIDE)
        found[learners] = simulate(costs, layout, played)
    learners, outcome = min(found.items(), key=lambda item: item[1].steady(k))
    return described(gpus, problems, k, outcome.steady(k), bouts.tokens, bouts.completions) | {
        "learners": learners,
        "plan_seconds": round(by_plan[learners], 1),
        "engines_idle": round(1 - outcome.engines, 3),
        "learner_idle": round(1 - outcome.learner, 3),
    }


def described(gpus: int, problems: int, k: int, seconds: float, tokens: int, rollouts: int) -> dict[str, Any]:
    return {
        **{"gpus": gpus, "staleness": k, "problems": problems, "rollouts": rollouts, "seconds": round(seconds, 1)},
        "tokens_per_second": round(tokens / seconds),
        "dollars_per_1000_rollouts": round(gpus * PRICE * seconds / 3600 / rollouts * 1000, 2),
    }


# -- main --------------------------------------------------------------------------------------------------------------


def main() -> None:
    args = arguments(__doc__, PARTS)
    work: dict[str, Part] = {
        "check": (check, check_holds),
        "scaling": (scaling, scaling_holds),
    }
    verdict_of_parts(
        f"the simulation is within {WITHIN:.0%} of the measured time of five configurations that it was not fitted on",
        work,
        args,
        quick=PARTS[1:],
    )


if __name__ == "__main__":
    main()
