"""What processes of one learner say to each other: nothing during an update, then one average of the gradients.

Stock wraps the model in DDP and averages its metrics over processes in every micro-batch. Each is a wait for the
slowest process, and a hang when one of them fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from accelerate.utils import gather_object
from torch import nn

from agon.errors import EngineError

T = TypeVar("T")


@contextmanager
def collective(what: str = "a message to the other processes failed, one of them may be gone") -> Iterator[None]:
    """Report a message between processes that failed: one of them is gone."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise EngineError(
            f"{what}: {error}",
            fix="see its output above, then resume: agon train RUN --resume",
        ) from error


@contextmanager
def no_collectives(accelerator: Any) -> Iterator[None]:
    """Values of this process instead of averages over all: what TRL logs is added up once per step."""
    names = ("gather", "gather_for_metrics", "reduce")
    for name in names:
        setattr(accelerator, name, _own_value)
    try:
        yield
    finally:
        for name in names:
            delattr(accelerator, name)


def gather_objects(accelerator: Any, value: T) -> list[T]:
    """The values of all processes, in the order of their ranks; all must call it."""
    if accelerator.num_processes == 1:
        return [value]
    with collective():
        return list(gather_object([value]))


def average_gradients(accelerator: Any, parameters: Sequence[nn.Parameter]) -> None:
    """Average the gradients of all processes, in one message; a process without live rows adds zeros."""
    if accelerator.num_processes == 1:
        return
    gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    with collective():
        whole = accelerator.reduce(torch.cat([gradient.flatten() for gradient in gradients]), "mean")
    parts = whole.split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter).clone()


def _own_value(value: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
    return value
