"""Reward functions that Python code gave to `agon.train` or `agon.evaluate`, under names that a config can hold.

A name is `agon.verify.given:reward_0_accuracy`: the place among the functions, and what the function was called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agon.errors import InputError
from agon.verify.custom import Function, name_of

_given: list[Function] = []
_NAME = re.compile(r"reward_\d+(_\w+)?")


def names_of(functions: Function | Sequence[Function] | None) -> list[str]:
    """What a config calls them: the first judges, the others are further terms."""
    return [f"{__name__}:reward_{n}_{_word(each)}" for n, each in enumerate(_listed(functions))]


def is_given(name: str) -> bool:
    """Whether a config's name means a function that Python code gives."""
    module, _, attribute = name.rpartition(":")
    return module == __name__ and bool(_NAME.fullmatch(attribute))


@contextmanager
def judging_by(functions: Function | Sequence[Function] | None) -> Iterator[None]:
    """Let the names mean these functions; none changes nothing."""
    before = list(_given)
    _given[:] = _listed(functions) or before
    try:
        yield
    finally:
        _given[:] = before


def check_given(names: Sequence[str], run: str, call: str) -> None:
    """Refuse a run whose functions are not given, or in a different order; `call` has {} for the run, then for them."""
    wanted = [_called(name) for name in names if is_given(name)]
    present = [_word(each) for each in _given]
    misplaced = [name for name, given in zip(wanted, present, strict=False) if name != given and name in present]
    if len(present) >= len(wanted) and not misplaced:
        return
    what = "in a different order" if misplaced else "that Python code gave, and no file holds them"
    raise InputError(
        f"{run} is paid by functions {what}: {', '.join(wanted)}",
        fix=f"give them again: {call_with(names, run, call)}",
    )


def call_with(names: Sequence[str], run: str, call: str) -> str:
    """The call that gives the functions of a run again; empty if it has none from Python."""
    wanted = [_called(name) for name in names if is_given(name)]
    listed = wanted[0] if len(wanted) == 1 else f"[{', '.join(wanted)}]"
    return call.format(run, listed) if wanted else ""


def _listed(functions: Function | Sequence[Function] | None) -> Sequence[Function]:
    if functions is None:
        return ()
    listed: Sequence[Any] = functions if isinstance(functions, list | tuple) else [functions]
    for each in listed:
        if isinstance(each, str):
            raise InputError(
                f"reward={each!r} is a name, not a function",
                fix="import the function and give it; a file of functions is named by verifier=FILE.py:function",
            )
        if not callable(each) or hasattr(each, "forward"):
            message = f"reward={type(each).__name__} is not a function"
            raise InputError(message, fix="give a function that calls it, in TRL's signature")
    return listed


def _word(function: Function) -> str:
    return re.sub(r"\W", "_", name_of(function))


def _called(name: str) -> str:
    """What the function behind a name was called; runs of the first version do not say."""
    number, _, word = name.rpartition(":")[2].removeprefix("reward_").partition("_")
    return word or f"function_{int(number) + 1}"


def __getattr__(name: str) -> Function:
    if not _NAME.fullmatch(name):
        raise AttributeError(name)
    number = int(name.split("_")[1])
    if number >= len(_given):
        raise InputError(
            f"{_called(name)} was given from Python, and no file holds it",
            fix="give it again: agon.train(RUN, resume=True, reward=FUNCTION) or agon.evaluate(RUN, reward=FUNCTION)",
        )
    return _given[number]
