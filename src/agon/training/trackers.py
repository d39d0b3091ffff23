"""Trackers that a run may report to: trackio, wandb, tensorboard. One small adapter, imported only when named.

With no tracker a run needs no account and no network. A tracker that cannot start is bad input; one that fails later is
reported once and dropped: it must not stop the run.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agon.errors import InputError

PROJECT = "agon"
PACKAGES = {"tensorboard": "tensorboard.summary"}
"""What to import where it is not the tracker's own name."""


class Tracker(Protocol):
    """Anything that takes numbers by name, step by step."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class WandbLike:
    """wandb, or trackio, which speaks the same language."""

    def __init__(self, package: str, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        place = {"dir": str(folder)} if package == "wandb" else {}
        self.package = _package(package)
        # both greet on stdout, which belongs to results
        with contextlib.redirect_stdout(sys.stderr):
            self.run = self.package.init(project=PROJECT, name=name, config=dict(config), **place)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            self.package.finish()


class Tensorboard:
    """Event files in the run directory, for `tensorboard --logdir runs`."""

    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        self.writer = _package(PACKAGES["tensorboard"]).Writer(str(folder / "tensorboard"))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for tag, value in values.items():
            self.writer.add_scalar(tag, value, step)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


TRACKERS: dict[str, Callable[[str, Path, Mapping[str, Any]], Tracker]] = {
    "trackio": lambda name, folder, config: WandbLike("trackio", name, folder, config),
    "wandb": lambda name, folder, config: WandbLike("wandb", name, folder, config),
    "tensorboard": Tensorboard,
}


def check(names: Sequence[str]) -> None:
    """Refuse trackers that are not installed, before anything is started."""
    for name in names:
        _package(PACKAGES.get(name, name))


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        fix = f"pip install {package}, or take it out of report_to"
        raise InputError(f"report_to names {package}, which cannot be imported: {error}", fix=fix) from error


class Trackers:
    """All trackers of a run."""

    def __init__(self, names: Sequence[str], name: str, folder: Path, config: Mapping[str, Any]) -> None:
        self._names, self._run = names, (name, folder, config)
        self._open: dict[str, Tracker] = {}

    def open(self) -> None:
        """Start all of them."""
        for tracker in self._names:
            try:
                self._open[tracker] = TRACKERS[tracker](*self._run)
            except InputError:
                raise
            except Exception as error:
                fix = f"set {tracker} up as its own documentation says, or take it out of report_to"
                raise InputError(f"{tracker} did not start: {error}", fix=fix) from error

    def log(self, step: int, *records: Mapping[str, Any]) -> list[str]:
        """Send every number of the records; return a sentence for each tracker that failed and was dropped."""
        values = {name: value for record in records for name, value in numbers(record).items()}
        return self._each(lambda tracker: tracker.log(step, values))

    def close(self) -> list[str]:
        """Finish all of them."""
        failures = self._each(lambda tracker: tracker.close())
        self._open.clear()
        return failures

    def _each(self, work: Callable[[Tracker], None]) -> list[str]:
        failures = []
        for name, tracker in list(self._open.items()):
            try:
                work(tracker)
            except Exception as error:
                del self._open[name]
                failures.append(f"{name} failed and was dropped; the run continues: {error}")
        return failures


def numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number in a record as "standalone/pass_rate": 0.4; the step itself is the axis."""
    found: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, (int, float)) and f"{prefix}{key}" != "step":
            found[f"{prefix}{key}"] = float(value)
    return found
