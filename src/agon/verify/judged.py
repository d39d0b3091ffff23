"""Verifiers over a judge of `agon_judge`: the answer in a completion, the judge's verdict on it, and phi."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agon.errors import InputError, VerifierError
from agon_judge import errors as judge


@contextmanager
def errors_of_the_judge() -> Iterator[None]:
    """Raise errors of the judge as ours, so that `except AgonError` catches them."""
    try:
        yield
    except judge.InputError as error:
        raise InputError(error.message, fix=error.fix) from error
    except judge.JudgeError as error:
        raise VerifierError(error.message, fix=error.fix) from error
