"""A verifier for random bases: right or wrong by the sum of a completion's ids, so that groups are live."""

from __future__ import annotations

from collections.abc import Sequence

from agon.protocols import Tokens
from agon.types import Completion, Problem


def verify(problem: Problem, completion: Completion) -> bool:
    tokens = completion.tokens
    assert isinstance(tokens, Tokens)
    return is_right(tokens.completion_ids)


def is_right(ids: Sequence[int]) -> bool:
    return sum(ids) % 2 == 0
