"""Studies with known rates, written through the records of `agon eval` and `agon train`, and runs of scripted bouts."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from agon.algorithm import play
from agon.config import PRESETS, Config, resolved
from agon.config.arms import resolve
from agon.engine.scripted import ScriptedSampler
from agon.eval.intervals import clopper_pearson
from agon.eval.measures import from_outcomes
from agon.eval.systems import drawn_by
from agon.game.budget import Entry
from agon.game.rules import Game
from agon.rundir import RunDir
from agon.rundir.pair import PairInfo, write_pair
from agon.rundir.records import Joint, Point, StepRecord, StreamStats, SystemCounts, write_record
from agon.rundir.results import (
    AdapterDistance,
    DirectionChoice,
    EvalData,
    EvalResult,
    EvalSettings,
    ExchangeShares,
    LeakShares,
    Lengths,
    MeanLength,
    Measures,
    PairResult,
    RunFacts,
    Share,
    TokenCounts,
    TokenUse,
)
from agon.types import (
    Bout,
    Completion,
    Direction,
    Policy,
    Problem,
    Reason,
    Request,
    Sampling,
    Verdict,
    Version,
    seed_for,
)
from tests.rundir.helpers.runs import MANIFEST, write_adapter

# -- results ----------------------------------------------------------------------------------------------------------

RATES = {"zero-shot": 0.23, "grpo": 0.30, "coop": 0.46, "agon": 0.61, "shared-opponent": 0.32, "self-refine": 0.33}
N = 120
STEPS = 30


def make_study(root: Path, arms: Mapping[str, int], base: str = "agon:tiny", data: str = "tabletop") -> list[Path]:
    """Write some runs: arms with their number of seeds."""
    return [make_run(root, arm, seed, base, data) for arm, seeds in arms.items() for seed in range(seeds)]


def make_run(root: Path, arm: str, seed: int, base: str, data: str) -> Path:
    """Write a run with a config, steps, points and results, and without bouts."""
    path = root / f"{arm}-s{seed}"
    folder = path / "evals" / "held_out"
    folder.mkdir(parents=True)
    write_config(path, arm, seed, base, data)
    made = results(RunFacts(name=path.name, arm=arm, seed=seed, step=STEPS), base)
    for system, result in made.items():
        write_record(folder / f"{system}.json", result)
    if "b" in made:
        write_record(folder / "pair.json", pair(made["a"], made["b"]))
    run = RunDir.open(path)
    run.write_points([point(arm, seed, step) for step in (0, 10, 20, 30)])
    run.steps.path.write_text("".join(f"{step_record(step).model_dump_json()}\n" for step in range(STEPS)))
    return path


def write_config(path: Path, arm: str, seed: int, base: str, data: str = "tabletop") -> None:
    """Write what makes a folder a run directory."""
    source = {"preset": data, "take": 9} if data in PRESETS else {"path": data}
    config = {"arm": arm, "model": {"name": base}, "data": dict.fromkeys(("train", "dev", "held_out"), source)}
    config |= {"verifier": "math", "train": {"seed": seed, "problems_per_step": 8}}
    (path / "config.yaml").write_text(yaml.safe_dump(resolved(Config.model_validate(config))))
    write_record(path / "manifest.json", MANIFEST)


def results(run: RunFacts, base: str) -> dict[str, EvalResult]:
    """What an arm deploys, and the bare base."""
    arm = str(run.arm)
    rate = RATES[arm]

    def make(system: str, rate: float, staged: bool = False) -> EvalResult:
        rng = random.Random(f"{arm} {run.seed} {system}")
        finals = [rng.random() < rate for _ in range(N)]
        drafts = [rng.random() < rate - 0.1 for _ in range(N)] if staged else None
        return result(run, base, system, {f"p{k}": [right] for k, right in enumerate(finals)}, drafts)

    made = {"base": make("base", RATES["zero-shot"])}
    if arm == "grpo":
        return made | {"a": make("a", rate), "self-cascade": make("self-cascade", 0.35, True)}
    if arm == "self-refine":
        return made | {"self-refine": make("self-refine", rate, True)}
    a, b = make("a", rate - 0.1), make("b", rate - 0.12)
    if arm == "shared-opponent":
        both = {name: [*right, *b.measured.outcomes[name]] for name, right in a.measured.outcomes.items()}
        return made | {"a": a, "b": b, "single-pass": result(run, base, "single-pass", both, None)}
    ab, ba = make("ab", rate, True), make("ba", rate - 0.02, True)
    rates = {Direction.AB: ab.measured.pass_rate.value, Direction.BA: ba.measured.pass_rate.value}
    choice = DirectionChoice(chosen=Direction.AB, by="dev", pass_rates=rates)
    cascade = ab.model_copy(update={"system": "cascade", "direction": choice})
    return made | {"a": a, "b": b, "ab": ab, "ba": ba, "cascade": cascade}


def result(
    run: RunFacts, base: str, system: str, outcomes: dict[str, list[bool]], drafts: Sequence[bool] | None
) -> EvalResult:
    """One system's result, from its outcomes problem by problem."""
    settings = EvalSettings(
        base=base, base_hash=None, revision=None, dtype="float32", engine="hf", temperature=0.6, top_p=0.95, seed=0,
        versions={policy: Version.of(policy, STEPS, "5f3c9a1e") for policy in Policy}, verifier="math", prompts="0",
        max_completion_tokens=900, max_peek_tokens=100,
    )  # fmt: skip
    trials = sum(map(len, outcomes.values()))
    return EvalResult(
        system=system, done=trials, of=trials, run=run, settings=settings, records=[f"{system}.jsonl"],
        data=EvalData(name="held_out", problems=len(outcomes), samples=1), measures=measures(outcomes, drafts),
    )  # fmt: skip


def measures(outcomes: dict[str, list[bool]], drafts: Sequence[bool] | None) -> Measures:
    """Measures with the right counts; lengths and tokens are invented."""
    finals = [right for each in outcomes.values() for right in each]
    correct, trials = sum(finals), len(finals)
    total = TokenCounts(generated=500 * trials * (2 if drafts else 1), prefilled=60 * trials)
    per_correct = TokenCounts(generated=total.generated / correct, prefilled=total.prefilled / correct)
    final = TokenCounts(generated=500 * trials, prefilled=60 * trials)
    lengths = {"all": MeanLength(n=trials, mean=400 + 3 * correct), "right": MeanLength(n=correct, mean=400)}
    return Measures(
        problems=len(outcomes), trials=trials, correct=correct, ungraded=0, pass_rate=clopper_pearson(correct, trials),
        interval="Clopper-Pearson", wilson=None, well_formed=share(trials, trials), outcomes=outcomes,
        exchange=exchange(drafts, finals) if drafts else None,
        leak=LeakShares(rate=share(3, 9), pass_with=share(2, 3), pass_without=share(1, 6)) if drafts else None,
        tokens=TokenUse(draft=final if drafts else None, final=final, total=total, per_correct=per_correct),
        length=Lengths(final=lengths, truncated=share(1, trials), seconds=None),
    )  # fmt: skip


def without_verdicts(result: EvalResult, problems: int) -> EvalResult:
    """The same result when the first problems could not be graded."""
    old = result.measured
    outcomes = dict(old.outcomes) | {name: [None] for name in list(old.outcomes)[:problems]}
    made = from_outcomes(outcomes, tokens=old.tokens, length=old.length, exchange=old.exchange, leak=old.leak)
    return result.model_copy(update={"measures": made})


def exchange(drafts: Sequence[bool], finals: Sequence[bool]) -> ExchangeShares:
    pairs = list(zip(drafts, finals, strict=True))
    return ExchangeShares(
        conversion=share(pairs.count((False, True)), len(pairs) - sum(drafts)),
        regression=share(pairs.count((True, False)), sum(drafts)),
        empty_peek=share(4, len(pairs)),
    )


def share(count: int, of: int) -> Share:
    return Share(count=count, of=of, rate=clopper_pearson(count, of))


def pair(a: EvalResult, b: EvalResult) -> PairResult:
    """A and B together on the same trials."""
    both = [(x, y) for p, right in a.measured.outcomes.items() for x, y in zip(right, b.measured.outcomes[p])]  # noqa: B905
    return PairResult(
        run=a.run,
        settings=a.settings,
        joint=Joint.count((bool(x), bool(y)) for x, y in both),
        either_right=clopper_pearson(sum(bool(x or y) for x, y in both), len(both)),
        weights=AdapterDistance(cosine=0.1, norm_a=1.0, norm_b=2.0),
    )


def point(arm: str, seed: int, step: int) -> Point:
    """Dev at a step: a straight line from the base's rate to the arm's."""
    rng = random.Random(f"{arm} {seed} {step}")
    rate = RATES["zero-shot"] + (RATES[arm] - RATES["zero-shot"]) * step / STEPS
    names = drawn_by(Game(**resolve(arm)))
    counts = {"n": 100, "ungraded": 0, "well_formed": 90, "tokens_final": 50_000, "tokens_all": 90_000}
    systems = {name: SystemCounts(correct=sum(rng.random() < rate for _ in range(100)), **counts) for name in names}
    return Point(step=step, direction=None, score=rate, systems=systems)


def step_record(step: int) -> StepRecord:
    """A step of 8 problems with 16 rollouts each."""
    stream = StreamStats(
        n=64, graded=64, pass_rate=0.5, reward_mean=1.0, groups=8, live_groups=8, well_formed=1.0, truncated=0.0,
        tokens_mean=60.0,
    )  # fmt: skip
    return StepRecord(
        step=step, drafter=Policy.A, challenger=Policy.B, standalone=stream, competitive=stream, update={}, ungraded=0,
        bonus_groups=step % 2,
        versions={policy: Version.of(policy, step, "0") for policy in Policy},
        ledger={"draft/a": Entry(64, 4000, 900), "challenge/b": Entry(64, 3000, 2000)},
    )  # fmt: skip


INFO = PairInfo(
    versions={policy: Version.of(policy, STEPS, "5f3c9a1e") for policy in Policy}, base="agon:tiny",
    prompts_hash="p" * 64, chat_template_hash="c" * 64, direction=Direction.BA, arm="agon", step=STEPS, seed=0,
)  # fmt: skip


def make_run_with_pair(root: Path) -> Path:
    """Write a run of the arm `agon` with results and a pair."""
    path = make_study(root, {"agon": 1})[0]
    write_pair(path, write_adapter(root / "a", [1.0]), write_adapter(root / "b", [2.0]), INFO)
    return path


def edit(file: Path, **changes: object) -> None:
    """Change some values of a JSON file; None removes the key."""
    raw = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in raw.items() if value is not None}))


# -- bouts ------------------------------------------------------------------------------------------------------------

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> {{script}} \u2028 \u2029 &amp; <!--"
WORKED = "<think>a</think>the sum is worked out<answer>{}</answer>"
BOUTS = {
    "regressed": (WORKED.format(4), "5"),
    "converted": (WORKED.format(5), "4"),
    "lost, differently": (WORKED.format(6), "5"),
    "leak": ("<think>a</think>I find 4 at the end<answer>4</answer>", "4"),
    "empty peek": ("<think>a</think><answer>5</answer>", "4"),
    "infra": (f"<think>{HOSTILE}</think>{HOSTILE}<answer>unknown</answer>", "4"),
    "truncated": ("<think>" + "on and " * 60, "5"),
    "lost, alike": (WORKED.format(5), " 5 "),
}
"""One bout for each outcome and each mark: the draft, and the answer of the challenge."""


async def verify(problem: Problem, completion: Completion) -> Verdict:
    if "unknown" in completion.text:
        return Verdict(False, True, Reason.INFRA, "the worker was lost")
    right = f"<answer>{problem.answer}</answer>" in completion.text
    return Verdict(right, completion.finish == "stop", Reason.CORRECT if right else Reason.WRONG)


def make_match(root: Path, steps: int = 2, bouts: Mapping[str, tuple[str, str]] = BOUTS, text: str = HOSTILE) -> RunDir:
    """Write a run with one problem per step and some bouts of it; the problem holds a hostile text."""
    path = root / "match"
    path.mkdir()
    write_config(path, "agon", 7, "none")
    run = RunDir.open(path)
    for step in range(steps):
        run.write_bouts(step, play_bouts(step, bouts, text), "agon")
    return run


def play_bouts(step: int, bouts: Mapping[str, tuple[str, str]], text: str) -> tuple[Bout, ...]:
    """The bouts of one step, played by the game itself."""
    asked = {
        seed_for(0, step, stage, policy, "p0", k): (stage, k)
        for stage in ("draft", "challenge")
        for policy in Policy
        for k in range(len(bouts))
    }

    def answer(request: Request) -> str:
        stage, k = asked[request.seed]
        draft, challenge = list(bouts.values())[k]
        return draft if stage == "draft" else f"<think>b</think>read it<answer>{challenge}</answer>"

    game = Game(group_size=len(bouts), sampling=Sampling(max_tokens=50))
    problem = Problem("p0", f"What is 2 + 2? {text}", "4")
    return asyncio.run(play([problem], step, game, ScriptedSampler(answer), verify)).bouts
