"""What is evaluated: a run, a pair, or a bare model, and the problems it is asked.

A run brings its own config and data; a pair or a model needs a config beside it. What a run may not do unasked is in
`consent.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agon.config import Config, Model, Source, load_config, resolved
from agon.config.arms import ARMS, resolve
from agon.config.rival import rival_of, row_name
from agon.data import load, splits
from agon.data.generated import is_generated
from agon.engine.base import base_hash
from agon.errors import DataError, InputError, RunDirError
from agon.eval.consent import check_consent, to_name
from agon.game.prompts import PROMPTS_HASH
from agon.game.rules import Game
from agon.rundir import RunDir, read_bouts
from agon.rundir.directory import Step
from agon.rundir.find import check_one_run, name_one, no_run, runs_in, runs_near
from agon.rundir.pair import PairDir, read_pair
from agon.rundir.results import EvalSettings, RunFacts
from agon.types import Policy, Problem, Version

OWN = ("eval.", "sampler.", "sandbox.", "verifier=")
"""What may be set on the command line for a run: how it is measured, never what it was trained on. Any other key may
be named with the value that it has."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something to evaluate. `game` and `pair` are None for a bare model."""

    name: str
    config: Config
    out: Path
    pair: PairDir | None = None
    game: Game | None = None
    run: Path | None = None
    at_step: int | None = None
    """The step of the pair, where it is not the one in `pair/`."""

    @property
    def facts(self) -> RunFacts:
        """What a result says about where it comes from."""
        seed = self.config.train.seed
        if self.pair is None:
            return RunFacts(name=self.name, seed=seed)
        arm = row_name(self.config.arm, self.pair.info.rival)
        return RunFacts(name=self.name, seed=seed, arm=arm, step=self.pair.info.step)

    @property
    def adapters(self) -> Mapping[Policy, tuple[Version, Path]]:
        """Version and folder of each policy; empty for a bare model."""
        pair = self.pair
        return {p: (pair.info.versions[p], pair.adapter(p)) for p in Policy} if pair else {}

    def settings(self, engine: str) -> EvalSettings:
        """All that a trial depends on, besides its problem and its number."""
        config = self.config
        return EvalSettings(
            base=config.model.name,
            base_hash=self.pair.info.base_hash if self.pair else base_hash(config.model),
            revision=config.model.revision,
            dtype=config.model.dtype,
            versions=self.pair.info.versions if self.pair else {},
            engine=engine,
            temperature=config.eval.temperature,
            top_p=config.eval.top_p,
            max_completion_tokens=config.eval.max_completion_tokens,
            max_peek_tokens=config.train.max_peek_tokens,
            seed=config.train.seed,
            verifier=config.verifier,
            show_code=config.game.show_code if config.verifier == "code" else None,
            time_factor=config.sandbox.time_factor if config.verifier == "code" else None,
            prompts=PROMPTS_HASH,
        )


def find(
    given: str,
    config: Path | None,
    overrides: Sequence[str],
    *,
    url: str | None = None,
    data: str | None = None,
    step: Step | None = None,
) -> Target:
    """The run, pair or model that was named; `url` and `data` say that a run's own server and problems are not used.

    Of a run, the pair in `pair/`, or the one of a step.
    """
    path = Path(given)
    if (path / "config.yaml").is_file() and (path / "manifest.json").is_file():
        if config is not None:
            raise InputError(f"{given} is a run and brings its own config", fix="leave --config out")
        return _at_step(_run(path, overrides, url, data), step)
    if step is not None:
        raise InputError(f"{given} is not a run directory, so it has no steps", fix="leave --step out, or name a run")
    if (path / "agon.json").is_file():
        return _pair(path, _config_file(given, config), overrides)
    return _model(given, _config_file(given, config), overrides)


def _config_file(given: str, config: Path | None) -> Path:
    if config is None:
        if not Path(given).exists() and runs_in(Path(given).parent, depth=1):
            raise no_run(Path(given))
        check_one_run(Path(given))
        near = runs_near(Path(given)) if not Path(given).exists() else []
        run = name_one(near) if near else "name a run directory"
        fix = f"{run}, or say what to ask it: --config CONFIG.yaml brings data, verifier and sampler"
        raise InputError(f"{given} is not a run directory, so it has no config", fix=fix)
    return config


def _run(path: Path, overrides: Sequence[str], url: str | None, data: str | None) -> Target:
    run = RunDir.open(path)
    _ = run.config  # complete: nothing else is read for it, as `extends` would
    config = load_config(path / "config.yaml", overrides)
    foreign = [word for word in overrides if not word.startswith(OWN)]
    if foreign and config != load_config(path / "config.yaml", [word for word in overrides if word not in foreign]):
        fix = "set eval.*, sampler.* and sandbox.* only, or evaluate on different problems with --data"
        raise InputError(f"{foreign[0]} cannot be set: {path} was trained as it was", fix=fix)
    named = to_name(config, run.manifest.data.hashes, url=url, data=data)
    check_consent(path, named, overrides, f"agon eval {path}")
    if not (path / "pair").is_dir():
        raise RunDirError(f"{path} has no pair yet", fix=f"train it first: agon train {path} --resume")
    pair = read_pair(path)
    check_pair(pair, config.model)
    return Target(path.resolve().name, config, path / "evals", pair, config.rules(), path)


def _at_step(target: Target, step: Step | None) -> Target:
    """The same run with the pair of a step, if one is named."""
    if step is None or target.run is None or target.pair is None:
        return target
    pair = RunDir.open(target.run).pair_at(step)
    return replace(target, pair=pair, at_step=None if pair.info.step == target.pair.info.step else pair.info.step)


def _pair(path: Path, file: Path, overrides: Sequence[str]) -> Target:
    pair = read_pair(path)
    raw = resolved(load_config(file, overrides))
    of_pair = {"name": pair.info.base, "revision": pair.info.base_revision, "quantize": pair.info.quantize}
    raw["model"] |= of_pair
    raw["game"]["show_code"], raw["rival"] = pair.info.show_code, {}
    arm = pair.info.arm
    if arm and arm in ARMS and arm != raw["arm"]:
        raw |= {"arm": arm, "game": {key: raw["game"][key] for key in ("group_size", "format_weight", "show_code")}}
        if resolve(arm)["opponent"] != "rival":
            raw["eval"]["direction"] = "dev"  # the config's is for its own arm: this one has no second direction
    config = Config.model_validate(raw)
    check_pair(pair, config.model)
    name, game = path.resolve().name, replace(config.rules(), rival=rival_of(pair.info.rival).rivalry)
    return Target(name, config, Path("evals") / name, pair, game)


def check_pair(pair: PairDir, model: Model) -> None:
    """Refuse a pair that was trained on a different base, or with prompts that this version does not write."""
    if pair.info.quantize != model.quantize:
        message = f"{pair.path} was trained with model.quantize {pair.info.quantize}, the config has {model.quantize}"
        raise RunDirError(message, fix="evaluate it with the config it was trained with")
    if pair.info.base != model.name:
        message = f"{pair.path} was trained on {pair.info.base}, the config names {model.name}"
        raise RunDirError(message, fix="evaluate it with the config it was trained with")
    held = base_hash(model)
    if held and pair.info.base_hash is None:
        raise RunDirError(
            f"{model.name} is a folder here, and {pair.path} holds no hash of its weights: nothing shows that they "
            "are those it was trained on",
            fix=f"if it was trained on {model.name} from the Hub, rename the folder; else ask for a pair with a hash",
        )
    if held and held != pair.info.base_hash:
        message = f"the weights in {model.name} are not those that {pair.path} was trained on"
        raise RunDirError(message, fix="restore the base it was trained on")
    if pair.info.prompts_hash != PROMPTS_HASH:
        fix = "use the version of Agon that trained it"
        raise RunDirError(f"{pair.path} was trained with different prompts than this version writes", fix=fix)


def _model(given: str, file: Path, overrides: Sequence[str]) -> Target:
    config = load_config(file, overrides)
    named = any(word.startswith("model.revision=") for word in overrides)  # for this model
    revision = config.model.revision if named or given == config.model.name else None
    model = config.model.model_copy(update={"name": given, "revision": revision})
    name = given.rstrip("/").rsplit("/", 1)[-1].replace(":", "-")
    return Target(name, config.model_copy(update={"model": model}), Path("evals") / name)


# -- problems ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Questions:
    """The problems of an evaluation, under the name of its folder."""

    name: str
    problems: tuple[Problem, ...]
    trained_on: int = 0
    """How many of them the run was trained on."""


def problems_of(target: Target, data: str | None, split: str, limit: int | None) -> Questions:
    """The split of the config, or another set; with a limit, the first of them, in a folder of their own."""
    found = split_of(target.config, split, target.run) if data is None else _foreign(target, data, limit)
    name = split if data is None else Path(data.partition("=")[0]).stem.replace(":", "-")
    kept = found[:limit]
    if not kept:
        raise DataError(f"{data or split} holds no problem", fix="name a different set with --data")
    if limit is not None:
        name = f"{name}-{len(kept)}"
    return Questions(name, kept, _trained_on(target, kept))


def split_of(config: Config, split: str, run: Path | None) -> tuple[Problem, ...]:
    """The problems of a split; those of a run must be what they were when it was started."""
    found = splits(config.data)
    if run is not None:
        stored = RunDir.open(run).manifest.data.hashes.get(split)
        if stored not in (None, found.hashes[split]):
            fix = "restore the data that the run was started on, or name a different set with --data"
            raise DataError(f"{split} is not what it was when {run.name} was trained", fix=fix)
    return found.parts[split]


def _foreign(target: Target, data: str, limit: int | None) -> tuple[Problem, ...]:
    return tuple(load(_source(target, data, limit), seed=target.config.data.split_seed))


def _source(target: Target, data: str, limit: int | None) -> Source:
    """FILE, PRESET, or PRESET=FILE for a local copy of a preset."""
    preset, equals, path = data.partition("=")
    if Path(data).suffix in (".jsonl", ".json", ".parquet", ".csv") and (not equals or Path(data).exists()):
        return Source(path=data)
    held_out = target.config.data.held_out
    if is_generated(preset):
        options = held_out.options if held_out.named == preset else {}
        return Source(preset=preset, take=limit or held_out.take or 300, options=options)
    return Source(preset=preset, path=path or None)


def _trained_on(target: Target, problems: Sequence[Problem]) -> int:
    """How many of these problems stand in the bouts of the run."""
    if target.run is None or not (target.run / "bouts").is_dir():
        return 0
    trained = set(read_bouts(target.run, ["problem_id"])["problem_id"].to_pylist())
    return sum(problem.id in trained for problem in problems)
