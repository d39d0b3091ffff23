from __future__ import annotations

import shutil

import pytest

from agon.verify import load_verifier
from agon_judge.sandbox import SandboxSettings, cgroups


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_real_verifier_knows_every_reason() -> None:
    settings = SandboxSettings(memory="cgroup" if cgroups.places() else "per_process", workers=2)
    with load_verifier("code", sandbox=settings) as verifier:
        assert verifier.self_test() == []
