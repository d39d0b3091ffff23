"""`agon plan CONFIG --from RUN`: the seconds of a run's own logs, scaled to another number of steps, rows and tokens.

Nothing is assumed of the hardware: it is that of the run. Lengths are those that it drew.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median

from agon.config import Config
from agon.errors import RunDirError
from agon.formatting import plural
from agon.plan.budget import Cell, Counts, Section, completions_of_evaluation, per_problem, total_steps
from agon.plan.plan import about
from agon.rundir import RunDir

GROWS = ("play", "update")
"""Parts of a step that take as long as they have tokens; the others take as long in every step."""


def scaled(config: Config, counts: Counts, path: str | Path) -> tuple[str, Section]:
    """The verdict, and what it rests on."""
    run = RunDir.open(path)
    steps, timings = run.steps.records(), run.timings.records()
    if len(timings) < 2:
        raise RunDirError(f"{path} has {plural(len(timings), 'timed step')}", fix="let it run three steps or more")
    counted = range(1 if len(timings) > 2 else 0, len(timings))  # the first step warms up
    tokens = [sum(entry.generated for entry in step.ledger.values()) for step in steps]
    mean = fmean(tokens[n] / steps[n].rollouts for n in counted)
    rollouts = config.train.problems_per_step * sum(per_problem(config))
    rows: dict[str, tuple[Cell, ...]] = {
        "measured steps": (len(counted),),
        "completions average": (f"{mean:,.0f} tokens, under a cap of {run.config.train.max_completion_tokens:,}",),
    }
    step = 0.0
    for part in sorted({name for n in counted for name in timings[n].seconds} - {"eval", "rehearse"}):
        each = [timings[n].seconds.get(part, 0.0) / (tokens[n] if part in GROWS else 1) for n in counted]
        seconds = median(each) * (rollouts * mean if part in GROWS else 1)
        rows[part] = (about(seconds),)
        step += seconds
    _, total = completions_of_evaluation(config, counts)
    rows |= {"step": (about(step),), "evaluation along the run": (about(0),)}
    seconds = total_steps(config, counts) * step
    if total:
        spent = [timing.seconds["eval"] for timing in timings if timing.seconds.get("eval")]
        own = run.manifest.data.counts
        drawn_points, drawn = completions_of_evaluation(run.config, Counts(own["train"], own["dev"], own["held_out"]))
        if not spent or not drawn:
            raise RunDirError(f"{path} timed no evaluation", fix="add eval.points=0, or name a run that has evaluated")
        evaluation = fmean(spent) * drawn_points / drawn * total
        rows["evaluation along the run"] = (about(evaluation),)
        seconds += evaluation
    rows["run"] = (about(seconds),)
    if config.train.max_completion_tokens != run.config.train.max_completion_tokens:
        rows["warning"] = ("the caps differ, and lengths are those that the run drew",)
    return f"about {about(seconds)} on the hardware of {path}, by {len(counted)} of its steps", Section(
        f"scaled from {path}", rows
    )
