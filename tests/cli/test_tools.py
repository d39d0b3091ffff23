"""`agon explain`, `agon verify` and `agon data probe`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.cli import data_probe, main
from agon.engine.shipped import folder_of
from agon.eval.base_rates import count
from agon.report.glossary import explanations
from agon.rundir.files import weights_hash
from agon.types import Bout, Completion, Problem, Prompt, Reason, Request, Rollout, Verdict


@pytest.mark.parametrize(
    ("word", "kind"),
    [("live_groups", "metric"), ("game.stack", "config key"), ("stack", "config key"), ("dead-drafts", "symptom"),
     ("dead drafts", "symptom"), ("inert", "word"), ("ConfigError", "error"), ("dead group", "word"),
     ("logp_diff_max", "metric")],
)  # fmt: skip
def test_a_word_is_explained(word: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *word.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any(kind in entry["kind"] for entry in found)
    assert all(entry["text"] for entry in found)


def test_a_misspelt_word_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "live_gruops"]) == 2
    assert "did you mean live-groups" in capsys.readouterr().err
    assert main(["explain", "num_generations"]) == 2
    assert "in Agon this is game.group_size" in capsys.readouterr().err


def test_nothing_is_explained_without_words() -> None:
    assert all(entry.text for entry in explanations())


def test_the_verifier_is_tried_on_pasted_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "math", "--gold", "1/2", "0.5", "<answer>1/3</answer>"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["right", "correct"]
    assert second.split()[:2] == ["wrong", "wrong"]
    assert main(["verify", "math", "--gold", "42", "42", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["reason"] == "correct"


def test_no_answer_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["verify", "math", "--gold", "42"]) == 2
    assert "there is no answer to judge" in capsys.readouterr().err


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
    assert "check the verifier: agon verify" in data_probe.advice(found, None)


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
    from agon.engine.hf import HFSampler

    config = str(Path(__file__).parents[2] / "configs" / "tabletop" / "worlds" / "halves.yaml")
    drawn: list[str] = []
    draw = HFSampler.sample

    async def recording(self: HFSampler, request: Request) -> Completion:
        completion = await draw(self, request)
        drawn.append(completion.version)
        return completion

    monkeypatch.setattr(HFSampler, "sample", recording)
    main(["data", "probe", config, "--limit", "2", "--samples", "2", "train.max_completion_tokens=16"])
    digest = (weights_hash(folder_of("agon:halves/a")) or "")[:8]
    assert drawn == [f"a@000000-{digest}"] * 4
    assert "by agon:halves with agon:halves/a" in capsys.readouterr().out
