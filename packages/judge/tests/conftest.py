"""For all tests of the judge: one sandbox and one math judge, since starting their processes takes a moment."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings

from agon_judge.math.judge import MathJudge
from agon_judge.sandbox import HostSandbox, cgroups

HERE = "cgroup" if cgroups.places() else "per_process"
"""How memory can be limited on this machine."""
settings.register_profile("judge", deadline=None)
"""An example may take as long as a busy machine needs."""
settings.load_profile("judge")


@pytest.fixture(scope="session")
def sandbox() -> Iterator[HostSandbox]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed; scripts/setup says how to install it")
    room = HostSandbox(workers=2, memory=HERE)  # type: ignore[arg-type]
    yield room
    room.close()


@pytest.fixture(scope="session")
def judge() -> Iterator[MathJudge]:
    """It must survive everything that the tests do to it."""
    with MathJudge(workers=2) as shared:
        yield shared
    assert shared.workers() == ()
