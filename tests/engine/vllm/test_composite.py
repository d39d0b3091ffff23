"""A composite checkpoint on a real engine: the learner's adapters by name, and none of which a part is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest
from safetensors.torch import load_file, save_file

from _engine import RANK, Bench, build
from agon.config import Lora, Model, SamplerConfig
from agon.engine.vllm.canary import Canary
from agon.engine.vllm.door import Vllm
from agon.errors import EngineError
from agon.types import Policy, Version
from tests.engine.helpers.bases import write_cut
from tests.engine.helpers.families import qwen3_5

pytestmark = pytest.mark.slow
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("composite")
    base = str(write_cut("Qwen/Qwen3.5-2B", root / "base", qwen3_5()))
    model = Model(name=base, dtype="bfloat16", lora=Lora(rank=RANK, alpha=2 * RANK))  # the CPU kernel has no float32
    sampler = Vllm.open_sampler(SamplerConfig(max_loras=2), model, base, 512)
    yield Bench(sampler, build(Path(base)), root)
    sampler.close()


def test_the_learners_text_names_reach_every_module_of_the_composite(table: Bench) -> None:
    assert not any("language_model" in name for name in table.pair.targets()), "the learner holds the text alone"
    table.move(Policy.B, 0.05, seed=0)
    canary = Canary(table.sampler, table, slots=2)
    versions = {policy: table.publish(policy) for policy in Policy}
    canary.check(versions)
    assert canary.attested() == 2
    drawn = table.sampler.submit(canary._draw(0, [versions[Policy.B]], 4)).result()[versions[Policy.B]]
    scored = zip(drawn, table.score(None, drawn), strict=True)
    base = fmean(abs(a - b) for row, other in scored for a, b in zip(row.logprobs or (), other, strict=True))
    assert base > 5 * canary.gaps()[versions[Policy.B]], "B is itself, and not the base"


def renamed(folder: Path, copy: Path, old: str, new: str) -> Path:
    """A copy of an adapter with other names."""
    copy.mkdir()
    (copy / "adapter_config.json").write_bytes((folder / "adapter_config.json").read_bytes())
    tensors = {name.replace(old, new): tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(tensors, copy / WEIGHTS, metadata={"format": "pt"})
    return copy


def test_names_of_the_whole_checkpoint_are_accepted_too(table: Bench, tmp_path: Path) -> None:
    version = Version("b@000090-whole")
    whole = renamed(table.export(Policy.B)[1], tmp_path / "whole", "model.layers", "model.language_model.layers")
    table.sampler.load(version, whole)
    table.sampler.unload(version)


def test_an_adapter_of_which_vllm_would_ignore_a_module_is_refused_by_name(table: Bench, tmp_path: Path) -> None:
    moved = renamed(table.export(Policy.B)[1], tmp_path / "moved", "layers.3.mlp.down_proj", "layers.4.mlp.down_proj")
    with pytest.raises(EngineError, match=r"1 of its \d+ modules .*layers\.4\.mlp\.down_proj") as refused:
        table.sampler.load(Version("b@000091-moved"), moved)
    assert "trained on this base" in refused.value.fix
    assert table.sampler.restarts == 0
