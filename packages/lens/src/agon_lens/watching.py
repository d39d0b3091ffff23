"""Reward functions that keep a log of what they paid, and say what it shows while the training continues.

`reward_funcs = watch(reward_funcs)` works in every trainer that calls reward functions as TRL does: with `prompts`,
`completions` and the columns of the data as keywords, for a list of numbers. Nothing of the trainer is imported.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agon_lens.columns import COMPLETION, GOLD, Columns, group_log
from agon_lens.diagnosis import diagnose
from agon_lens.errors import LensError
from agon_lens.findings import Rank, change_first, findings
from agon_lens.formatting import plural

WINDOW = 2048
"""Rows of which the findings speak: the last ones."""
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
    wrapped = [
        recorder.wrap(func, 1.0 if weights is None else weights[k]) if _is_function(func) else func
        for k, func in enumerate(given)
    ]
    return wrapped[0] if alone else wrapped


def _is_function(func: Any) -> bool:
    """Whether a trainer calls it with prompts and completions: not the name of a model, nor a torch module."""
    return callable(func) and not hasattr(func, "forward")


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
        self._recent: deque[dict[str, Any]] = deque(maxlen=WINDOW)
        self._said_at, self._batches, self._broken = 0, 0, False

    def wrap(self, func: Any, weight: float) -> Any:
        """The function under its own name, which logs what it paid."""
        name = getattr(func, "__name__", type(func).__name__)
        while name in self.names or name in COMPLETION or name in ("step", "prompt", "gold", "truncated"):
            name += "_"
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
        watched.__name__ = getattr(func, "__name__", type(func).__name__)
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
                row["gold"] = gold[k]
            if self.longest and ids:
                row["truncated"] = len(ids[k]) >= self.longest
            rows.append(row | {name: paid[name][k] if name in paid else None for name in self.names})
        if not rows:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        rank = os.environ.get("RANK", "0")
        text = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
        with (self.folder / f"rewards-{rank}.jsonl").open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
        self.rows += len(rows)
        self._recent.extend(rows)
        if self.every and rank == "0" and step - self._said_at >= self.every:
            self._said_at = step
            self._say(step)

    def _say(self, step: int) -> None:
        """Print what the last rows show."""
        names = tuple(self.names)
        cut = "truncated" if self.longest else None
        columns = Columns(group=("step", "prompt"), terms=names, completion="completion", truncated=cut)
        log = group_log("the last rows", self._recent, columns)
        found = findings(diagnose(log))
        costly = [finding for finding in found if finding.rank is not Rank.NOTE]
        first = self._recent[0]["step"]
        number = f"{plural(len(costly), 'finding')} on lost signal" if costly else "nothing looks wrong"
        head = f"agon-lens, steps {first} to {step}: {number}"
        lines = [head, *(f"  - {finding.sentence}" for finding in costly[:SHOWN])]
        if remedy := change_first(found):
            lines.append(f"  Change first: {remedy}")
        self.show("\n".join([*lines, f"  (groups and rewards: agon-lens watch {self.folder})"]))


def _named(args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name; trainers that pass them by position begin with prompts and completions."""
    return dict(zip(("prompts", "completions"), args, strict=False)) | given
