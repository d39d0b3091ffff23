"""`agon export`: plain adapters or merged models, whole or not at all, with a card that claims what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agon.cli import main
from agon.report.card import card, results, use
from agon.report.collect import read_run
from agon.rundir.pair import PairInfo, read_pair, write_pair
from agon.types import Direction, Policy
from tests.report.studies import make_study
from tests.rundir.scenes import write_adapter

INFO = PairInfo(
    {policy: f"{policy.value}@000030-5f3c9a1e" for policy in Policy},
    "agon:tiny",
    "p" * 64,
    "c" * 64,
    direction=Direction.BA,
)


def run_with_pair(root: Path) -> Path:
    path = make_study(root, {"agon": 1})[0]
    write_pair(path, write_adapter(root / "a", [1.0]), write_adapter(root / "b", [2.0]), INFO)
    return path


def test_adapters_leave_as_they_are(tmp_path: Path) -> None:
    path = run_with_pair(tmp_path)
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 0
    for policy in Policy:
        for file in (path / "pair" / policy.value).iterdir():
            assert (tmp_path / "out" / policy.value / file.name).read_bytes() == file.read_bytes()
    assert read_pair(tmp_path / "out").info == read_pair(path).info


def test_the_card_tells_what_was_measured(tmp_path: Path) -> None:
    run = read_run(run_with_pair(tmp_path))
    text = card(run, INFO, "peft")
    raw = run.results["held_out", "cascade"]["pass"]
    assert f"{100 * raw['value']:.1f} [{100 * raw['low']:.1f}, {100 * raw['high']:.1f}]" in text
    assert "B drafts, A answers" in text
    assert "One training run, one seed" in text
    assert "a toy" in text
    assert text.index("| held_out | the pair, in its direction |") < text.index("| held_out | A alone |")
    assert text.startswith("---\nbase_model: agon:tiny\n")


def test_the_code_of_a_card_is_true(tmp_path: Path) -> None:
    run = read_run(run_with_pair(tmp_path))
    tiny, named = use(INFO, "peft"), use(replace(INFO, base="Qwen/Qwen3-0.6B"), "merged")
    assert "from_pretrained(tiny_base())" in tiny
    assert 'set_adapter("b")  # drafts' in tiny
    assert 'drafter = AutoModelForCausalLM.from_pretrained(FOLDER, subfolder="b")' in named
    assert "tiny_base" not in card(run, replace(INFO, base="Qwen/Qwen3-0.6B"), "peft")
    for text in (tiny, named):
        compile(text.split("```python\n")[1].split("```")[0], "card", "exec")


def test_a_pair_that_is_not_clearly_better_than_one_policy_is_said_to_be(tmp_path: Path) -> None:
    path = run_with_pair(tmp_path)
    words = "the pair's interval overlaps that of"
    file = path / "evals" / "held_out" / "cascade.json"
    raw = json.loads(file.read_text())
    for low, said in ((0.2, True), (0.99, False)):
        file.write_text(json.dumps(raw | {"pass": raw["pass"] | {"low": low}}))
        assert (words in card(read_run(path), INFO, "peft")) is said


def test_a_card_without_results_says_so(tmp_path: Path) -> None:
    path = run_with_pair(tmp_path)
    for file in (path / "evals" / "held_out").iterdir():
        file.unlink()
    run = read_run(path)
    assert "Nothing has been evaluated" in results(run)
    assert "nothing above says how good the pair is" in card(run, INFO, "merged")


def test_what_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_with_pair(tmp_path)
    (tmp_path / "out").mkdir()
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 2
    assert "there already" in capsys.readouterr().err


def test_a_damaged_pair_leaves_nothing_behind(tmp_path: Path) -> None:
    path = run_with_pair(tmp_path)
    (path / "pair" / "a" / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 3}))
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_merged_model_says_what_base_and_adapter_say(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="merging needs torch")
    peft = pytest.importorskip("peft", reason="merging needs PEFT")
    transformers = pytest.importorskip("transformers", reason="merging needs transformers")
    from agon.engine.tiny.checkpoint import tiny_base

    torch.set_num_threads(1)
    torch.manual_seed(0)
    settings = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    load = transformers.AutoModelForCausalLM.from_pretrained
    with_adapter = peft.get_peft_model(load(tiny_base(), dtype=torch.float32), settings)
    with_adapter.save_pretrained(tmp_path / "adapter")
    path = make_study(tmp_path, {"agon": 1})[0]
    write_pair(path, tmp_path / "adapter", tmp_path / "adapter", INFO)
    assert main(["export", str(path), "--to", "merged"]) == 0
    merged = load(path / "export-merged" / "a", dtype=torch.float32)
    ids = torch.arange(40).reshape(1, -1)
    with torch.no_grad():
        one, two, bare = (model(ids).logits for model in (merged.eval(), with_adapter.eval(), load(tiny_base()).eval()))
    rounding = torch.finfo(torch.bfloat16).eps * two.abs().max() * 4
    assert (one - two).abs().max() < rounding
    assert (bare.float() - two).abs().max() > rounding
    weights, settings = (path / "export-merged" / "a" / name for name in ("model.safetensors", "config.json"))
    assert weights.stat().st_mode == settings.stat().st_mode
    assert transformers.AutoTokenizer.from_pretrained(path / "export-merged" / "b").decode([5]) is not None
