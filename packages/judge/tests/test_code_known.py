from __future__ import annotations

import shutil

import pytest

from agon_judge.code.judge import CodeJudge
from agon_judge.sandbox import SandboxSettings, cgroups
from agon_judge.sandbox.leaks import checked_sandbox


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_real_judge_knows_every_reason() -> None:
    settings = SandboxSettings(memory="cgroup" if cgroups.places() else "per_process", workers=2)
    with CodeJudge(checked_sandbox(settings)) as judge:
        assert judge.self_test() == []
