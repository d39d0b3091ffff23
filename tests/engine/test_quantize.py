"""A base in 4 bits: learner, sampler and files hold the same weights, and what does not combine is refused."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agon import RunDir, train
from agon.cli import main
from agon.config import Model, load_config
from agon.engine.base import base_files
from agon.engine.published import RECIPES
from agon.engine.quantize import NF4, PLAIN, load_nf4, quantised_files
from agon.engine.render import Renderer
from agon.engine.safe_load import load_model
from agon.engine.synthetic import stream
from agon.engine.vllm.door import check_loader
from agon.errors import ConfigError, EngineError, InputError, RunDirError
from agon.eval.target import check_pair
from agon.plan.base_shapes import shape_of
from agon.plan.budget import count
from agon.plan.gpus import Node, find_gpu
from agon.plan.memory import base_bytes
from agon.plan.plan import plan_on
from agon.rundir import read_bouts
from agon.rundir.files import weights_hash
from agon.rundir.manifest import config_hash
from agon.rundir.pair import PairInfo, read_pair
from agon.types import BASE, Message, Policy, Prompt, Quote, Request, Sampling, Version
from tests.engine.learner.helpers import make_learner, model_config, rows

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "src" / "agon" / "recipes" / "qwen3-8b-24gb.yaml"
TABLETOP = ROOT / "configs" / "tabletop" / "agon.yaml"
PROMPT = Prompt((Message("user", (Quote("What is one and one?"),)),))


@pytest.fixture(scope="module")
def nf4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The tiny base in 4 bits, in a cache of its own."""
    pytest.importorskip("bitsandbytes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield model_config(name="agon:tiny", quantize="nf4")


def unquantised(model: Model) -> Model:
    return model.model_copy(update={"quantize": "none"})


def logprobs(base: Any, seed: int = 0) -> Any:
    import torch

    ids = torch.randint(0, 64, (2, 40), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return torch.log_softmax(base.eval()(ids).logits.float(), dim=-1)


def test_both_checkpoints_are_the_same_weights_and_the_published_ones_are_not(nf4: Model) -> None:
    import torch

    learner, plain = load_nf4(nf4), load_model(base_files(nf4), "float32")
    assert torch.equal(logprobs(learner), logprobs(plain))
    assert (logprobs(learner) - logprobs(load_model(base_files(unquantised(nf4)), "float32"))).abs().mean() > 0.1


def test_a_pass_without_gradients_leaves_codes_and_scales_as_they_were(nf4: Model) -> None:
    """On a CPU with AVX512-BF16 bitsandbytes packs them anew, with scales in bfloat16, unless the layer says no."""
    import torch

    base = load_nf4(nf4)
    layers = [module for module in base.modules() if type(module).__name__ == "Linear4bit"]
    assert layers
    assert all(vars(layer)["support_avx512bf16_for_cpu"] is False for layer in layers)
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    logprobs(base)
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())


def test_it_is_written_once_under_a_name_of_base_and_dtype(nf4: Model, tmp_path: Path) -> None:
    folder = quantised_files(nf4)
    written = {form: (folder / form / "model.safetensors").stat().st_mtime_ns for form in (NF4, PLAIN)}
    assert quantised_files(nf4) == folder
    assert written == {form: (folder / form / "model.safetensors").stat().st_mtime_ns for form in (NF4, PLAIN)}
    assert quantised_files(nf4.model_copy(update={"dtype": "bfloat16"})) != folder
    other = shutil.copytree(base_files(unquantised(nf4)), tmp_path / "tiny")
    changed = load_model(str(other), "float32")
    changed.model.norm.weight.data += 1
    changed.save_pretrained(other)
    assert quantised_files(nf4.model_copy(update={"name": str(other)})).name.rpartition("-")[2] not in folder.name


def test_prompts_are_rendered_as_with_the_published_base(nf4: Model) -> None:
    plain, published = (Renderer.load(base_files(model)) for model in (nf4, unquantised(nf4)))
    assert (plain.hash, plain.stop) == (published.hash, published.stop)
    assert plain.render(PROMPT).ids == published.render(PROMPT).ids


@pytest.mark.slow
def test_one_policy_learns_and_the_other_and_the_base_stay_to_the_bit(nf4: Model) -> None:
    import torch

    learner = make_learner(base=load_nf4(nf4), model=nf4)
    assert {p.dtype for policy in Policy for p in learner.pair.parameters(policy)} == {torch.float32}
    before = {name: tensor.clone() for name, tensor in learner.pair.model.state_dict().items()}
    learner.update([stream(Policy.A, [rows(Policy.A, 0)])])
    after = learner.pair.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(".a." in name for name in changed)


@pytest.mark.slow
def test_the_sampler_draws_from_the_learners_base(nf4: Model) -> None:
    from agon.engine.hf.sampler import HFSampler

    learner = make_learner(base=load_nf4(nf4), model=nf4)

    def distance(model: Model) -> float:
        sampler = HFSampler(base_files(model))
        try:
            drawn = asyncio.run(sampler.sample(Request(PROMPT, BASE, 0, Sampling(1.0, 1.0, 16)))).tokens
        finally:
            sampler.close()
        [scores] = learner.score(None, [drawn])
        return max(abs(mine - theirs) for mine, theirs in zip(scores, drawn.logprobs or (), strict=True))

    assert distance(nf4) < 1e-3
    assert distance(unquantised(nf4)) > 0.1


@pytest.mark.slow
def test_a_run_resumes_to_the_bit_and_its_pair_names_the_quantisation(nf4: Model, tmp_path: Path) -> None:
    coin = "verifier=tests.training.helpers.coin:odd"
    words = [
        *("data.train.take=8", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2"),
        *("game.group_size=4", "train.max_steps=2", "train.max_completion_tokens=48", "train.max_peek_tokens=16"),
        *("model.lora.rank=4", "eval.points=1", "eval.max_completion_tokens=32", "save.every=1", "save.keep=5"),
        *("train.warmup=0", "model.quantize=nf4", coin),
    ]
    run = train(TABLETOP, *words, out=tmp_path, name="four-bits", show="nothing")
    before = content(run)
    shutil.rmtree(run.path / "checkpoints" / "step_000002")
    train(run.path, coin, resume=True, show="nothing")
    assert content(run) == before
    pair = read_pair(run.path)
    assert pair.info.quantize == "nf4"
    with pytest.raises(RunDirError, match="quantize"):
        check_pair(pair, unquantised(run.config.model))
    assert main(["export", str(run.path), "--to", "merged", "--out", str(tmp_path / "merged")]) == 0
    merged = load_model(str(tmp_path / "merged" / "a"), "float32")
    assert (logprobs(merged) - logprobs(load_nf4(nf4))).abs().mean() < 0.1, "merged into the base that it learnt on"


def content(run: RunDir) -> Any:
    adapters = {p: weights_hash(run.path / "checkpoints" / "step_000002" / p.value) for p in Policy}
    return read_bouts(run).to_pylist(), (run.path / "steps.jsonl").read_bytes(), adapters


def test_what_a_dead_process_left_is_removed(nf4: Model) -> None:
    left = quantised_files(nf4).with_name(".tmp-left")
    left.mkdir()
    quantised_files(nf4.model_copy(update={"name": "agon:halves"}))
    assert not left.exists()


@pytest.mark.parametrize("key", ["text_config", "quantization_config"])
def test_composites_and_quantised_bases_are_refused(nf4: Model, key: str, tmp_path: Path) -> None:
    other = shutil.copytree(base_files(unquantised(nf4)), tmp_path / "other")
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(settings | {key: {}}))
    with pytest.raises(ConfigError) as refused:
        quantised_files(nf4.model_copy(update={"name": str(other)}))
    assert "model.quantize" in refused.value.fix


def test_without_the_packages_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("agon.engine.vllm.door.find_spec", lambda name: None)
    with pytest.raises(InputError) as missing:
        quantised_files(model_config(name="agon:tiny", quantize="nf4"))
    assert "nf4" in missing.value.fix
    with pytest.raises(EngineError) as unloadable:
        check_loader(load_config(RECIPE).sampler)
    assert "nf4-vllm" in unloadable.value.fix


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["sampler.engine=tinker", "sampler.options={}"], "model.quantize"),
        (["sampler.options={quantization: fp8}"], "sampler.options"),
        (["model.quantize=none"], "sampler.options"),
        (["model.dtype=float16"], "sampler.options"),
    ],
)
def test_what_does_not_combine_is_refused_with_the_config(words: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(RECIPE, words)
    [fault] = refused.value.faults
    assert f" {key}: " in fault


def test_it_changes_the_hash_of_a_config() -> None:
    assert config_hash(load_config(TABLETOP)) != config_hash(load_config(TABLETOP, ["model.quantize=nf4"]))


def test_the_recipe_fits_on_24_gb_and_only_with_4_bits_in_both() -> None:
    shape = shape_of(RECIPES["Qwen/Qwen3-8B"])
    others = shape.parameters - shape.multiplied
    assert base_bytes(shape, 2, nf4=True) == shape.multiplied // 2 + shape.multiplied // 16 + 2 * others
    gpu = Node(find_gpu("4090"), 1, None)

    def refusal(*words: str) -> EngineError | None:
        config = load_config(RECIPE, words)
        return plan_on(config, gpu, count(config.data)).refusal

    assert refusal() is None
    dequantised = refusal("sampler.options={}")
    assert dequantised is not None
    assert "quantization: bitsandbytes" in dequantised.fix
    whole = refusal("model.quantize=none", "sampler.options={}")
    assert whole is not None
    assert "model.quantize=nf4" in whole.fix


def test_a_model_card_loads_the_base_in_4_bits() -> None:
    from agon.report.card import use

    info = PairInfo(
        versions={policy: Version.of(policy, 1, "ab12") for policy in Policy},
        base="Qwen/Qwen3-8B",
        quantize="nf4",
        prompts_hash="x",
        chat_template_hash="x",
    )
    assert "from_pretrained('Qwen/Qwen3-8B', quantization_config=nf4)" in use(info, "peft")
    assert "BitsAndBytesConfig" not in use(info.model_copy(update={"quantize": "none"}), "peft")
