"""A reward in TRL's signature: `reward(completions, answer, **columns) -> list[float | None]`, plain or async.

It is called as TRL calls it: every column of the rows as a list, with `prompts`, `completions` and `completion_ids`.
Where prompts are chats, or the completions are annotated as messages, completions are chats too. TRL's trainer has the
token ids; here the bytes of the text take their place. A reward in verl's signature, `compute_score(data_source,
solution_str, ground_truth, extra_info)`, is called once per row; the gold may be `reward_model.ground_truth`.
"""

from __future__ import annotations

import asyncio
import copy
import csv
import importlib
import inspect
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agon_judge.auditing.environment import Row, Score, Target
from agon_judge.errors import InputError
from agon_judge.module_file import load_file
from agon_judge.rewards import GOLDS, gold_text

QUESTIONS = ("prompt", "question", "problem", "input", "query")
"""Columns in which a question is looked for; a gold is looked for in those of `rewards.GOLDS`."""

_VERL = {"data_source", "solution_str", "ground_truth", "extra_info"}


def named(name: str) -> Any:
    """What `FILE.py:name` or `package.module:name` names."""
    place, _, attribute = name.rpartition(":")
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except InputError:
        raise
    except Exception as error:
        what = f"cannot import {place}: {type(error).__name__}: {error}"
        fix = "correct the error" if place.endswith(".py") else "install it, or add its folder to PYTHONPATH"
        raise InputError(what, fix=fix) from error
    if not hasattr(module, attribute):
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        names = ", ".join(f"{Path(place).name}:{each}" for each in own)
        fix = f"name one of: {names}" if own else "name a file or a module that defines a reward"
        raise InputError(f"{place} has no function {attribute!r}", fix=fix)
    return getattr(module, attribute)


def _file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"there is no file {path}", fix="name a Python file that exists: FILE.py:function")
    sys.path.insert(0, str(path.parent.absolute()))  # it may import its neighbours
    return load_file(path)


class RewardFunction:
    """One reward function and its rows: `records`, else those of the target's file."""

    def __init__(self, target: Target, function: Any, records: list[dict[str, Any]] | None = None) -> None:
        self._function: Callable[..., Any] = function
        self._target, self._records = target, records
        self.version = _version(getattr(function, "__module__", None) or type(function).__module__)
        if not callable(function):
            raise InputError(f"{target.name} is not a function", fix="name a reward: FILE.py:function")
        self._chat = target.chat
        parameters = inspect.signature(self._function).parameters
        if self._chat is None and "completions" in parameters:
            self._chat = "dict" in str(parameters["completions"].annotation).lower() or None
        self._verl = {"solution_str", "ground_truth"} <= parameters.keys()
        names_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        self._wanted = None if names_all else set(parameters)
        self._required = {
            name
            for name, each in parameters.items()
            if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        }

    def rows(self, split: str) -> list[Row]:
        if self._records is None and self._target.rows is None:
            raise InputError(
                f"{self._target.name} needs rows to be tried on",
                fix='--rows FILE, with lines such as {"prompt": "What is 6 times 7?", "answer": "42"}',
            )
        records = self._records if self._records is not None else read_rows(Path(str(self._target.rows)))
        place = self._target.rows or "the rows"
        for record in records:
            if isinstance(nested := record.get("reward_model"), dict) and "ground_truth" in nested:  # verl's rows
                record.setdefault("ground_truth", nested["ground_truth"])
        names = dict.fromkeys(name for record in records for name in record)
        # as a data set has them: None where it is missing
        records = [dict.fromkeys(names) | record for record in records]
        gold = self._target.gold or next((name for name in GOLDS if name in records[0]), None)
        question = next((name for name in QUESTIONS if name in records[0]), None)
        if gold is None or gold not in records[0]:
            columns = ", ".join(map(str, records[0]))
            what = "of reference answers" if self._target.gold is None else repr(self._target.gold)
            raise InputError(f"{place}: no column {what}", fix=f"--gold COLUMN, one of: {columns}")
        if {"problem", "completion"} <= self._required:  # a verifier of Agon
            raise InputError(
                f"{self._target.name} takes one problem and one completion, and an audit calls rewards as TRL does",
                fix="audit a function of lists: def reward(completions, answer, **columns): return [1.0, ...]",
            )
        for name in self._required & {"answer", "solution"}:  # whatever the rows call it
            for record in records:
                record.setdefault(name, record[gold])
        given = self._columns(records[:1], [""]).keys() | (_VERL if self._verl else set())
        if missing := sorted(self._required - given):
            raise InputError(
                f"{self._target.name} takes {', '.join(missing)}, and {place} has no such column",
                fix=f"rename a column of the rows; there are: {', '.join(map(str, records[0]))}",
            )
        rows = [
            Row(_content(record[question] or "") if question else "", _gold(record[gold]), record) for record in records
        ]
        seen, firsts, others = set[str | None](), list[Row](), list[Row]()
        for row in rows:  # one problem eight times says little: rows with different golds come first
            (others if row.gold in seen else firsts).append(row)
            seen.add(row.gold)
        return firsts + others

    def score(self, row: Row, text: str) -> Score:
        return self.score_many([row], [text])[0]

    def score_many(self, rows: Sequence[Row], texts: Sequence[str]) -> list[Score]:
        if self._verl:
            return [self._verl_score(row, text) for row, text in zip(rows, texts, strict=True)]
        given = self._columns([row.payload for row in rows], texts)
        before = copy.deepcopy(given)
        result = self._function(**given)
        rewards = asyncio.run(result) if inspect.iscoroutine(result) else result
        if given != before:
            raise TypeError("it changes the lists that it is given")
        if hasattr(rewards, "tolist"):
            rewards = rewards.tolist()
        if not isinstance(rewards, list | tuple) or len(rewards) != len(texts):
            raise TypeError(f"it returns {_short(rewards)} for {len(texts)} completions, not a list of as many numbers")
        return [_score(reward) for reward in rewards]

    def _verl_score(self, row: Row, text: str) -> Score:
        """The reward of one text as verl asks for it: a number, a dict with `score`, or a tuple that begins with it."""
        given = {"data_source": "", "extra_info": {}, "ground_truth": row.gold} | row.payload | {"solution_str": text}
        chosen = given if self._wanted is None else {name: given[name] for name in self._wanted & given.keys()}
        result = self._function(**copy.deepcopy(chosen))
        result = asyncio.run(result) if inspect.iscoroutine(result) else result
        if isinstance(result, dict):
            result = result.get("score", result)
        return _score(result[0] if isinstance(result, list | tuple) and result else result)

    def _columns(self, records: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> dict[str, Any]:
        """What TRL's trainer gives: lists with one value per completion, the state of the trainer and its loggers."""
        prompts = [next((record[name] for name in QUESTIONS if name in record), "") for record in records]
        chat = self._chat if self._chat is not None else bool(prompts) and isinstance(prompts[0], list)
        columns: dict[str, Any] = {
            name: [record.get(name) for record in records] for name in records[0] if name != "prompt"
        }
        columns["prompts"] = [_message("user", prompt) if chat else prompt for prompt in prompts]
        columns["completions"] = [_message("assistant", text) if chat else text for text in texts]
        columns["completion_ids"] = [list(text.encode(errors="replace")) for text in texts]
        columns |= {"trainer_state": SimpleNamespace(global_step=0, max_steps=1000)}
        columns |= {"log_extra": _logs_nothing, "log_metric": _logs_nothing}
        if self._wanted is not None:
            columns = {name: values for name, values in columns.items() if name in self._wanted}
        return columns


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL, JSON or CSV file."""
    try:
        text = path.read_text("utf-8-sig")
        if path.suffix == ".csv":
            records: Any = list(csv.DictReader(io.StringIO(text, newline="")))  # a cell may have lines
        elif path.suffix == ".json":
            records = json.loads(text)
        else:
            records = [_line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    except OSError as error:
        fix = "name a file that you can read: --rows FILE"
        raise InputError(f"cannot read rows from {path}: {error.strerror}", fix=fix) from error
    except ValueError as error:
        raise InputError(f"cannot parse the rows of {path}: {error}", fix="write one JSON object per line") from error
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path} has no rows", fix="write one JSON object per line")
    return records


def _line(number: int, line: str) -> Any:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"line {number} is {_short(record)} and no object")
    return record


def _score(reward: Any) -> Score:
    if reward is None:
        return Score(None)
    if isinstance(reward, str) or not hasattr(reward, "__float__"):
        raise TypeError(f"it returns {_short(reward)}, which is not a number")
    value = float(reward)
    if not math.isfinite(value):
        raise ValueError(f"it returns {value}")
    return Score(value)


def _message(role: str, content: Any) -> Any:
    return content if isinstance(content, list) else [{"role": role, "content": content}]


def _logs_nothing(name: str, value: Any) -> None:
    """In place of TRL's log_extra and log_metric."""


def _content(prompt: Any) -> str:
    if isinstance(prompt, list):
        return "\n".join(str(message.get("content", "")) for message in prompt if message.get("role") == "user")
    return str(prompt)


def _gold(value: Any) -> str | None:
    """The gold as text, without dollar signs around it."""
    if value is None or isinstance(value, list | dict):
        return None
    gold = gold_text(value)
    if not gold:
        return None
    return gold[1:-1] if len(gold) > 2 and gold[0] == gold[-1] == "$" and gold.count("$") == 2 else gold


def _version(module: str) -> str:
    package = module.partition(".")[0]
    try:
        return f"{package} {version(package)}"
    except (PackageNotFoundError, ValueError):
        return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
