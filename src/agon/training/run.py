"""Start or resume a run from Python: what `agon train` calls."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from agon.config import Config, Model, anchored_config, load_config
from agon.config.rival import LEARNS
from agon.data import Splits, splits
from agon.doors import door
from agon.engine.backend import backend_of
from agon.engine.base import base_hash
from agon.engine.base_config import revision_of
from agon.engine.shipped import init_hashes
from agon.errors import LEARNER, AgonError, InputError, RunDirError, RunError, naming_extras, need
from agon.eval.consent import check_consent
from agon.plan.schedule import Schedule, check_step
from agon.rundir import RunDir
from agon.rundir.files import remove_tree
from agon.rundir.find import no_run
from agon.rundir.manifest import SplitFacts, WeightHashes, manifest_of
from agon.rundir.own import remember
from agon.training.display import open_display
from agon.training.log import Display, Silent
from agon.training.loop import Training
from agon.training.machines import build, own_share
from agon.training.processes import PeerError
from agon.training.rivals import Rival
from agon.training.rows import Rows, changed_by, check_whole, kept_in, staged
from agon.training.trackers import check
from agon.types import Policy
from agon.verify import check_verifier
from agon.verify.custom import Function, files_of, find
from agon.verify.given import call_with, check_given, judging_by, names_of

Show = Literal["auto", "json", "nothing"]
PATIENCE = 600.0
"""Seconds that other processes wait for the first one to make the run directory."""
RESUME = "agon.train({!r}, resume=True, reward={})"


@naming_extras()
def train(
    config: Config | str | Path,
    *overrides: str,
    train: Rows | None = None,
    dev: Rows | None = None,
    held_out: Rows | None = None,
    reward: Function | Sequence[Function] | None = None,
    weights: Sequence[float] = (),
    name: str | None = None,
    out: str | Path = "runs",
    resume: bool = False,
    show: Show = "auto",
) -> RunDir:
    """Train a pair, or resume a run, and return its directory.

    `config` is a YAML file, a `Config`, or with `resume` a run directory; `overrides` are `section.key=value`. A run
    that is interrupted saves and raises KeyboardInterrupt.

    `train`, `dev` and `held_out` are rows instead of the config's data: lists of dicts, or data sets; the run keeps
    them. A split without rows stays the config's only where an override names its source (`data.dev.preset=gsm8k`).
    `reward` is a function instead of the config's verifier, in TRL's signature or ours: a number of at least
    `reward.right` is right. Of several, the first judges, and what the others return is added to the reward, each times
    its weight. A resume and an evaluation need them again.
    """
    rows = {"train": train, "dev": dev, "held_out": held_out}
    with staged(rows) as (folder, sources), judging_by(reward):
        if folder and resume:
            raise RunDirError("a run keeps its rows", fix="resume it without train, dev and held_out")
        target = _target(config, overrides, [*sources, *_named(reward, weights)], name, Path(out), resume)
        if folder:
            check_whole(target.config.data, [split for split, some in rows.items() if some is not None], overrides)
        return _train(target, folder, resume, show)


def _named(reward: Function | Sequence[Function] | None, weights: Sequence[float]) -> list[str]:
    """The overrides that name functions given from Python."""
    judge, *terms = names_of(reward) or [""]
    if weights and len(weights) != len(terms):
        fix = "give one weight for each function after the first, beside the 2 for a right answer"
        if len(weights) == len(terms) + 1 and weights[0] > 0:
            scaled = [float(f"{2 * weight / weights[0]:.3g}") for weight in weights[1:]]
            fix = f"the first function's weight is always 2: weights={scaled} keeps the ratio"
        count = f"{len(terms)} further function" + "s" * (len(terms) != 1)
        raise InputError(f"{len(weights)} weights for {count} after the first, which decides what is right", fix=fix)
    found = {"verifier": judge, "reward.terms": terms, "reward.weights": list(weights)}
    return [f"{key}={json.dumps(value)}" for key, value in found.items() if value]


def _train(target: _Target, rows: Path | None, resume: bool, show: Show) -> RunDir:
    backend = backend_of(target.config)
    if backend.trains_here:
        need(*LEARNER)
    check(target.config.report_to)
    here = own_share(target.config.sandbox.settings(), backend)
    functions = [target.config.verifier, *target.config.reward.terms]
    check_given(functions, str(target.path), RESUME)
    check_verifier(target.config.verifier, None if target.config.cluster.verifiers else here)
    for term in target.config.reward.terms:
        find(term)
    parts = splits(target.config.data)
    if rows:
        data = kept_in(target.path, target.config.data, rows)
        target = replace(target, config=target.config.model_copy(update={"data": data}))
    check_step(target.config, len(parts.train))
    schedule = Schedule.of(target.config, len(parts.train))
    first, new = is_first_process(), not target.path.exists()
    if first and new and backend.trains_here:
        target = replace(target, config=_at_revisions(target.config))
    elif first and not new:
        target = replace(target, config=_as_started(target.config, RunDir.open(target.path).config))
    run, changes = _open(target, parts, resume, rows) if first else (_awaited(target.path), [])
    if not first:
        target = replace(target, config=_as_started(target.config, run.config))
    remember(run.path / "config.yaml", *files_of(functions))
    try:
        display = _display(show, schedule.total, target.config, run) if first else Silent()
        for change in changes:
            display.note(change)
        rival: Rival = door("agon.rivals", target.config.rival.kind)(target.config)
        with closing(display), rival.open(run.path), closing(build(target.config, schedule.total)) as machines:
            for note in machines.lost:
                display.note(note)
            finished = Training(target.config, run, parts, machines, display, rival).go()
    except Exception as error:
        if isinstance(error, PeerError) and not first:
            raise SystemExit(RunError.exit_code) from None  # the process that failed reports it, and the first one
        if first and new:
            _remove(run, error, target.words)
        raise
    if not finished:
        raise KeyboardInterrupt(*[f"stopped and saved; resume with: agon train {run.path} --resume"] * first)
    return run


def is_first_process() -> bool:
    """Whether this process writes and prints; torchrun and `accelerate launch` set its rank."""
    return os.environ.get("RANK", "0") == "0"


def _remove(run: RunDir, error: Exception, words: Sequence[str]) -> None:
    """Delete the directory of a run that failed before its first step: the same command can be typed again.

    One that another process has begun to train in meanwhile, after a `--resume`, stays as it is.
    """
    try:
        with run.lock():
            if any(run.checkpoints.glob("*")):
                return
            remove_tree(run.path)
    except RunDirError:
        return
    if isinstance(error, AgonError):
        fix = error.fix.replace(f"{run.path}/config.yaml", shlex.join(words))
        error.set_fix(re.sub(r"`?agon train \S+ --resume`?", "the same command again", fix))


@dataclass(frozen=True, slots=True)
class _Target:
    config: Config
    path: Path
    words: Sequence[str] = ("CONFIG",)
    """The config file and its overrides, as they were typed."""


def _target(
    config: Config | str | Path,
    overrides: tuple[str, ...],
    objects: list[str],
    name: str | None,
    out: Path,
    resume: bool,
) -> _Target:
    """The config, and the run directory it goes to. A run directory brings its own config."""
    if isinstance(config, Config):
        if overrides:
            raise InputError("overrides go with a config file", fix="change a Config with model_copy")
        own = changed_by(anchored_config(config), objects)
        return _Target(own, out / (name or default_name(own)))
    if not isinstance(config, str | os.PathLike):
        message = f"a {type(config).__name__} is neither a config file nor an agon.Config"
        raise InputError(message, fix="name a YAML file, and change its values by overrides: 'train.max_steps=2'")
    path = Path(config)
    if (path / "config.yaml").is_file():
        if not resume:
            raise RunDirError(f"{path} is a run directory", fix=f"resume it: agon train {path} --resume")
        return _Target(_config_of(path, overrides), path)
    if resume and not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise no_run(path)
    loaded = load_config(path, [*overrides, *objects])
    return _Target(loaded, out / (name or default_name(loaded)), (str(path), *overrides))


def _config_of(path: Path, overrides: tuple[str, ...]) -> Config:
    """The config of a run to resume; what a stranger's names must be named again before anything is done with it."""
    run = RunDir.open(path)
    _ = run.config  # complete: nothing else is read for it, as `extends` would
    config = load_config(path / "config.yaml", overrides)
    check_consent(path, config, overrides, run.manifest.data.hashes, command="agon train {} --resume", trains=True)
    return config


def default_name(config: Config) -> str:
    """Arm, rival if it does not learn, base and seed: what tells runs of one study apart."""
    names = [config.model.name, *filter(None, [config.model.b.name])]
    base = "-".join(name.rstrip("/").rsplit("/", 1)[-1].replace(":", "-").lower() for name in names)
    arm = config.arm if config.rival.kind == LEARNS else f"{config.arm}-{config.rival.kind}"
    return f"{arm}-{base}-s{config.train.seed}"


def _open(target: _Target, parts: Splits, resume: bool, rows: Path | None = None) -> tuple[RunDir, list[str]]:
    """The run directory, new or checked; and what has changed since it was started."""
    config, facts = target.config, _facts(parts)
    weights = _weights(config.model)
    if not (resume and target.path.exists()):
        _check_free(target, rows)
        return RunDir.create(target.path.parent, target.path.name, config, facts, weights, rows), []
    run = RunDir.open(target.path)
    with run.lock():
        drift = run.check_manifest(manifest_of(config, facts, weights))
        changed = run.change_config(config)
    return run, [*drift, *(f"changed: {change.key} {change.old} -> {change.new}" for change in changed)]


def _check_free(target: _Target, rows: Path | None) -> None:
    """Refuse a name that is taken in words of Python, where rows or functions say that it is Python."""
    again = call_with([target.config.verifier, *target.config.reward.terms], str(target.path), RESUME)
    if target.path.exists() and (rows or again):
        fix = f"choose a different name=, or resume with: {again or f'agon.train({str(target.path)!r}, resume=True)'}"
        raise RunDirError(f"{target.path} already exists", fix=fix)


def _at_revisions(config: Config) -> Config:
    """The config with the commits that its bases are loaded at now: a run that is resumed loads the same."""
    model = config.model
    update: dict[str, object] = {"revision": revision_of(model)}
    if model.two_bases:
        update["b"] = model.b.model_copy(update={"revision": revision_of(model.of(Policy.B))})
    return config.model_copy(update={"model": model.model_copy(update=update)})


def _as_started(config: Config, started: Config) -> Config:
    """The config of a resumed run: where it names the same bases and no revisions, those of its start."""
    new, old = config.model, started.model
    update: dict[str, object] = {}
    if new.name == old.name and new.revision is None:
        update["revision"] = old.revision
    if new.b.name == old.b.name and new.b.revision is None:
        update["b"] = old.b
    return config.model_copy(update={"model": new.model_copy(update=update)})


def _weights(model: Model) -> WeightHashes:
    """What the run starts from, by hash."""
    b = base_hash(model.of(Policy.B)) if model.two_bases else None
    return WeightHashes(base=base_hash(model), base_b=b, init=init_hashes(model.init))


def _awaited(path: Path, patience: float = PATIENCE) -> RunDir:
    """The directory that the first process makes; it appears atomically, so its config is enough to look for."""
    deadline = time.monotonic() + patience
    while not (path / "config.yaml").is_file() and time.monotonic() < deadline:
        time.sleep(0.2)
    return RunDir.open(path)


def _display(show: Show, total: int, config: Config, run: RunDir) -> Display:
    if show == "nothing":
        return Silent()
    return open_display(total, json=show == "json", trackers=config.report_to, run=run)


def _facts(parts: Splits) -> SplitFacts:
    counts = {name: len(problems) for name, problems in parts.parts.items()}
    return SplitFacts(hashes=parts.hashes, counts=counts, revisions=parts.revisions)
