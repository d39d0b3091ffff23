"""The precision that a GPU trains and draws in, and what is refused before anything is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agon.config import Model, load_config
from agon.config.bases import Dtype
from agon.engine.backend import backend_of
from agon.engine.dtypes import check_gpus, learner_dtype, refusal
from agon.errors import EngineError
from agon.rundir import RunDir
from tests.architecture import tree

T4, V100, AMPERE = (7, 5), (7, 0), (8, 0)


@pytest.mark.parametrize(
    ("capability", "dtype", "works"),
    [
        (AMPERE, "bfloat16", True),
        (AMPERE, "float16", True),
        (AMPERE, "float32", False),
        (T4, "bfloat16", False),
        (T4, "float16", True),
        (T4, "float32", False),
        (V100, "float16", False),
        ((12, 0), "bfloat16", True),
    ],
)
def test_what_works_is_allowed_and_what_does_not_is_answered(
    capability: tuple[int, int], dtype: Dtype, works: bool
) -> None:
    error = refusal(dtype, "this card", capability)
    assert (error is None) is works
    if error and capability >= T4:
        advised = error.fix.split("model.dtype=")[1].split(":")[0]
        assert refusal(advised, "this card", capability) is None, "what is advised works"  # type: ignore[arg-type]


def test_a_learner_beside_servers_may_compute_in_float32() -> None:
    assert refusal("float32", "this card", T4, draws=False) is None
    assert refusal("bfloat16", "this card", T4, draws=False) is not None


def test_the_learner_of_a_float16_engine_computes_in_float32() -> None:
    import torch

    from agon.engine.base_config import base_path
    from agon.engine.learner.setup import load_base

    assert [learner_dtype(dtype) for dtype in ("bfloat16", "float16", "float32")] == ["bfloat16", "float32", "float32"]
    model = Model(name="agon:tiny", dtype="float16")
    base = load_base(model.model_copy(update={"name": base_path(model)}))
    assert base.dtype == torch.float32


def test_a_run_is_refused_by_any_gpu_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    cards = [("NVIDIA A100", AMPERE), ("Tesla T4", T4)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: cards[number][0])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: cards[number][1])
    check_gpus("float16", draws=True)
    config = load_config(tree.ROOT / "configs" / "paper" / "main" / "agon.yaml")
    with pytest.raises(EngineError, match="Tesla T4 has no bfloat16") as refused:
        backend_of(config).learner(1)
    assert "model.dtype=float16" in refused.value.fix


@pytest.mark.slow
def test_a_run_in_float16_passes_its_checks_on_a_real_engine(tmp_path: Path) -> None:
    """Throw-away adapters must be large and still finite in float16; an engine that draws from infinities dies."""
    pytest.importorskip("vllm")
    words = ["sampler.engine=vllm", "model.dtype=float16", "train.max_steps=1", "train.problems_per_step=1"]
    words += ["game.group_size=2", "data.train.take=2", "data.dev.take=1", "data.held_out.take=1", "eval.points=0"]
    words += ["sampler.max_model_len=512", "train.max_completion_tokens=16"]
    code = f"import agon; agon.train('configs/tabletop/agon.yaml', *{words!r}, out={str(tmp_path)!r}, name='x')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tree.ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    (timing,) = RunDir.open(tmp_path / "x").timings.records()
    assert timing.attested
    assert 0 < max(timing.canary.values()) < 0.02, "learner in float32, engine in float16"
