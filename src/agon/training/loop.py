"""The run: batch, play, update, publish, log, evaluate, checkpoint, resume.

The learner owns the loop and calls two functions of `Training`: `streams_for_step` plays the game, `after_step`
publishes the new adapters and writes everything down. Whatever a step depends on comes from names (seeds) or from the
checkpoint, so that a run that was killed and resumed writes the same files as one that was not.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from agon.algorithm import play
from agon.config import Config
from agon.config.game import game_of
from agon.errors import RunError
from agon.eval.cascade import Table
from agon.eval.points import choose, measure, merge, systems
from agon.game.prompts import PROMPTS_HASH, challenge_prompt
from agon.protocols import Update
from agon.rundir import RunDir
from agon.rundir.checkpoint import folder_of
from agon.rundir.directory import Resume
from agon.rundir.files import remove_tree, write_json
from agon.rundir.pair import PairInfo
from agon.training.health import diagnose
from agon.training.interrupt import Interrupt, Interrupted
from agon.training.machines import Machines
from agon.training.schedule import Schedule, State
from agon.training.step_record import step_record
from agon.types import Bout, Direction, Played, Policy, Problem, Rollout, Sampling, Stream, seed_for

INFRA_WINDOW, INFRA_LIMIT = 100, 0.01
"""Above this share of rows without a verdict in this many steps, a run saves and stops: it would learn from a broken
machine."""


class Watch(Protocol):
    """Whoever looks on: a scoreboard, plain lines, JSON, trackers."""

    def step(self, record: Mapping[str, Any], timing: Mapping[str, Any]) -> None: ...

    def point(self, point: Mapping[str, Any]) -> None: ...

    def say(self, sentence: str) -> None: ...


class Training:
    """One run from where it stands to its end."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        train: Sequence[Problem],
        dev: Sequence[Problem],
        machines: Machines,
        watch: Watch,
    ) -> None:
        self.config, self.run, self.machines, self.watch = config, run, machines, watch
        self.problems, self.dev = tuple(train), tuple(dev)
        self.game = game_of(config)
        self.schedule = Schedule.of(config, len(train))
        self.state = State()
        self.seconds: dict[str, float] = {}
        self._told: set[str] = set()
        self._before: set[str] = set()
        self._runner = asyncio.Runner()
        self._interrupt = Interrupt()
        self._played: Played | None = None

    @property
    def leads(self) -> bool:
        """The process that writes."""
        return self.machines.learner.rank == 0

    # -- the run ------------------------------------------------------------------------------------------------------

    def go(self) -> bool:
        """Start or resume, train to the end; False when it was interrupted (everything is saved)."""
        with self.run.lock() if self.leads else nullcontext(), self._runner, self._interrupt:
            try:
                self._begin()
                self.machines.learner.fit(self.streams_for_step, self.after_step)
            except Interrupted:
                self.watch.say(f"interrupted: saving step {self.machines.learner.step}")
            done = self.machines.learner.step
            self._save(done)
            self._deploy()
        return done >= self.schedule.total

    def _begin(self) -> None:
        """Put every machine where the newest checkpoint says, or at the start."""
        self._rehearse()
        found: Resume = self.machines.learner.gather(self.run.resume() if self.leads else None)[0]
        for folder, reason in found.skipped:
            self.watch.say(f"skipped checkpoint {folder.name}: {reason}")
        if found.folder is None:
            self._publish(self._name(0))
            self.state.first = dict(self.state.versions)
        else:
            self.machines.learner.load(found.folder)
            self.state = State.from_dict(found.state["run"])
            self._publish(Policy)
            self.watch.say(f"resumed at step {self.machines.learner.step} of {self.schedule.total}")
        self._keep_first()
        self._evaluate_if_due(self.machines.learner.step)
        if found.folder is None:
            self._save(0)

    def _rehearse(self) -> None:
        """The worst case first: what does not fit in memory fails now, not after hours."""
        self.machines.rest()
        with self._timed("rehearse"):
            train = self.config.train
            prompts = (challenge_prompt(problem, "") for problem in self.problems)
            longest = max(len(self.machines.renderer.render(prompt).ids) for prompt in prompts)
            self.machines.learner.rehearse(longest + train.max_peek_tokens, train.max_completion_tokens)

    # -- what the learner calls ---------------------------------------------------------------------------------------

    def streams_for_step(self, step: int) -> Sequence[Stream]:
        """Play this process's problems."""
        with self._timed("play"):
            game = play(self.batch(step), step, self.game, self.machines.sampler, self.machines.verify)
            with self._kept(step):
                self._played = self._runner.run(self._interrupt.watching(game))
                self._recheck()
        self.machines.rest()
        self._began_update = time.perf_counter()
        return self._played.streams

    def after_step(self, update: Update) -> bool:
        """Publish, write down, look at the health of the run, evaluate and save when due; False to stop."""
        done = update.step + 1
        self.seconds["update"] = time.perf_counter() - self._began_update
        for alarm in self.machines.alarms(update.metrics):  # raises if the step learnt from another policy's samples
            self.watch.say(alarm)
        moved, stops = self._name(done), self._stops()
        with self._kept(done):
            try:
                if not stops:  # a signal from the keyboard reached the engine too: it may be gone, and is not needed
                    self._publish(moved)
            finally:
                self._log(update)
            if not stops:
                self._evaluate_if_due(done)
        if self.schedule.saves(done):
            self._save(done)
            self._deploy()
        return not (stops or self._stops())

    def _stops(self) -> bool:
        """Whether any process was asked to stop; all of them call this together."""
        return any(self.machines.learner.gather(self._interrupt.asked))

    @contextmanager
    def _kept(self, done: int) -> Iterator[None]:
        """When an engine or a verifier fails, save what was learnt before the run stops."""
        try:
            yield
        except RunError:
            if self.machines.learner.processes == 1:  # saving waits for all processes, and the others are fine
                self._save(done)
            raise

    # -- problems -----------------------------------------------------------------------------------------------------

    def batch(self, step: int) -> list[Problem]:
        """This process's problems of a step: a function of the seed alone, so that nothing needs to be saved."""
        epoch, place = divmod(step, self.schedule.steps_per_epoch)
        size = self.config.train.problems_per_step
        whole = self._order(epoch)[place * size : (place + 1) * size]
        return list(whole[self.machines.learner.rank :: self.machines.learner.processes])

    @lru_cache(maxsize=2)  # noqa: B019 - one Training per process, and it lives as long as the process
    def _order(self, epoch: int) -> tuple[Problem, ...]:
        seed = self.config.train.seed
        return tuple(
            sorted(self.problems, key=lambda problem: (seed_for(seed, "order", epoch, problem.id), problem.id))
        )

    # -- adapters -----------------------------------------------------------------------------------------------------

    def _name(self, done: int) -> list[Policy]:
        """Name every policy that moved after step and weights, and return these."""
        moved = []
        for policy in Policy:
            digest = self.machines.learner.hash(policy)[:8]
            if not self.state.versions.get(policy, "").endswith(f"-{digest}"):
                self.state.versions[policy] = f"{policy.value}@{done:06d}-{digest}"
                moved.append(policy)
        return moved

    def _publish(self, moved: Iterable[Policy]) -> None:
        """Hand the sampler every adapter that moved, from a folder of its own, and ask whether it draws from it."""
        with self._timed("publish"):
            for policy in moved:
                version = self.state.versions[policy]
                folder = self.run.path / "published" / version
                if self.leads:
                    self.machines.learner.export(policy, folder)
                self.machines.learner.gather(None)
                self.machines.sampler.publish(policy, version, folder)
            self._forget_old()
            self.machines.check(self.state.versions)

    def _recheck(self) -> None:
        """Trust nothing that a restarted engine drew before it is known to hold the right adapters."""
        if self.machines.recheck(self.state.versions):
            self.watch.say("the engine was started again; it samples from the same policies as before")

    def _keep_first(self) -> None:
        """The frozen first version stays live: a rival that does not move, to measure progress against."""
        for policy, version in self.state.first.items():
            folder = self.run.path / "published" / version
            self.machines.sampler.pin(policy, version, folder)

    def _forget_old(self) -> None:
        """Remove published folders that no engine can still be reading: neither live, nor first, nor of the step
        before."""
        kept = {*self.state.versions.values(), *self.state.first.values(), *self._before}
        self._before = set(self.state.versions.values())
        if self.leads:
            for folder in (self.run.path / "published").iterdir():
                if folder.name not in kept:
                    remove_tree(folder)

    # -- writing down -------------------------------------------------------------------------------------------------

    def _log(self, update: Update) -> None:
        assert self._played is not None
        plays = self.machines.learner.gather(bare(self._played))
        if self.leads:
            record = step_record(plays, update.metrics)
            timing = self._timing(update.step, record)
            with self._timed("write"):
                self.run.write_bouts(update.step, [bout for played in plays for bout in played.bouts], self.config.arm)
                self.run.steps.append(record)
                self.run.timings.append(timing)
            self.watch.step(record, timing)
        self._check_health()

    def _timing(self, step: int, record: Mapping[str, Any]) -> dict[str, Any]:
        spent, self.seconds = self.seconds, {}
        tokens = sum(entry["generated"] for entry in record["ledger"].values())
        return {
            "step": step,
            "seconds": {name: round(value, 4) for name, value in spent.items()},
            "tokens_per_second": round(tokens / spent["play"], 1) if spent.get("play") else None,
            "memory": dict(self.machines.learner.memory()),
            "canary": self.machines.gaps(),
        }

    def _check_health(self) -> None:
        """Say once what is wrong; stop when machines fail more often than answers can be trusted."""
        history = self.run.steps.records() if self.leads else []
        for sentence in diagnose(history):
            if sentence not in self._told:
                self._told.add(sentence)
                self.watch.say(sentence)
        broken: str | None = self.machines.learner.gather(verifier_failing(history[-INFRA_WINDOW:]))[0]
        if broken:
            self._save(self.machines.learner.step)
            raise RunError(broken, fix="run `agon doctor`, then `agon train RUN --resume`")

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def _evaluate_if_due(self, done: int) -> None:
        """Evaluate at the points of the schedule, once: a run that was stopped while it evaluated does so now."""
        if done in self.schedule.points and all(point["step"] != done for point in self.state.points):
            self._evaluate(done)

    def _evaluate(self, done: int) -> None:
        """Measure on dev, choose a direction, remember the best pair."""
        settings, learner = self.config.eval, self.machines.learner
        sampling = Sampling(settings.temperature, settings.top_p, settings.max_completion_tokens)
        table = Table(
            self.machines.sampler,
            self.machines.verify,
            sampling,
            self.config.train.max_peek_tokens,
            self.config.train.seed,
        )
        mine = self.dev[learner.rank :: learner.processes]
        with self._timed("eval"):
            wanted = systems(self.game, self.state.first if done else {})
            measured = self._runner.run(self._interrupt.watching(measure(mine, wanted, table, settings.samples)))
        self._recheck()
        results = merge(learner.gather(measured))
        direction, score = choose(results)
        point = {"step": done, "direction": direction and direction.value, "score": score, "systems": results}
        self.state.points = [*self.state.points, point]
        if self.state.best is None or score > self.state.best["score"]:
            self.state.best = {"step": done, "score": score, "direction": point["direction"], "versions": self._names()}
        if self.leads:
            # sorted keys: points that come back from a checkpoint must give the same bytes
            write_json(self.run.path / "points.json", json.loads(json.dumps(self.state.points, sort_keys=True)))
            self.watch.point(point)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self, done: int) -> None:
        with self._timed("save"):
            if self.leads:
                self.run.save(done, self.machines.learner.save, self.state.as_dict())
                self.run.prune(self.config.save.keep, self.schedule.points)
            self.machines.learner.gather(None)

    def _deploy(self) -> None:
        """Keep `pair/` at the best pair on dev; without evaluation points, at the newest."""
        newest: dict[str, Any] = {"step": self.machines.learner.step, "direction": None, "versions": self._names()}
        best = self.state.best or newest
        source = folder_of(self.run.checkpoints, best["step"])
        if self.leads and source.is_dir():
            self.run.write_pair(source / "a", source / "b", self._pair_info(best))

    def _names(self) -> dict[str, str]:
        return {policy.value: version for policy, version in self.state.versions.items()}

    def _pair_info(self, best: Mapping[str, Any]) -> PairInfo:
        model = self.config.model
        return PairInfo(
            versions={Policy(policy): version for policy, version in best["versions"].items()},
            base=model.name,
            base_revision=model.revision,
            base_hash=self.run.manifest.get("base", {}).get("sha256"),
            direction=Direction(best["direction"]) if best["direction"] else None,
            prompts_hash=PROMPTS_HASH,
            chat_template_hash=self.machines.renderer.hash,
            facts={
                "arm": self.config.arm,
                "step": best["step"],
                "dev_score": best.get("score"),
                "seed": self.config.train.seed,
            },
        )

    def _timed(self, part: str) -> Any:
        return Stopwatch(self.seconds, part)


def verifier_failing(history: Sequence[Mapping[str, Any]]) -> str | None:
    """What to say when too many rows of the last steps had no verdict; None while they can be trusted."""
    streams = [record[name] for record in history for name in ("standalone", "competitive") if record[name]]
    rows, failed = sum(stream["n"] for stream in streams), sum(record["infra_rows"] for record in history)
    if len(history) < INFRA_WINDOW or failed <= INFRA_LIMIT * rows:
        return None
    return f"{failed} of {rows} rows had no verdict in the last {INFRA_WINDOW} steps: the verifier is failing"


@dataclass(slots=True)
class Stopwatch:
    """Adds the seconds spent inside it to `seconds[part]`."""

    seconds: dict[str, float]
    part: str
    began: float = 0.0

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.part] = self.seconds.get(self.part, 0.0) + time.perf_counter() - self.began


def bare(played: Played) -> Played:
    """A play without token ids: what is logged and sent between processes."""

    def strip(rollout: Rollout) -> Rollout:
        return replace(rollout, completion=replace(rollout.completion, tokens=None))

    def strip_bout(bout: Bout) -> Bout:
        return replace(bout, draft=strip(bout.draft), challenge=strip(bout.challenge) if bout.challenge else None)

    def strip_stream(stream: Stream) -> Stream:
        return replace(stream, groups=tuple(tuple(strip(row) for row in group) for group in stream.groups))

    competitive = strip_stream(played.competitive) if played.competitive else None
    bouts = tuple(strip_bout(bout) for bout in played.bouts)
    return replace(played, bouts=bouts, standalone=strip_stream(played.standalone), competitive=competitive)
