"""Reward functions that keep a log of what they paid, and say what it shows while the training continues.

`reward_funcs = watch(reward_funcs)` works in every trainer that calls reward functions as TRL does: with `prompts`,
`completions` and the columns of the data as keywords, for a list of numbers. Nothing of the trainer is imported.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from agon_lens.columns import GOLD, Columns, is_recognised
from agon_lens.diagnosis import diagnose_log
from agon_lens.errors import LensError
from agon_lens.findings import Rank
from agon_lens.formatting import plural
from agon_lens.lines import in_memory
from agon_lens.rows import group_log

WINDOW = 2048
"""Rows of which the findings speak: the last ones."""
TAIL = 16_000_000
"""Bytes at the end of the log of another process that are read for its last rows."""
SHOWN = 3
"""Findings that are printed at a time."""
FOLDER = "lens"


def watch(
    reward_funcs: Any,
    out: str | Path = FOLDER,
    *,
    weights: Sequence[float] | None = None,
    max_completion_length: int | None = None,
    every: int = 20,
    show: Callable[[str], None] | None = None,
) -> Any:
    """Reward functions that do what they did, and log every row to `out`: a list for a list, one for one.

    Give `weights` (TRL's `reward_weights`) to log weighted rewards, and `max_completion_length` to know which
    completions were truncated. Every so many steps the findings on the last rows are printed, or given to `show`; 0 is
    never. Reward models are passed through: they are not called as functions.
    """
    alone = not isinstance(reward_funcs, list | tuple)
    given = [reward_funcs] if alone else list(reward_funcs)
    if weights is not None and len(weights) != len(given):
        message = f"{len(weights)} weights for {len(given)} reward functions"
        raise LensError(message, fix="give one weight for each function, in their order")
    recorder = Recorder(Path(out), max_completion_length, every, show or _to_terminal)
    names = iter(_names([func for func in given if _is_function(func)]))
    wrapped = [
        recorder.wrap(func, next(names), 1.0 if weights is None else weights[k]) if _is_function(func) else func
        for k, func in enumerate(given)
    ]
    return wrapped[0] if alone else wrapped


def _is_function(func: Any) -> bool:
    """Whether a trainer calls it with prompts and completions: not the name of a model, nor a torch module."""
    return callable(func) and not hasattr(func, "forward")


def _names(funcs: Sequence[Any]) -> list[str]:
    """A column for each function: its name, one that is read as a reward, and that no other function has."""
    names = list[str]()
    for func in funcs:
        name = _name(func)
        if is_recognised(name):  # as the prompt, a count, a total ...
            name += "_reward" if "reward" not in name else "_1"
        numbered = (f"{name}_{number}" for number in count(2))
        names.append(name if name not in names else next(each for each in numbered if each not in names))
    return names


def _name(func: Any) -> str:
    """The name of a function, or of what a partial calls, or of the class of an object."""
    while isinstance(func, functools.partial):
        func = func.func
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__call__":
        name = type(func.__self__).__name__
    return re.sub(r"\W+", "_", name).strip("_") or "reward"


def process() -> tuple[int, int]:
    """The rank of this process and how many there are, as its launcher or torch says."""
    distributed = sys.modules.get("torch.distributed")
    if "RANK" not in os.environ and distributed and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


def _to_terminal(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Recorder:
    """What several reward functions paid for one batch after the other."""

    def __init__(self, folder: Path, longest: int | None, every: int, show: Callable[[str], None]) -> None:
        self.folder, self.longest, self.every, self.show = folder, longest, every, show
        self.names: list[str] = []
        self.rows, self.cpu_seconds = 0, 0.0
        """Rows that were logged, and the CPU time that this took, findings included."""
        self._paid: dict[str, list[float | None]] = {}
        self._batch: dict[str, Any] = {}
        self._said_at, self._batches, self._step, self._broken = 0, 0, 0, False
        self._began, self._opened = time.time(), False

    def wrap(self, func: Any, name: str, weight: float) -> Any:
        """The function, which logs what it paid in the column of this name."""
        self.names.append(name)

        def record(values: Any, given: dict[str, Any]) -> None:
            begin = time.process_time()
            try:
                if not self._broken:
                    self._record(name, values, weight, given)
            except Exception as error:  # the training is worth more than its log
                self._broken = True
                self.show(f"agon-lens: stopped logging, the training continues: {type(error).__name__}: {error}")
            self.cpu_seconds += time.process_time() - begin

        called = func if inspect.isroutine(func) else getattr(func, "__call__", func)  # noqa: B004
        if inspect.iscoroutinefunction(called):

            async def watched_async(*args: Any, **given: Any) -> Any:
                values = await func(*args, **given)
                record(values, _named(args, given))
                return values

            watched: Any = watched_async
        else:

            def watched_plain(*args: Any, **given: Any) -> Any:
                values = func(*args, **given)
                record(values, _named(args, given))
                return values

            watched = watched_plain
        functools.update_wrapper(watched, func)
        named = getattr(func, "__name__", "")  # those of partials and objects have none
        watched.__name__ = named if named.isidentifier() and not named.startswith("__") else name
        watched.recorder = self
        return watched

    def _record(self, name: str, values: Any, weight: float, given: dict[str, Any]) -> None:
        if name in self._paid:  # a function of the last batch raised, or is called once more
            self._write()
        self._paid[name] = [None if value is None else weight * float(value) for value in values]
        self._batch = given
        if len(self._paid) == len(self.names):
            self._write()

    def _write(self) -> None:
        """Append the rows of a batch to the log."""
        given, paid, self._paid = self._batch, self._paid, {}
        completions, prompts = given.get("completions") or [], given.get("prompts")
        state, ids = given.get("trainer_state"), given.get("completion_ids")
        self._batches += 1
        step = getattr(state, "global_step", self._batches - 1) + 1
        gold = next((given[key] for key in GOLD if isinstance(given.get(key), list)), None)
        rows = []
        for k, completion in enumerate(completions):
            row = {"step": step, "prompt": prompts[k] if prompts else None, "completion": completion}
            if gold is not None and k < len(gold):
                answer = gold[k]  # as text: a column of numbers would be a reward
                row["gold"] = str(answer) if isinstance(answer, int | float) else answer
            if self.longest and ids:
                row["truncated"] = len(ids[k]) >= self.longest
            rows.append(row | {name: paid[name][k] if name in paid else None for name in self.names})
        if not rows:
            return
        rank, ranks = process()
        text = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
        if step == 1 < self._step:  # the same functions, in a second run
            self._opened, self._said_at, self._began = False, 0, time.time()
        self._step = step
        if not self._opened:
            self._open(rank, ranks, step)
        with self._file(rank).open("ab", buffering=0) as file:  # one call of the system: two processes never mix lines
            file.write(text.encode("utf-8", "replace"))
        self.rows += len(rows)
        if self.every and rank == 0 and step - self._said_at >= self.every:
            self._said_at = step
            try:
                self._say(step, ranks)
            except LensError as error:
                self.show(f"agon-lens: no findings at step {step}: {error.message}")

    def _file(self, rank: int) -> Path:
        return self.folder / f"rewards-{rank}.jsonl"

    def _open(self, rank: int, ranks: int, step: int) -> None:
        """Make the folder. A run that begins anew puts the log of an earlier one aside; one that resumes appends."""
        self._opened = True
        self.folder.mkdir(parents=True, exist_ok=True)
        mine = [self._file(rank)]
        if rank == 0:  # and those of processes that this run does not have
            mine += [path for path in self.folder.glob("rewards-*.jsonl") if not 0 <= _rank_of(path) < ranks]
        for path in mine:
            if step == 1 and path.is_file() and path.stat().st_mtime < self._began:
                aside = next(each for n in count(1) if not (each := self.folder / f"earlier-{n}" / path.name).exists())
                aside.parent.mkdir(exist_ok=True)
                path.rename(aside)
                if rank == 0:
                    self.show(f"agon-lens: put the log of an earlier run aside, as {aside}")

    def _say(self, step: int, ranks: int) -> None:
        """Print what the last rows show. Groups may be split between processes, and only earlier steps are complete in
        all of them."""
        logs = [path for path in self.folder.glob("rewards-*.jsonl") if 0 <= _rank_of(path) < ranks]
        parts = [part for path in sorted(logs, key=_rank_of) if (part := _last_rows(path))]
        begin, end = max((part[0]["step"] for part in parts), default=0), step - (ranks > 1)
        recent = [row for part in parts for row in part if begin <= row["step"] <= end]
        if not recent:
            return
        names = tuple(self.names)
        cut = "truncated" if self.longest else None
        columns = Columns(group=("step", "prompt"), terms=names, completion="completion", truncated=cut)
        log = group_log("the last rows", in_memory(recent), columns)
        found = diagnose_log(log)
        costly = [finding for finding in found.findings if finding.rank is not Rank.NOTE]
        first, last = min(row["step"] for row in recent), max(row["step"] for row in recent)
        number = f"{plural(len(costly), 'finding')} on lost signal" if costly else "nothing looks wrong"
        lines = [f"agon-lens, {f'step {first}' if first == last else f'steps {first} to {last}'}: {number}"]
        lines += [f"  - {finding.sentence}" for finding in costly[:SHOWN]]
        if found.change_first:
            lines.append(f"  Change first: {found.change_first.fix}")
        if len(parts) < ranks:
            lines.append(f"  (only {len(parts)} of {ranks} processes log to this folder: groups may lack rows)")
        self.show("\n".join([*lines, f"  (groups and rewards: agon-lens watch {self.folder})"]))


def _rank_of(path: Path) -> int:
    text = path.stem.removeprefix("rewards-")
    return int(text) if text.isdecimal() else -1


def _last_rows(path: Path) -> list[dict[str, Any]]:
    """The last rows of a log that another process may be writing, without a first step of which some may be missing."""
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - TAIL)
        file.seek(start)
        lines = [line for line in file.readlines()[1 if start else 0 :] if line.endswith(b"\n")]
    rows = [json.loads(line) for line in lines[-WINDOW:]]
    whole = (not start and len(lines) <= WINDOW) or not rows or rows[0]["step"] == rows[-1]["step"]
    return rows if whole else [row for row in rows if row["step"] != rows[0]["step"]]


def _named(args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name; trainers that pass them by position begin with prompts and completions."""
    return dict(zip(("prompts", "completions"), args, strict=False)) | given
