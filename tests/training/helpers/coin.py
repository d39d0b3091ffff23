"""A verifier that any text satisfies half of the time, so that groups of any base are live."""

from __future__ import annotations

import zlib

from agon.types import Completion, Problem


def odd(problem: Problem, completion: Completion) -> bool:
    return bool(zlib.crc32(completion.text.encode(errors="replace")) % 2)
