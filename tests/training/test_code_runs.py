"""Training on programs: the loop with a scripted sampler and the real sandbox."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agon.errors import VerifierError
from agon.rundir import read_bouts
from agon.rundir.pair import read_pair
from agon.rundir.records import StepRecord
from agon.types import Completion, Policy, Problem, Request, UnitTests, Verdict
from agon.verify import load_verifier
from agon.verify.judged import CodeVerifier
from agon_judge.code.judge import CodeJudge
from agon_judge.sandbox import HostSandbox, SandboxSettings, cgroups
from tests.training.helpers.runs import Verifier, config, directory, training

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SETTINGS = SandboxSettings(memory="cgroup" if cgroups.places() else "per_process", workers=2)
FORM = "<think>\nDouble it.\n</think>\nRead a number, print its double.\n<answer>\n```python\n{}\n```\n</answer>"
RIGHT, WRONG = FORM.format("print(2 * int(input()))"), FORM.format("print(2 + int(input()))")


def doubling(n: int) -> Problem:
    cases = tuple((str(k), str(2 * k)) for k in (2, n + 3))
    return Problem(f"p{n}", f"Read a number, print its double. ({n})", "", tests=UnitTests(cases))


def half_right(request: Request) -> str:
    return RIGHT if request.seed % 2 else WRONG


@pytest.fixture
def verify() -> Iterator[CodeVerifier]:
    verifier = load_verifier("code", sandbox=SETTINGS)
    assert isinstance(verifier, CodeVerifier)
    yield verifier
    verifier.close()


class Disturbed(Verifier):
    """The real verifier; `disturb` is called before one of its verdicts."""

    def __init__(self, real: CodeVerifier, disturb: Callable[[], None], before: int = 40) -> None:
        super().__init__()
        self.real, self.disturb, self.left = real, disturb, before

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        self.left -= 1
        if self.left == 0:
            self.disturb()
        return await self.real(problem, completion)


def kill(sandbox: HostSandbox) -> None:
    """Kill every launcher, and with it every box."""
    for pid in sandbox.processes():
        os.kill(pid, signal.SIGKILL)


def test_programs_are_drawn_judged_by_their_tests_and_learnt_from(tmp_path: Path, verify: CodeVerifier) -> None:
    settings = config(train__problems_per_step=4, game__group_size=4, eval__points=0)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings, half_right, verify, [doubling(n) for n in range(8)])
    assert one.go()
    rows = read_bouts(run).to_pylist()
    judged = {(row["draft_text"] == RIGHT, row["draft_correct"], row["draft_reason"]) for row in rows}
    assert judged == {(True, True, "correct"), (False, False, "wrong_output")}
    details = {row["draft_detail"] for row in rows} - {""}
    assert details
    assert details <= {f"test 2 of 2: token 1 of 1 differs (input: {n + 3})" for n in range(8)}
    assert any(record.standalone.live_groups for record in run.steps.records())
    assert all(one.state.versions[policy] != one.state.first[policy] for policy in Policy), "a policy did not move"
    assert read_pair(run.path).info.code


SMALL = {"train__problems_per_step": 4, "game__group_size": 4, "eval__points": 0}
PROBLEMS = [doubling(n) for n in range(12)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[StepRecord]:
    settings = config(**SMALL)
    run = directory(tmp_path_factory.mktemp("runs"), "whole", settings)
    with load_verifier("code", sandbox=SETTINGS) as verify:
        assert training(run, settings, half_right, verify, PROBLEMS).go()
    return run.steps.records()


def test_a_sandbox_that_is_killed_in_a_step_changes_no_reward(tmp_path: Path, undisturbed: list[StepRecord]) -> None:
    settings = config(**SMALL)
    run = directory(tmp_path, "x", settings)
    sandbox = HostSandbox(workers=2, memory=SETTINGS.memory)
    with CodeVerifier(CodeJudge(sandbox, cache=1)) as verify:
        one = training(run, settings, half_right, Disturbed(verify, lambda: kill(sandbox)), PROBLEMS)
        assert one.go()
    assert run.steps.records() == undisturbed
    assert all(record.ungraded == 0 for record in run.steps.records())


def test_a_sandbox_that_is_gone_stops_the_run_and_a_resume_repeats_the_step(
    tmp_path: Path, undisturbed: list[StepRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(**SMALL)
    run = directory(tmp_path, "x", settings)
    sandbox = HostSandbox(workers=2, memory=SETTINGS.memory)

    def for_good() -> None:
        def none_left(*_: object) -> None:
            raise OSError("no processes left")

        monkeypatch.setattr(sandbox, "_slot", none_left)
        kill(sandbox)

    with CodeVerifier(CodeJudge(sandbox, cache=1)) as verify:
        one = training(run, settings, half_right, Disturbed(verify, for_good), PROBLEMS)
        with pytest.raises(VerifierError, match=r"failed on \d+ of 32 rollouts of this step") as stopped:
            one.go()
    assert stopped.value.fix.endswith(f"agon train {run.path} --resume")
    assert len(run.steps.records()) < len(undisturbed)
    with load_verifier("code", sandbox=SETTINGS) as verify:
        assert training(run, settings, half_right, verify, PROBLEMS).go()
    assert run.steps.records() == undisturbed
