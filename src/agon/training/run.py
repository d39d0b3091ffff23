"""Start or resume a run from Python: what `agon train` calls."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from agon.config import Config, anchored_config, load_config, overrides_of
from agon.config.rival import LEARNS
from agon.data import Splits, splits
from agon.doors import door
from agon.engine.backend import backend_of
from agon.engine.base import base_hash
from agon.engine.base_config import revision_of
from agon.engine.probe import cuda_works
from agon.engine.shipped import init_hashes
from agon.errors import LEARNER, AgonError, InputError, RunDirError, naming_extras, need
from agon.eval.consent import check_consent, to_name, words
from agon.plan.schedule import Schedule, check_step
from agon.rundir import RunDir
from agon.rundir.files import remove_tree
from agon.rundir.find import no_run
from agon.rundir.manifest import SplitFacts, Start, manifest_of
from agon.training.display import open_display
from agon.training.log import Display, Silent
from agon.training.loop import Training
from agon.training.machines import build
from agon.training.rivals import Rival
from agon.training.rows import Rows, changed_by, check_whole, kept_in, staged
from agon.training.trackers import check
from agon.verify import check_verifier
from agon.verify.custom import Function, find
from agon.verify.given import call_with, check_given, judging_by, names_of

Show = Literal["auto", "json", "nothing"]
ARGUMENTS = ("config", "train", "dev", "held_out", "reward", "weights", "name", "out", "resume", "show")
RESUME = "agon.train({!r}, resume=True, reward={})"


@naming_extras()
def train(
    config: Config | str | Path,
    *overrides: str,
    train: Rows | None = None,
    dev: Rows | int | None = None,
    held_out: Rows | int | None = None,
    reward: Function | Sequence[Function] | None = None,
    weights: Sequence[float] = (),
    name: str | None = None,
    out: str | Path = "runs",
    resume: bool = False,
    show: Show = "auto",
    **keys: Any,
) -> RunDir:
    """Train a pair, or resume a run, and return its directory.

    `config` is a YAML file, a `Config`, or with `resume` a run directory. Keys of the config are overridden as texts,
    `"train.max_steps=50"`, or by name, `**{"train.max_steps": 50}`. A run that is interrupted saves and raises
    KeyboardInterrupt.

    `train`, `dev` and `held_out` are rows instead of the config's data: lists of dicts, or data sets; the run keeps
    them. A number for `dev` or `held_out` takes so many of the training rows. A split without rows stays the config's
    only where an override names its source (`data.dev.preset=gsm8k`). `reward` is a function instead of the config's
    verifier, in TRL's signature or ours: a number of at least `reward.right` is right. Of several, the first judges,
    and what the others return is added to the reward, each times its weight. A resume and an evaluation need them
    again.
    """
    overrides += tuple(overrides_of(keys, "agon.train", ARGUMENTS))
    rows = {"train": train, "dev": dev, "held_out": held_out}
    with staged(rows, judged=reward is not None) as (folder, sources), judging_by(reward):
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
    check_one_process(os.environ)
    backend = backend_of(target.config)
    if backend.trains_here:
        need(*LEARNER)
        cuda_works()
    check(target.config.report_to)
    functions = [target.config.verifier, *target.config.reward.terms]
    check_given(functions, str(target.path), RESUME)
    check_verifier(target.config.verifier, target.config.sandbox.settings())
    for term in target.config.reward.terms:
        find(term)
    parts = splits(target.config.data)
    if rows:
        data = kept_in(target.path, target.config.data, rows)
        target = replace(target, config=target.config.model_copy(update={"data": data}))
    check_step(target.config, len(parts.train))
    schedule = Schedule.of(target.config, len(parts.train))
    new = not target.path.exists()
    if not new:
        target = replace(target, config=_as_started(target.config, RunDir.open(target.path).config))
    elif backend.trains_here:
        target = replace(target, config=_at_revision(target.config))
    run, changes = _open(target, parts, resume, rows)
    try:
        display = _display(show, schedule.total, target.config, run)
        for change in changes:
            display.note(change)
        rival: Rival = door("agon.rivals", target.config.rival.kind)(target.config)
        with closing(display), closing(build(target.config, schedule.total)) as machines:
            for note in machines.lost:
                display.note(note)
            finished = Training(target.config, run, parts, machines, display, rival).go()
    except Exception as error:
        if new:
            _remove(run, error, target.words)
        raise
    if not finished:
        again = words(to_name(target.config, parts.parts, trains=True))
        raise KeyboardInterrupt(f"stopped and saved; resume with: agon train {run.path} --resume{again}")
    return run


def check_one_process(environ: Mapping[str, str]) -> None:
    """Refuse to be one of several processes of torchrun or accelerate: each would train a run of its own."""
    if (launched := environ.get("WORLD_SIZE", "1")) != "1":
        raise InputError(
            f"a run is one process, and torchrun or accelerate started {launched}",
            fix="start it as `agon train ...`; engines use the other GPUs of this machine (sampler.replicas=N) or of "
            "servers that see the run's folder (sampler.urls), and a service trains a base that is too large for one "
            "GPU (sampler.engine=tinker)",
        )


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
    named = to_name(config, run.manifest.data.hashes, trains=True)
    check_consent(path, named, overrides, f"agon train {path} --resume")
    return config


def default_name(config: Config) -> str:
    """Arm, rival if it does not learn, base and seed: what tells runs of one study apart."""
    base = config.model.name.rstrip("/").rsplit("/", 1)[-1].replace(":", "-").lower()
    arm = config.arm if config.rival.kind == LEARNS else f"{config.arm}-{config.rival.kind}"
    return f"{arm}-{base}-s{config.train.seed}"


def _open(target: _Target, parts: Splits, resume: bool, rows: Path | None = None) -> tuple[RunDir, list[str]]:
    """The run directory, new or checked; and what has changed since it was started."""
    config, facts = target.config, _facts(parts)
    start = _start(config)
    if not (resume and target.path.exists()):
        _check_free(target, rows)
        return RunDir.create(target.path.parent, target.path.name, config, facts, start, rows), []
    run = RunDir.open(target.path)
    with run.lock():
        drift = run.check_manifest(manifest_of(config, facts, start))
        changed = run.change_config(config)
    return run, [*drift, *(f"changed: {change.key} {change.old} -> {change.new}" for change in changed)]


def _check_free(target: _Target, rows: Path | None) -> None:
    """Refuse a name that is taken in words of Python, where rows or functions say that it is Python."""
    again = call_with([target.config.verifier, *target.config.reward.terms], str(target.path), RESUME)
    if target.path.exists() and (rows or again):
        fix = f"choose a different name=, or resume with: {again or f'agon.train({str(target.path)!r}, resume=True)'}"
        raise RunDirError(f"{target.path} already exists", fix=fix)


def _at_revision(config: Config) -> Config:
    """The config with the commit that its base is loaded at now: a run that is resumed loads the same."""
    model = config.model
    return config.model_copy(update={"model": model.model_copy(update={"revision": revision_of(model)})})


def _as_started(config: Config, started: Config) -> Config:
    """The config of a resumed run: where it names the same base and no revision, that of its start."""
    new, old = config.model, started.model
    if new.name != old.name or new.revision is not None:
        return config
    return config.model_copy(update={"model": new.model_copy(update={"revision": old.revision})})


def _start(config: Config) -> Start:
    """What the run starts from, by hash."""
    model, loss = config.model, backend_of(config).loss()
    return Start(base=base_hash(model), init=init_hashes(model.init), loss=loss)


def _display(show: Show, total: int, config: Config, run: RunDir) -> Display:
    if show == "nothing":
        return Silent()
    return open_display(total, json=show == "json", trackers=config.report_to, run=run)


def _facts(parts: Splits) -> SplitFacts:
    counts = {name: len(problems) for name, problems in parts.parts.items()}
    return SplitFacts(hashes=parts.hashes, counts=counts, revisions=parts.revisions)
