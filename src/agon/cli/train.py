"""`agon train`: start a run, or go on with one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.parser import config_arguments, json_argument
from agon.errors import RunDirError

if TYPE_CHECKING:
    from agon.config import Config
    from agon.data import Splits
    from agon.rundir import RunDir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser, "a YAML file, or with --resume a run directory")
    parser.add_argument("--name", help="name of the run; by default made of arm, model and seed")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs live (default: runs)")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run if it exists, exactly where it stopped"
    )
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the run reached its end, 130 when it was interrupted and saved."""
    from agon.data import splits
    from agon.training.display import scoreboard
    from agon.training.loop import Training
    from agon.training.machines import build
    from agon.training.schedule import Schedule
    from agon.training.trackers import check
    from agon.verify import check_verifier

    config, where = _target(args)
    check(config.report_to)
    check_verifier(config.verifier)
    parts = splits(config.data)
    schedule = Schedule.of(config, len(parts.train))
    leads = int(os.environ.get("RANK", "0")) == 0  # set by torchrun and `accelerate launch`
    directory = _directory(where, config, parts, args.resume) if leads else _awaited(where)
    watch = scoreboard(schedule.total, json=args.json, trackers=config.report_to, run=directory) if leads else Silent()
    machines = build(config, schedule.total)
    try:
        finished = Training(config, directory, parts.train, parts.dev, machines, watch).go()
    finally:
        machines.close()
        watch.close()
    watch.say(_next(directory.path, finished))
    return 0 if finished else 130


def _target(args: argparse.Namespace) -> tuple[Config, Path]:
    """The config, and the run directory it goes to. A run directory brings its own config."""
    from agon.config import load

    given = Path(args.config)
    if (given / "config.yaml").is_file():
        if not args.resume:
            raise RunDirError(f"{given} is a run directory", fix=f"go on with it: agon train {given} --resume")
        return load(given / "config.yaml", args.overrides), given
    config = load(given, args.overrides)
    return config, args.out / (args.name or default_name(config))


def default_name(config: Config) -> str:
    """Arm, base and seed: what tells runs of one study apart."""
    base = config.model.name.rsplit("/", 1)[-1].replace(":", "-").lower()
    return f"{config.arm}-{base}-s{config.train.seed}"


def _directory(path: Path, config: Config, parts: Splits, resume: bool) -> RunDir:
    from agon.config import resolved
    from agon.rundir import RunDir

    manifest = _manifest(config, parts)
    if resume and path.exists():
        directory = RunDir.open(path)
        directory.check_config(resolved(config))
        for sentence in directory.check_manifest(manifest):
            print(sentence, file=sys.stderr)
        return directory
    return RunDir.create(path.parent, path.name, resolved(config), manifest)


def _awaited(path: Path, patience: float = 600.0) -> RunDir:
    """The directory that the leading process makes: it appears whole, so its config is enough to know it is there."""
    from agon.rundir import RunDir

    deadline = time.monotonic() + patience
    while not (path / "config.yaml").is_file() and time.monotonic() < deadline:
        time.sleep(0.2)
    return RunDir.open(path)


class Silent:
    """What the other processes show: one scoreboard is enough."""

    def step(self, record: Any, timing: Any) -> None:
        pass

    def point(self, point: Any) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

    def close(self) -> None:
        pass


def _manifest(config: Config, parts: Splits) -> dict[str, Any]:
    from agon.engine.build import base_hash

    counts = {name: len(problems) for name, problems in parts.parts.items()}
    return {
        "arm": config.arm,
        "seeds": {"train": config.train.seed, "split": config.data.split_seed},
        "base": {"sha256": base_hash(config.model)},
        "data": {"hashes": parts.hashes, "counts": counts, "revisions": parts.revisions},
    }


def _next(path: Path, finished: bool) -> str:
    """What a person would type now."""
    if not finished:
        return f"stopped and saved; go on with: agon train {path} --resume"
    which = "best pair on dev" if (path / "points.json").exists() else "newest pair"
    return f"done: {path}/pair holds the {which}; measure it: agon eval {path}"
