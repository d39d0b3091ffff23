"""The run: begin or resume, then step by step play, check, update, log, publish, evaluate and save.

Whatever a step depends on comes from names (seeds) or from the checkpoint, so that a run that was killed and resumed
writes the same files as one that was not.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from agon.algorithm import play
from agon.bridge import Runner
from agon.config import Config
from agon.data import Splits
from agon.errors import AgonError, CheckpointError
from agon.eval.draw import Evaluator
from agon.eval.points import choose, measure, systems
from agon.game.cascade import System
from agon.game.prompts import PROMPTS_HASH, challenge_prompt
from agon.interrupt import Interrupt
from agon.plan.schedule import Schedule, idle_engines
from agon.protocols import Update
from agon.rundir import RunDir
from agon.rundir.checkpoint import folder_of
from agon.rundir.directory import Resume
from agon.rundir.pair import PairInfo
from agon.rundir.records import Flight, Point, RunState, SystemCounts, best_point
from agon.training.flights import Flights
from agon.training.log import Display, TrainingLog
from agon.training.machines import Machines
from agon.training.publish import Publisher
from agon.training.rivals import Rival, Seated
from agon.training.streams import (
    check_counted,
    check_verdicts,
    check_versions,
    trained_streams,
)
from agon.types import Played, Problem, Sampling, Stream, Version, seed_for

T = TypeVar("T")
FLIGHTS = "flights"
"""The folder of a checkpoint with the adapters that play steps in flight."""


class Training:
    """One run from where it stands to its end."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        data: Splits,
        machines: Machines,
        display: Display,
        rival: Rival,
    ) -> None:
        self.config, self.run, self.machines, self.display, self.rival = config, run, machines, display, rival
        self.data, self.problems = data, data.train
        self.game = config.rules()
        self.schedule = Schedule.of(config, len(data.train))
        self.state = RunState()
        self.ahead = config.train.staleness
        self.flights = Flights(self.ahead)
        self.log = TrainingLog(run, machines, display, config.arm, config.rules(), self.ahead > 0)
        self._runner, self._interrupt = Runner(), Interrupt(then=machines.give_up)
        self.publisher = Publisher(machines, run.path / "published", self.ahead)

    def go(self) -> bool:
        """Start or resume, train to the end; False when it was interrupted (everything is saved)."""
        with self.run.lock(), self._runner, self._interrupt:
            try:
                self._begin()
                self._train()
            except Exception:
                if self._interrupt.asked is None:
                    raise
                # a signal from the keyboard reaches the engines too: what fails after one is its consequence
                self.display.note(f"interrupted at step {self.machines.learner.step}")
                return False
            finally:
                self.flights.close()
        return True

    def _begin(self) -> None:
        """Put every machine where the newest checkpoint says, or at the start."""
        learner = self.machines.learner
        if warning := idle_engines(self.config.train.problems_per_step, self.machines.engines):
            self.display.note(f"warning: {warning}")
        self.machines.rest()
        self._rehearse()
        resume = self.run.resume()
        for folder, reason in resume.skipped:
            self.display.note(f"skipped checkpoint {folder.name}: {reason}")
        self._load(resume)
        self.display.open()
        with self.log.timed("publish"):
            if resume.folder and self._earlier():
                self.publisher.restore(self.state.flights, resume.folder / FLIGHTS)
            self.publisher.publish(
                self.state.versions.values(), self.state.versions, self.state.first, self.state.league
            )
        self._evaluate_if_due(learner.step)
        if resume.folder is None:
            self._save(0)

    def _load(self, resume: Resume) -> None:
        if resume.folder is None:
            self._set(versions=self.publisher.name({}, 0))
            self._set(first=self.state.versions, league=self.rival.kept(self.state, 0))
        else:
            self.machines.learner.load(resume.folder)
            self.state = resume.state
            self.display.note(f"resumed at step {self.machines.learner.step} of {self.schedule.total}")

    def _train(self) -> None:
        """Step after step; whatever ends it, save what was learnt."""
        try:
            while self.machines.learner.step < self.schedule.total:
                self.step()
        except Exception:
            self._keep()
            raise
        self._keep()

    def step(self) -> None:
        """One step of the run, from top to bottom."""
        learner = self.machines.learner
        played = self._play_step(learner.step)
        streams = self._check(played)
        with self.log.timed("update"):
            update = learner.update(streams, self._interrupt.check)
        self._publish(self._log(played, update))
        self._evaluate_if_due(learner.step)
        if self.schedule.saves(learner.step):
            self._save(learner.step)

    def _rehearse(self) -> None:
        """Run the worst case first: what does not fit in memory fails now, not after hours."""
        with self.log.timed("rehearse"):
            train = self.config.train
            prompts = [challenge_prompt(problem, "") for problem in self.problems]
            longest = max(len(self.machines.renderer.render(prompt).ids) for prompt in prompts)
            self.machines.learner.rehearse(longest + train.max_peek_tokens, train.max_completion_tokens)

    # -- a step, part by part -----------------------------------------------------------------------------------------

    def _play_step(self, step: int) -> Played:
        """Play the problems of a step; with `train.staleness`, begin the next steps too."""
        with self.log.timed("play"):
            for number in self._next(step):
                flight = self._flight(number)
                self.flights.begin(number, partial(self._play, flight))
            played = self._draw(self.flights.land(step, partial(self._play, self._flight(step))))
        with self.log.timed("check"):  # before engines sleep
            for warning in self.machines.attest(self._flight(step).versions.values()):
                self.display.note(warning)
        if not self.ahead:
            self.machines.rest()
        return played

    def _check(self, played: Played) -> Sequence[Stream]:
        """The streams to learn from, once they are known to be what this step's versions drew and a verifier judged."""
        with self.log.timed("check"):
            check_verdicts(played.streams, self.run.path, self.config.verifier)
            streams = trained_streams(played, self.game)
            check_versions(streams, self._flight(played.step).versions)
        return streams

    def _next(self, step: int) -> range:
        """The steps that play from here: this one, and those that are played ahead."""
        return range(step, min(step + self.ahead + 1, self.schedule.total))

    def _flight(self, step: int) -> Flight:
        """Who plays a step: whoever did when it began, which may have been before a resume; else the newest versions.

        What began is in the state, and so in the checkpoint, until it was learnt from.
        """
        for flight in self.state.flights:
            if flight.step == step:
                return flight
        seats = dict(self.rival.seats(self.state, step))
        flight = Flight(step=step, began=self.machines.learner.step, versions=seats)
        if self.ahead:
            self._set(flights=(*self.state.flights, flight))
        return flight

    async def _play(self, flight: Flight) -> Played:
        """One step of the game by the versions of its flight, whatever is published meanwhile."""
        sampler = Seated(self.machines.sampler, flight.versions, flight.step)
        played = await play(self.batch(flight.step), flight.step, self.game, sampler, self.machines.verify)
        return replace(played, staleness=flight.staleness)

    def _draw(self, work: Coroutine[Any, Any, T]) -> T:
        """Run what draws until it is done or the run is to stop."""
        try:
            return self._runner.run(self._interrupt.watching(self.machines.attend(work, self.state.versions)))
        finally:
            work.close()  # a signal may have come before it began
            self._show_notes()

    def _show_notes(self) -> None:
        for note in self.machines.notes():
            self.display.note(note)

    def _log(self, played: Played, update: Update) -> list[Version]:
        """Name the versions that moved, write the step down, check the health of the run; return those versions."""
        done, before = update.step + 1, self.state.versions
        self._set(versions=self.publisher.name(before, done))
        left = tuple(flight for flight in self.state.flights if flight.step >= done)
        self._set(league=self.rival.kept(self.state, done), flights=left)
        self.log.write(played, update)
        self.log.check_health()
        self._interrupt.check()  # a signal from the keyboard reached the engines too: they may be gone
        return [version for version in self.state.versions.values() if version not in before.values()]

    def _publish(self, new: Sequence[Version]) -> None:
        """Hand the adapters that moved to the engines."""
        with self.log.timed("publish"):
            self.publisher.publish(new, self.state.versions, self.state.first, self.state.league)
        self._show_notes()

    # -- problems -----------------------------------------------------------------------------------------------------

    def batch(self, step: int) -> list[Problem]:
        """The problems of a step: a function of the seed alone, so that nothing needs to be saved."""
        epoch, place = divmod(step, self.schedule.steps_per_epoch)
        size = self.config.train.problems_per_step
        return list(self._order(epoch)[place * size : (place + 1) * size])

    @lru_cache(maxsize=2)  # noqa: B019 - one Training per process, and it lives as long as the process
    def _order(self, epoch: int) -> tuple[Problem, ...]:
        seed = self.config.train.seed
        return tuple(
            sorted(self.problems, key=lambda problem: (seed_for(seed, "order", epoch, problem.id), problem.id))
        )

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def _evaluate_if_due(self, done: int) -> None:
        """Evaluate at the points of the schedule, once: a run that was stopped while it evaluated does so now."""
        if done in self.schedule.points and all(point.step != done for point in self.state.points):
            self._evaluate(done)

    def _evaluate(self, done: int) -> None:
        """Measure on dev and choose a direction; measure on held-out for the curve alone, if the config says so."""
        self.display.note(f"evaluating step {done} on {len(self.data.dev)} dev problems")
        counts = self._counts(
            self.data.dev, systems(self.game, self.state.first if self.schedule.meets_first(done) else {})
        )
        drawn = self.config.eval.curve == "held_out"
        held_out = self._counts(self.data.held_out, systems(self.game, {})) if drawn else None
        direction, score = choose(counts)
        point = Point(step=done, direction=direction, score=score, systems=counts, held_out=held_out)
        self._set(points=(*self.state.points, point))
        self.run.write_points(self.state.points)
        self.display.point(point)

    def _counts(self, problems: Sequence[Problem], wanted: Mapping[str, System]) -> dict[str, SystemCounts]:
        """Every system on these problems."""
        with self.log.timed("eval"):
            evaluator = self._evaluator()
            work = measure(problems, wanted, evaluator, self.config.eval.samples)
            counts = self._draw(self.flights.beside(work))
        check_counted(counts, evaluator.failures, self.run.path, self.config.verifier)
        return counts

    def _evaluator(self) -> Evaluator:
        settings, train = self.config.eval, self.config.train
        sampling = Sampling(settings.temperature, settings.top_p, settings.max_completion_tokens)
        machines, shown = self.machines, self.game.show_code
        return Evaluator(machines.sampler, machines.verify, sampling, train.max_peek_tokens, train.seed, shown)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self, done: int) -> None:
        with self.log.timed("save"):
            self.run.save(done, self._write, self.state)
            self.run.prune(self.config.save.keep, self.schedule.points)
            self._deploy()

    def _keep(self) -> None:
        """Save the last whole step if it is not saved yet."""
        learner = self.machines.learner
        done = learner.step
        if not (learner.consistent and self.log.steps == done):
            return
        try:
            if self.run.checkpoint(done) is None:
                self.display.note(f"saving step {done}")
                self.run.save(done, self._write, self.state)
            self._deploy()
        except (OSError, AgonError) as error:
            self.display.note(f"step {done} could not be saved: {error}")

    def _write(self, folder: Path) -> None:
        """Fill a checkpoint: the learner's own files, and the versions that play what is in flight."""
        self.machines.learner.save(folder)
        self.publisher.copy(self._earlier(), folder / FLIGHTS)

    def _earlier(self) -> list[Version]:
        """The versions in flight that are neither current nor kept for the whole run."""
        flying = dict.fromkeys(version for flight in self.state.flights for version in flight.versions.values())
        kept = {*self.state.versions.values(), *self.state.first.values(), *self.state.league}
        return [version for version in flying if version not in kept]

    def _deploy(self) -> None:
        """Put in `pair/` what `save.pair` names: the last checkpoint, or the best on dev where there is one."""
        best = best_point(self.state.points) if self.config.save.pair == "best" else None
        step = best.step if best else self.machines.learner.step
        try:
            versions = self.run.saved_state(step).run.versions
        except CheckpointError as error:
            self.display.note(f"pair/ stays as it was: checkpoint of step {step}: {error.message}")
            return
        folder = folder_of(self.run.checkpoints, step)
        self.run.write_pair(folder / "a", folder / "b", self._pair_info().at(step, versions, self.state.points))

    def _pair_info(self) -> PairInfo:
        """What is known of every pair of this run."""
        model = self.config.model
        return PairInfo(
            versions=self.state.versions,
            base=model.name,
            base_revision=model.revision,
            base_hash=self.run.manifest.base_hash,
            quantize=model.quantize,
            prompts_hash=PROMPTS_HASH,
            chat_template_hash=self.machines.renderer.hash,
            code=any(problem.is_code for problem in self.problems),
            show_code=self.game.show_code,
            arm=self.config.arm,
            rival=self.config.rival.kind,
            seed=self.config.train.seed,
        )

    def _set(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
