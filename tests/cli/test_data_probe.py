"""`agon data probe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agon.cli import data_probe, main
from agon.config import SandboxConfig, load_config
from agon.engine.scripted import ScriptedSampler
from agon.engine.shipped import folder_of
from agon.errors import InputError
from agon.eval import base_rates
from agon.eval.base_rates import BaseRates, ProbedProblem, count
from agon.protocols import Verifier
from agon.rundir.files import weights_hash
from agon.types import Bout, Completion, Problem, Prompt, Reason, Request, Rollout, UnitTests, Verdict


def draft(problem: Problem, correct: bool, graded: bool = True) -> Bout:
    reason = Reason.INFRA if not graded else Reason.CORRECT if correct else Reason.WRONG
    completion = Completion("x", "base", 1, 1)  # type: ignore[arg-type]
    return Bout(Rollout(problem, 0, None, Prompt(()), completion, Verdict(correct, True, reason)), None, None)


def test_problems_that_teach_are_those_solved_sometimes() -> None:
    never, some, always = (Problem(name, name, "1") for name in ("never", "some", "always"))
    bouts = [draft(never, False), draft(never, False), draft(some, True), draft(some, False)]
    bouts += [draft(always, True), draft(always, True), draft(always, False, graded=False)]
    found = count([never, some, always], bouts, 2, 8)
    assert (found.never, len(found.kept), found.always) == (1, 1, 1)
    assert found.kept == [some]
    assert found.live_groups == pytest.approx((1 - 2 * 0.5**8) / 3)
    text = "\n".join(data_probe.lines(found, "agon:tiny", None))
    assert "sometimes right      1   33%  worth training on" in text
    assert "add -o FILE.jsonl" in text


def test_a_base_that_solves_nothing_is_reported() -> None:
    hard = Problem("a", "a", "1")
    found = count([hard], [draft(hard, False)] * 2, 2, 8)
    assert "check the verifier: agon data check" in data_probe.advice(found, None)


def test_a_problem_without_a_verdict_is_not_called_too_hard() -> None:
    wrong, broken = (Problem(name, name, "1") for name in ("wrong", "broken"))
    unknown = [draft(broken, False, graded=False)] * 2
    found = count([wrong, broken], [draft(wrong, False), draft(wrong, False), *unknown], 2, 8)
    assert (found.never, found.unknown) == (1, 1)
    assert "no verdict           1   50%" in "\n".join(data_probe.lines(found, "agon:tiny", None))
    assert "no answer has a verdict" in data_probe.advice(count([broken], unknown, 2, 8), None)


def test_a_probe_runs_programs_in_the_sandbox_of_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(Path(__file__).parents[2] / "configs" / "paper" / "code" / "agon.yaml")
    config = config.model_copy(update={"sandbox": SandboxConfig(backend="landlock", time_factor=3.0)})
    opened: list[Any] = []

    def load(name: str, *, sandbox: object = None, right: float) -> Verifier:
        opened.append(sandbox)
        raise InputError("opened", fix="-")

    monkeypatch.setattr(base_rates, "load_verifier", load)
    monkeypatch.setattr(base_rates, "local", lambda target, peeks: ScriptedSampler(lambda request: ""))
    with pytest.raises(InputError):
        base_rates.probe(config, [], 2, lambda done, of: None)
    assert opened == [config.sandbox.settings()]


@pytest.mark.slow
def test_the_tiny_base_is_probed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("trl", reason="the probe draws from a real base")
    assert main(["init", "tabletop", "-o", str(tmp_path / "t.yaml")]) == 0
    capsys.readouterr()
    out = tmp_path / "kept.jsonl"
    words = ["data", "probe", str(tmp_path / "t.yaml"), "--limit", "16", "--samples", "4", "-o", str(out)]
    assert main(words) == 0
    assert "16 problems, 4 answers each by agon:tiny" in capsys.readouterr().out
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert 0 < len(kept) <= 16
    assert main(["data", "check", str(out)]) == 0
    assert main(words) == 2


@pytest.mark.slow
def test_what_is_probed_is_the_adapter_that_a_starts_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl", reason="the probe draws from a real base")
    from agon.engine.hf.sampler import HFSampler

    config = str(Path(__file__).parents[2] / "configs" / "tabletop" / "base.yaml")
    model = ["model.name=agon:halves", "model.init.a=agon:halves/a"]
    drawn: list[str] = []
    draw = HFSampler.sample

    async def recording(self: HFSampler, request: Request) -> Completion:
        completion = await draw(self, request)
        drawn.append(completion.version)
        return completion

    monkeypatch.setattr(HFSampler, "sample", recording)
    main(["data", "probe", config, *model, "--limit", "2", "--samples", "2", "train.max_completion_tokens=16"])
    digest = (weights_hash(folder_of("agon:halves/a")) or "")[:8]
    assert drawn == [f"a@000000-{digest}"] * 4
    assert "by agon:halves with agon:halves/a" in capsys.readouterr().out


def test_kept_programs_are_named_with_their_tests_and_problems_of_an_environment_are_not_named() -> None:
    code = Problem("x", "Print 1.", "", {}, UnitTests((("", "1"),)))
    found = BaseRates([ProbedProblem(code, 1, 2)], 2, 2, 1.0, 0.0)
    assert "{path: k.jsonl, columns: {tests: tests}}" in data_probe.advice(found, Path("k.jsonl"))
    own = Problem("x", "1 + 1?", "2", {"level": 3}, given={"problem": "1 + 1?"})
    found = BaseRates([ProbedProblem(own, 1, 2)], 2, 2, 1.0, 0.0)
    assert "{path: k.jsonl, columns: {level: level}}" in data_probe.advice(found, Path("k.jsonl"))
    drawn = BaseRates([ProbedProblem(Problem("x", "1 + 1?", "2", {"draw": {}}), 1, 2)], 2, 2, 1.0, 0.0)
    assert "brings its own problems" in data_probe.advice(drawn, None)
