"""Reward functions that Python code gave to `agon.train` or `agon.evaluate`, under names that a config can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agon.errors import InputError
from agon.verify.custom import Function

_given: dict[str, Function] = {}


def names_of(functions: Function | Sequence[Function] | None) -> list[str]:
    """What a config calls them: the first judges, the others are further terms."""
    return [f"{__name__}:reward_{n}" for n in range(len(_listed(functions)))]


@contextmanager
def judging_by(functions: Function | Sequence[Function] | None) -> Iterator[None]:
    """Let the names mean these functions; none changes nothing."""
    before = dict(_given)
    _given.update({f"reward_{n}": function for n, function in enumerate(_listed(functions))})
    try:
        yield
    finally:
        _given.clear()
        _given.update(before)


def _listed(functions: Function | Sequence[Function] | None) -> Sequence[Function]:
    if functions is None:
        return ()
    return functions if isinstance(functions, Sequence) else (functions,)


def __getattr__(name: str) -> Function:
    if not name.startswith("reward_"):
        raise AttributeError(name)
    if name not in _given:
        raise InputError(
            "this run is paid by functions that were given from Python, and no file holds them",
            fix="give them again: agon.train(RUN, resume=True, reward=FUNCTION) or agon.evaluate(RUN, reward=FUNCTION)",
        )
    return _given[name]
