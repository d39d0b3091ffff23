"""Evaluate from Python: what `agon eval` calls. Resumable; every bout is on record."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from agon.bridge import Runner
from agon.errors import InputError, RunDirError, naming_extras
from agon.eval.engines import measure_kl, open_evaluator
from agon.eval.evaluation import Evaluation, delete
from agon.eval.measures import complementarity
from agon.eval.results import Results, chosen_cascade, post_hoc_cascade, single_pass
from agon.eval.systems import DIRECTIONS, deployed, select
from agon.eval.target import Questions, Target, find, problems_of
from agon.interrupt import Interrupt, Interrupted
from agon.rundir import RunDir
from agon.rundir.directory import Step
from agon.rundir.files import PRIVATE, check_no_links, locked, remove_tree
from agon.rundir.records import write_record
from agon.rundir.results import EvalResult, PairResult
from agon.types import Policy
from agon.verify import check_verifier
from agon.verify.custom import Function
from agon.verify.given import check_given, judging_by

Note = Callable[[str], None]


@naming_extras()
def evaluate(
    target: RunDir | str | Path,
    *overrides: str,
    system: str | Sequence[str] = (),
    data: str | None = None,
    split: Literal["held_out", "dev"] = "held_out",
    direction: str | None = None,
    samples: int | None = None,
    limit: int | None = None,
    step: Step | None = None,
    config: str | Path | None = None,
    url: str | None = None,
    names: Mapping[str, str] | None = None,
    divergence: bool = False,
    full: bool = False,
    out: str | Path | None = None,
    fresh: bool = False,
    reward: Function | Sequence[Function] | None = None,
    show: Literal["auto", "nothing"] = "auto",
) -> Results:
    """Measure a run, a pair or a bare model on held-out problems, and return its results.

    `system` is one or more of cascade, a, b, base, moa, self-cascade, self-cascade-b, self-refine, reading (default: as
    the arm deploys); `step` is a checkpoint of a run (default: what `pair/` holds); `full` also draws what a challenger
    makes of other drafts than the rival's; `reward` is the function of a run that was trained with one; the other
    arguments are those of `agon eval`. Bouts on disk are not drawn again; one that is interrupted raises
    KeyboardInterrupt and resumes when called again.
    """
    with judging_by(reward):
        _check(samples=samples, limit=limit, direction=direction)
        note = _to_stderr if show == "auto" else _ignore
        given = str(target.path if isinstance(target, RunDir) else target)
        found = find(given, Path(config) if config else None, overrides, url=url, data=data, step=step)
        call = "agon.evaluate({0!r}, reward={1}); or agon eval {0} verifier=FILE.py:{1}"
        check_given([found.config.verifier], given, call)
        check_verifier(found.config.verifier, found.config.sandbox.settings())
        asked = problems_of(found, data, split, limit)
        if asked.trained_on:
            note(f"warning: {found.name} was trained on {asked.trained_on} of these {len(asked.problems)} problems")
        direction = direction or found.config.eval.direction
        wanted = [system] if isinstance(system, str) else list(system)
        if full and found.game and found.game.makes_pair and found.game.show_draft:
            wanted = [*(wanted or deployed(found.game)), "reading"]
        if "reading" in wanted and len(asked.problems) < 2:
            raise InputError("a shuffled draft needs a second problem", fix="evaluate at least two problems")
        evaluation = _evaluation(found, asked, wanted, direction, samples, url, Path(out) if out else None)
        check_no_links([evaluation.folder, *evaluation.folder.glob("*")])
        made = [folder for folder in (evaluation.folder, *evaluation.folder.parents) if not folder.exists()]
        _make(evaluation.folder)
        try:
            with locked(evaluation.folder / ".lock"):
                if fresh:
                    delete(evaluation.folder, list(evaluation.systems))
                evaluation.open()
                _draw_missing(found, evaluation, url, names or {}, show == "auto", note)
                return _results(found, evaluation, evaluation.finish(), direction, divergence)
        except Exception:
            if made and not any(evaluation.bouts.values()):
                _remove(made)
            raise


def _remove(folders: Sequence[Path]) -> None:
    """Delete the folder of an evaluation that failed before its first bout, and those around it if they are empty."""
    remove_tree(folders[0])
    with suppress(OSError):
        for folder in folders[1:]:
            folder.rmdir()


def _make(folder: Path) -> None:
    """The folder of the results, closed to other users like the run itself: it holds prompts and answers."""
    try:
        folder.mkdir(PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        fix = "choose a place that you may write to: --out DIR"
        raise RunDirError(f"cannot write results to {folder}: {error.strerror}", fix=fix) from error


def _check(samples: int | None, limit: int | None, direction: str | None) -> None:
    for name, value in (("samples", samples), ("limit", limit)):
        if value is not None and value < 1:
            raise InputError(f"--{name} must be at least 1", fix=f"leave --{name} out, or name a larger number")
    if direction not in (None, *DIRECTIONS):
        raise InputError(f"there is no direction {direction!r}", fix=f"choose from: {', '.join(DIRECTIONS)}")


def _evaluation(
    target: Target,
    asked: Questions,
    wanted: Sequence[str],
    direction: str,
    samples: int | None,
    url: str | None,
    out: Path | None,
) -> Evaluation:
    return Evaluation(
        folder=(out or target.out) / (asked.name if target.at_step is None else f"{asked.name}@{target.at_step}"),
        problems=asked.problems,
        systems=select(wanted, target.game, direction),
        samples=samples or target.config.eval.samples,
        settings=target.settings("url" if url else target.config.sampler.engine),
        facts=target.facts,
    )


def _draw_missing(
    target: Target, evaluation: Evaluation, url: str | None, names: Mapping[str, str], progress: bool, note: Note
) -> None:
    """Draw what is missing. Machines are built only when something is."""
    missing = len(evaluation.missing())
    if not missing:
        return
    note(f"drawing {missing} bouts on {evaluation.folder.name}: {', '.join(evaluation.systems)}")
    with (
        open_evaluator(target, evaluation.systems.values(), url, names, note) as evaluator,
        Runner() as runner,
        Interrupt() as interrupt,
    ):
        try:
            runner.run(
                interrupt.watching(evaluation.draw(evaluator, Progress() if progress else lambda done, of: None))
            )
        except Interrupted:
            evaluation.finish()
            left = len(evaluation.missing())
            raise KeyboardInterrupt(f"stopped: {left} bouts left; run the same command again to resume") from None


def _results(
    target: Target, evaluation: Evaluation, measured: Mapping[str, EvalResult], direction: str, divergence: bool
) -> Results:
    """Everything that was measured, and what follows from it."""
    derived, notes = _derived(target, measured, direction)
    systems = {**measured, **{result.system: evaluation.write(result) for result in derived}}
    headline = derived[0] if derived else next(iter(measured.values()))
    pair = _pair(target, evaluation, measured, divergence)
    return Results(evaluation.folder, headline, systems, pair, tuple(notes))


def _derived(target: Target, measured: Mapping[str, EvalResult], direction: str) -> tuple[list[EvalResult], list[str]]:
    """The cascade by its direction, or the mean of single passes; and notes on what could not be derived."""
    derived, notes = [], []
    if {"ab", "ba"} <= measured.keys():
        chosen = target.pair.info.direction if target.pair else None
        if direction == "post-hoc":
            derived.append(post_hoc_cascade(measured["ab"], measured["ba"]))
        elif direction == "dev" and chosen is None:
            notes.append("this pair has no direction: dev never chose one, so both are reported")
        elif direction == "dev" and chosen is not None:
            derived.append(chosen_cascade(measured["ab"], measured["ba"], chosen))
    elif {"ab", "ba"} & measured.keys():
        notes.append("one direction only, as asked: the other was not measured")
    if {"a", "b"} <= measured.keys() and target.game is not None and not target.game.show_draft:
        derived.append(single_pass(measured["a"], measured["b"]))
    return derived, notes


def _pair(
    target: Target, evaluation: Evaluation, measured: Mapping[str, EvalResult], divergence: bool
) -> PairResult | None:
    """Complementarity of A and B, and how far apart they are; written to pair.json."""
    if target.pair is None or target.game is None or not target.game.makes_pair:
        return None
    from agon.engine.distance import adapter_distance

    joint, either = None, None
    if {"a", "b"} <= measured.keys():
        joint, either = complementarity(measured["a"].measured.outcomes, measured["b"].measured.outcomes)
    result = PairResult(
        run=evaluation.facts,
        settings=evaluation.settings,
        joint=joint,
        either_right=either,
        weights=adapter_distance(*map(target.pair.adapter, Policy)),
        policy_kl=measure_kl(target, evaluation.problems) if divergence else None,
    )
    write_record(evaluation.folder / "pair.json", result)
    return result


class Progress:
    """How far an evaluation is, on stderr: one line that moves on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.every = 0.2 if self.live else 10.0
        self.began = self.last = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self.last < self.every and done < of:
            return
        self.last = now
        left = (now - self.began) / done * (of - done)
        estimate = f", about {left:.0f} s left" if 20 * done >= of and done < of else ""
        end = "\r" if self.live and done < of else "\n"
        print(f"{done} of {of} bouts{estimate}".ljust(50), end=end, file=sys.stderr, flush=True)


def _to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _ignore(sentence: str) -> None:
    """Show nothing."""
