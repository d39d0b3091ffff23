"""`agon export`: plain adapters or merged models, written atomically, with a model card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.cli import main
from agon.rundir.pair import read_pair, write_pair
from agon.types import Policy
from tests.report.helpers import INFO, make_run_with_pair, make_study


def test_adapters_leave_as_they_are(tmp_path: Path) -> None:
    path = make_run_with_pair(tmp_path)
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 0
    for policy in Policy:
        for file in (path / "pair" / policy.value).iterdir():
            assert (tmp_path / "out" / policy.value / file.name).read_bytes() == file.read_bytes()
    assert read_pair(tmp_path / "out").info == read_pair(path).info


def test_nothing_but_the_adapters_leaves(tmp_path: Path) -> None:
    path = make_run_with_pair(tmp_path)
    (tmp_path / "secret").write_text("mine")
    (path / "pair" / "a" / "extra").symlink_to(tmp_path / "secret")
    (path / "pair" / "a" / "plain").write_text("mine")
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 0
    left = {file.name for file in (tmp_path / "out" / "a").iterdir()}
    assert left == {"adapter_config.json", "adapter_model.safetensors"}


def test_an_existing_folder_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_run_with_pair(tmp_path)
    (tmp_path / "out").mkdir()
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_damaged_pair_leaves_nothing_behind(tmp_path: Path) -> None:
    path = make_run_with_pair(tmp_path)
    (path / "pair" / "a" / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 3}))
    assert main(["export", str(path), "--to", "peft", "-o", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_merged_model_says_what_base_and_adapter_say(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="merging needs torch")
    peft = pytest.importorskip("peft", reason="merging needs PEFT")
    transformers = pytest.importorskip("transformers", reason="merging needs transformers")
    from agon.engine.shipped import folder_of

    torch.set_num_threads(1)
    torch.manual_seed(0)
    settings = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    load = transformers.AutoModelForCausalLM.from_pretrained
    with_adapter = peft.get_peft_model(load(folder_of("agon:tiny"), dtype=torch.float32), settings)
    with_adapter.save_pretrained(tmp_path / "adapter")
    path = make_study(tmp_path, {"agon": 1})[0]
    write_pair(path, tmp_path / "adapter", tmp_path / "adapter", INFO)
    assert main(["export", str(path), "--to", "merged"]) == 0
    merged = load(path / "export-merged" / "a", dtype=torch.float32)
    ids = torch.arange(40).reshape(1, -1)
    with torch.no_grad():
        one, two, bare = (
            model(ids).logits for model in (merged.eval(), with_adapter.eval(), load(folder_of("agon:tiny")).eval())
        )
    rounding = torch.finfo(torch.bfloat16).eps * two.abs().max() * 4
    assert (one - two).abs().max() < rounding
    assert (bare.float() - two).abs().max() > rounding
    weights, settings = (path / "export-merged" / "a" / name for name in ("model.safetensors", "config.json"))
    assert weights.stat().st_mode == settings.stat().st_mode
    assert transformers.AutoTokenizer.from_pretrained(path / "export-merged" / "b").decode([5]) is not None


def test_a_merged_composite_keeps_the_dtype_of_its_text_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="merging needs torch")
    peft = pytest.importorskip("peft", reason="merging needs PEFT")
    transformers = pytest.importorskip("transformers", reason="merging needs transformers")
    from agon.engine.merge import merge
    from tests.engine.helpers.bases import write_cut
    from tests.engine.helpers.families import qwen3_5

    torch.set_num_threads(1)
    base = write_cut("Qwen/Qwen3.5-2B", tmp_path / "base", qwen3_5())
    config = json.loads((base / "config.json").read_text())
    config.pop("dtype", None)  # as published: the text model alone names one
    config["text_config"]["dtype"] = "bfloat16"
    (base / "config.json").write_text(json.dumps(config))
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    merge(str(base), tmp_path / "adapter", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
