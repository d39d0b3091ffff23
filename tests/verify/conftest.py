"""One math verifier for all tests here: it takes seconds to start, and must survive everything they do to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agon.verify.math.verifier import MathVerifier


@pytest.fixture(scope="session")
def verifier() -> Iterator[MathVerifier]:
    with MathVerifier(workers=2) as shared:
        yield shared
    assert shared.workers() == ()
