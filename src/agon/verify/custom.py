"""A user's own verifier: a function with our signature or with that of TRL's reward functions.

    def verify(problem: Problem, completion: Completion) -> Verdict | bool            ours, plain or async
    def reward(completions, answer, **columns) -> list[float | None]                  TRL's, called with one row

The parameter names tell them apart. A reward of at least `reward.right` (1) is correct and anything less is wrong,
because c(y) is binary; None and NaN mean that the function cannot judge, as in TRL. A function that returns a Verdict
of ours decides phi(y) too; with anything else, a verdict of a judge (`agon_judge.Verdict`) included, phi(y) is ours. A
function that raises is a broken machine, not a wrong answer: the verdict is `infra`, with the exception as its detail.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from agon.errors import InputError
from agon.game.parse import well_formed
from agon.protocols import Verifier
from agon.types import Completion, Problem, Reason, Verdict, Version
from agon_judge import verdict as judge
from agon_judge.module_file import load_file

Function = Callable[..., Any]
_NAME_ONE = "name a function in a file, FILE.py:function (relative to the config), or in a module that Python finds"


def find(name: str) -> Function:
    """The function that `FILE.py:function` or `package.module:function` names."""
    module, _, attribute = name.rpartition(":")
    if module.endswith(".py") and not Path(module).exists():
        raise InputError(f"there is no file {module}", fix=_NAME_ONE)
    try:
        loaded = _module(module)
    except Exception as error:  # a user's module may raise anything when it is imported
        raise InputError(
            f"cannot load verifier '{name}': {type(error).__name__}: {error}", fix=_fix(error, module)
        ) from error
    function: object = getattr(loaded, attribute, None)
    if function is None:
        functions = [key for key, value in vars(loaded).items() if inspect.isfunction(value)]
        near = get_close_matches(attribute, functions, n=1)
        fix = f"did you mean {module}:{near[0]}?" if near else f"it has: {', '.join(functions) or 'no function'}"
        raise InputError(f"{module} has no function {attribute}", fix=fix)
    if not callable(function):
        raise InputError(f"verifier '{name}' is not a function", fix="write FILE.py:function")
    return function


def _fix(error: Exception, module: str) -> str:
    """What to do about a module that cannot be imported: name one that exists, or correct it."""
    if isinstance(error, ModuleNotFoundError) and not f"{module}.".startswith(f"{error.name}."):
        return f"install {error.name}, which {module} imports"
    if isinstance(error, SyntaxError):
        return f"correct line {error.lineno} of {error.filename}"
    if isinstance(error, ModuleNotFoundError):
        return _NAME_ONE
    return "correct what the module does when it is imported, or name a function in a different one"


def _module(name: str) -> ModuleType:
    """A module by its name, or by its file, which may import its neighbours."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    return load_file(path)


class Call:
    """Calls a function in its own threads (one by default), so that a slow one does not block the caller."""

    def __init__(self, function: Function, *, workers: int | None = None) -> None:
        self.name = name_of(function)
        self._is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
        self._call, self._pick = _adapter(function)
        called = inspect.unwrap(function if inspect.isroutine(function) else type(function).__call__)
        self._file = getattr(getattr(called, "__code__", None), "co_filename", "")
        self._threads = ThreadPoolExecutor(workers or 1, thread_name_prefix="agon-verifier")

    async def __call__(self, problem: Problem, completion: Completion) -> object:
        if self._is_async:
            return self._pick(await self._call(problem, completion))
        loop = asyncio.get_running_loop()
        return self._pick(await loop.run_in_executor(self._threads, self._call, problem, completion))

    def raised(self, error: Exception) -> str:
        """What the function raised, and on which line of its file."""
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == self._file]
        return f"{type(error).__name__}: {error}"[:200] + (f" ({Path(self._file).name}:{lines[-1]})" if lines else "")

    def close(self) -> None:
        self._threads.shutdown()


def name_of(function: Function) -> str:
    """What a function is called; of an object that can be called, its class."""
    return getattr(function, "__name__", type(function).__name__)


def no_verdict(value: object) -> bool:
    """Whether a reward says that its function does not judge the row."""
    return value is None or (isinstance(value, float) and math.isnan(value))


class CustomVerifier(Verifier):
    """A user's function as a verifier; a number of at least `right` is correct."""

    def __init__(self, function: Function, *, workers: int | None = None, right: float = 1.0) -> None:
        self._call = Call(function, workers=workers)
        self._right = right
        self._rows = self._failed = 0

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        self._rows += 1
        try:
            return self._verdict(await self._call(problem, completion), completion)
        except Exception as error:
            self._failed += 1
            return Verdict(False, well_formed(completion), Reason.INFRA, self._call.raised(error))

    def self_test(self) -> list[str]:
        """Always empty: no verdict of a user's function is known in advance."""
        return []

    @property
    def counters(self) -> dict[str, int]:
        return {"rows": self._rows, "failed": self._failed}

    def close(self) -> None:
        self._call.close()

    def _verdict(self, result: object, completion: Completion) -> Verdict:
        if isinstance(result, Verdict):
            return result
        if isinstance(result, judge.Verdict):
            return Verdict.of(result, well_formed(completion))
        if no_verdict(result):
            self._failed += 1
            return Verdict(False, well_formed(completion), Reason.INFRA, f"{self._call.name} returned no verdict")
        correct = _as_bool(result, self._right)
        return Verdict(correct, well_formed(completion), Reason.CORRECT if correct else Reason.WRONG)


def _as_bool(result: object, right: float) -> bool:
    """c(y) from a bool or from one reward, which is correct from `right` on."""
    if isinstance(result, bool):
        return result
    if isinstance(result, int | float):
        return result >= right
    raise TypeError(f"a verifier returns a Verdict, a bool or one number, not {result!r}"[:120])


def _adapter(function: Function) -> tuple[Function, Function]:
    """A call that matches the function's parameter names, and a function that unpacks its result."""
    parameters = inspect.signature(function).parameters
    if {"problem", "completion"} <= parameters.keys():
        return function, _plain
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if open_ended or {"completions", "completion_ids"} & parameters.keys():
        return lambda problem, completion: function(**_columns(parameters, open_ended, problem, completion)), _only
    raise InputError(
        f"a verifier takes (problem, completion) or (completions, answer, **columns), not ({', '.join(parameters)})",
        fix="rename the parameters of your function",
    )


class TrainerState:
    """What a reward function may ask of TRL's `trainer_state`."""

    def __init__(self, global_step: int) -> None:
        self.global_step = global_step

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Agon's trainer_state has global_step alone, and no {name}")


def _columns(
    parameters: Mapping[str, inspect.Parameter], open_ended: bool, problem: Problem, completion: Completion
) -> dict[str, Any]:
    """One row as TRL's trainer passes it: each column a list of one value.

    Of a conversational data set, prompts are its messages and completions are messages too. So are they where the
    function asks for messages by the annotation of `completions`, since a question of a file is plain text.
    """
    row = {
        "question": problem.question,
        "answer": problem.answer,
        "solution": problem.answer,
        **({"tests": problem.tests} if problem.tests else {}),
        **problem.meta,
        **problem.given,
    }
    prompt: Any = row.pop("prompt", problem.question)
    asks_messages = "completions" in parameters and "dict" in str(parameters["completions"].annotation).lower()
    if asks_messages and not isinstance(prompt, list):
        prompt = [{"role": "user", "content": prompt}]
    tokens = completion.tokens
    row |= {
        "prompts": prompt,
        "completions": (
            [{"role": "assistant", "content": completion.text}] if isinstance(prompt, list) else completion.text
        ),
        # where the sampler kept no ids, their number is still right
        "completion_ids": list(tokens.completion_ids) if tokens else [0] * completion.generated_tokens,
    }
    columns: dict[str, Any] = {name: [value] for name, value in row.items() if name != "completion"}
    columns |= {
        "trainer_state": TrainerState(Version(completion.version).step),
        "log_extra": _logs_nothing,
        "log_metric": _logs_nothing,
    }
    return columns if open_ended else {name: value for name, value in columns.items() if name in parameters}


def _logs_nothing(name: str, value: Any) -> None:
    """In place of TRL's log_extra and log_metric."""


def _only(rewards: object) -> object:
    """The reward of the one row, as TRL takes it: from a list, an array or a tensor."""
    values = list(rewards) if isinstance(rewards, Iterable) and not isinstance(rewards, str | Mapping) else []
    if len(values) != 1:
        raise TypeError(f"a reward function returns one number per completion, not {rewards!r}"[:120])
    return _plain(values[0])


def _plain(value: Any) -> Any:
    """A number of NumPy or torch as Python's; anything else as it is."""
    return value.item() if hasattr(value, "item") else value
