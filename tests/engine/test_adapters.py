"""The pair: how it starts, what carries an adapter, and what its files are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel

from agon.config import Init, Lora
from agon.engine.adapters import AdapterPair, build_pair, keep_input_dtype, linear_targets
from agon.errors import CheckpointError, ConfigError, RunDirError
from agon.types import Policy
from tests.engine.helpers.bases import random_base

LORA = Lora(rank=4, alpha=8)
IDS = torch.arange(2, 22).view(1, -1)


def pair_of(seed: int = 0, base: Any = None, noise: float = 0.02, lora: Lora = LORA) -> AdapterPair:
    return build_pair(base if base is not None else random_base(), lora, Init(b_noise_std=noise), seed)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(IDS).logits


def test_a_starts_as_the_base_and_b_close_to_it() -> None:
    base, pair = logits(random_base()), pair_of(noise=1e-3)
    pair.activate(Policy.A)
    assert torch.equal(logits(pair.model), base)
    pair.activate(Policy.B)
    assert 0 < float((logits(pair.model) - base).abs().max()) < 0.1


def test_the_noise_of_b_has_the_size_that_the_config_says() -> None:
    found = torch.cat(
        [p.detach().flatten() for n, p in pair_of(noise=0.5).named_parameters(Policy.B).items() if "lora_B" in n]
    )
    assert float(found.std()) == pytest.approx(0.5, rel=0.05)
    assert float(found.mean()) == pytest.approx(0.0, abs=0.03)


def test_a_and_b_start_from_different_matrices() -> None:
    a, b = (list(pair_of(noise=0.0).named_parameters(policy).values()) for policy in Policy)
    drawn = [(one, two) for one, two in zip(a, b, strict=True) if one.any()]  # lora_B is zero in both
    assert len(drawn) == len(a) // 2
    assert not any(torch.equal(one, two) for one, two in drawn)


@pytest.mark.parametrize("policy", list(Policy))
def test_an_adapter_adds_b_times_a_scaled_by_alpha_over_rank(policy: Policy) -> None:
    pair = pair_of(lora=Lora(rank=4, alpha=12))
    pair.activate(policy)
    layer = pair.model.get_submodule("base_model.model.model.layers.0.mlp.up_proj")
    down, up = (getattr(layer, name)[policy.value].weight for name in ("lora_A", "lora_B"))
    torch.nn.init.normal_(up)
    x = torch.randn(3, down.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = layer.base_layer(x) + 12 / 4 * x @ down.T @ up.T
        torch.testing.assert_close(layer.train()(x), expected)


def test_the_same_seed_gives_the_same_pair_whatever_was_drawn_before() -> None:
    one = pair_of(seed=3)
    torch.randn(17)
    two, other = pair_of(seed=3), pair_of(seed=4)
    for policy in Policy:
        assert one.hash(policy) == two.hash(policy)
        assert one.hash(policy) != other.hash(policy)


def test_building_a_pair_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.randn(3)
    torch.manual_seed(0)
    pair_of(seed=9)
    assert torch.equal(torch.randn(3), expected)


def test_adapters_are_float32_masters_over_a_bfloat16_base() -> None:
    pair = pair_of(base=random_base().to(torch.bfloat16))
    assert {p.dtype for policy in Policy for p in pair.parameters(policy)} == {torch.float32}
    assert pair.model.get_base_model().model.embed_tokens.weight.dtype == torch.bfloat16


def test_both_stay_trainable_whatever_is_active() -> None:
    pair = pair_of()
    for policy in (Policy.B, Policy.A):
        pair.activate(policy)
        with pair.base_only():
            pass
        assert pair.model.active_adapters == [policy.value]
        assert all(p.requires_grad for q in Policy for p in pair.parameters(q))


def test_base_only_is_the_base() -> None:
    pair = pair_of()
    pair.activate(Policy.B)
    with pair.base_only():
        inside = logits(pair.model)
    assert torch.equal(inside, logits(random_base()))
    assert not torch.equal(inside, logits(pair.model))


@pytest.mark.parametrize("policy", list(Policy))
def test_an_exported_adapter_is_a_plain_peft_directory(tmp_path: Path, policy: Policy) -> None:
    pair = pair_of()
    pair.activate(policy)
    expected = logits(pair.model)
    digest = pair.export(policy, tmp_path / policy.value)
    assert digest == pair.hash(policy)
    assert sorted(f.name for f in (tmp_path / policy.value).iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    assert torch.equal(logits(PeftModel.from_pretrained(random_base(), tmp_path / policy.value)), expected)


def test_equal_adapters_give_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        pair_of().export(Policy.B, tmp_path / name)
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    settings = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    assert settings["target_modules"] == sorted(settings["target_modules"])


def test_load_puts_back_one_policy_and_leaves_the_other(tmp_path: Path) -> None:
    source, pair = pair_of(seed=1), pair_of(seed=2)
    before = [p.detach().clone() for p in pair.parameters(Policy.A)]
    source.export(Policy.B, tmp_path)
    pair.load(Policy.B, tmp_path)
    assert pair.hash(Policy.B) == source.hash(Policy.B)
    assert all(map(torch.equal, before, pair.parameters(Policy.A)))


def test_an_adapter_of_another_shape_is_refused(tmp_path: Path) -> None:
    pair_of(lora=Lora(rank=2, alpha=4)).export(Policy.A, tmp_path)
    with pytest.raises(CheckpointError, match="does not hold an adapter of this shape"):
        pair_of().load(Policy.A, tmp_path)


EXPECTED = {
    "qwen3": {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
    "qwen3_5": {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"},
    "gemma4": {"per_layer_input_gate", "per_layer_projection", "per_layer_model_projection"},
}


@pytest.mark.parametrize("family", list(EXPECTED))
def test_every_linear_layer_of_a_family_carries_an_adapter_except_the_head(family: str) -> None:
    base = random_base(family)
    linear = [name for name, module in base.named_modules() if isinstance(module, torch.nn.Linear)]
    pair = pair_of(base=base)
    assert set(linear) - set(pair.targets()) == {"lm_head"}
    assert {name.rsplit(".", 1)[-1] for name in pair.targets()} >= EXPECTED["qwen3"] | EXPECTED[family]


def test_towers_that_text_does_not_pass_carry_none() -> None:
    base = gemma4_with_towers()
    pair = pair_of(base=base)
    assert any("vision" in name for name, module in base.named_modules() if isinstance(module, torch.nn.Linear))
    assert any("audio" in name for name, module in base.named_modules() if isinstance(module, torch.nn.Linear))
    assert not [name for name in pair.targets() if "vision" in name or "audio" in name]
    assert len(pair.targets()) == len(pair_of(base=random_base("gemma4")).targets())


def gemma4_with_towers() -> Any:
    from transformers import AutoModelForCausalLM, Gemma4Config

    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "position_embedding_size": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    audio = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "output_proj_dims": 16}
    text = random_base("gemma4").config
    return AutoModelForCausalLM.from_config(
        Gemma4Config(
            text_config=text, vision_config=vision | heads, audio_config=audio | {"subsampling_conv_channels": [8, 4]}
        )
    )


def test_targets_may_be_named() -> None:
    names = {
        name.rsplit(".", 1)[-1] for name in pair_of(lora=Lora(rank=2, alpha=4, targets=["q_proj", "v_proj"])).targets()
    }
    assert names == {"q_proj", "v_proj"}


@pytest.mark.parametrize("name", ["lm_head", "q_porj"])
def test_a_target_that_is_no_linear_layer_of_the_base_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no linear layer is called {name}"):
        pair_of(lora=Lora(rank=2, alpha=4, targets=[name]))


@pytest.mark.parametrize("family", list(EXPECTED))
def test_the_last_layers_alone_carry_an_adapter_and_get_gradients(family: str, tmp_path: Path) -> None:
    """No gradient below them: the learner saves the backward pass of all layers before."""
    base = random_base(family)
    count = base.config.num_hidden_layers
    pair = pair_of(base=base, lora=Lora(rank=4, alpha=8, layers=1))
    assert {name.split(".")[2] for name in pair.targets()} == {str(count - 1)}
    below: list[torch.Tensor] = []
    base.model.layers[count - 2].register_forward_hook(lambda module, given, out: below.append(out))
    pair.activate(Policy.B)
    output = pair.model.eval()(IDS).logits
    output.sum().backward()
    assert not below[0].requires_grad
    assert all(parameter.grad is not None for parameter in pair.parameters(Policy.B))
    pair.export(Policy.B, tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["layers_to_transform"] == [count - 1]
    assert torch.equal(logits(PeftModel.from_pretrained(random_base(family), tmp_path)), output.detach())
    other = pair_of(seed=1, base=random_base(family), lora=Lora(rank=4, alpha=8, layers=1))
    other.load(Policy.A, tmp_path)
    assert other.hash(Policy.A) == pair.hash(Policy.B)


def test_more_layers_than_the_base_has_are_refused() -> None:
    count = random_base().config.num_hidden_layers
    assert pair_of(lora=Lora(rank=2, alpha=4, layers=count)).targets() == pair_of().targets()
    with pytest.raises(ConfigError, match=f"the base has {count} layers"):
        pair_of(lora=Lora(rank=2, alpha=4, layers=count + 1))


def test_linear_targets_leave_out_an_untied_head_too() -> None:
    assert "lm_head" not in linear_targets(random_base(tie_word_embeddings=False))


def exact(pair: AdapterPair, policy: Policy) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in pair.parameters(policy)]


def test_policies_start_from_the_folders_that_the_config_names(tmp_path: Path) -> None:
    trained = pair_of(noise=0.5)
    hashes = {policy: trained.export(policy, tmp_path / policy.value) for policy in Policy}
    swapped = Init(a=str(tmp_path / "b"), b=str(tmp_path / "a"))
    pair = build_pair(random_base(), LORA, swapped, 1)
    assert pair.hash(Policy.A) == hashes[Policy.B]
    assert pair.hash(Policy.B) == hashes[Policy.A]
    half = build_pair(random_base(), LORA, Init(b=str(tmp_path / "b")), 0)
    assert half.hash(Policy.A) == pair_of(seed=0).hash(Policy.A)


def test_an_adapter_with_a_different_scale_or_more_than_lora_is_no_start(tmp_path: Path) -> None:
    pair_of().export(Policy.B, tmp_path)
    init = Init(b=str(tmp_path))
    with pytest.raises(ConfigError, match=r"has rank 4 and alpha 8, model.lora has 4 and 4"):
        build_pair(random_base(), Lora(rank=4, alpha=4), init, 0)
    settings = tmp_path / "adapter_config.json"
    settings.write_text(settings.read_text().replace('"use_dora": false', '"use_dora": true'))
    with pytest.raises(RunDirError, match="use_dora"):
        build_pair(random_base(), LORA, init, 0)


def saved_by(pair: AdapterPair) -> tuple[torch.Tensor, list[torch.Tensor], int]:
    """Logits and gradients of B under autocast, and how many different tensors were saved for the backward pass."""
    saved = dict[int, torch.Tensor]()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    pair.activate(Policy.B)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        found = pair.model(IDS).logits
    found.float().square().sum().backward()
    return found, [p.grad.clone() for p in pair.parameters(Policy.B) if p.grad is not None], len(saved)


def test_under_autocast_inputs_of_adapters_are_not_copied_to_float32() -> None:
    """Bit for bit the same numbers: autocast would cast the copy back, and save one more of each."""
    plain, kept = (pair_of(base=random_base().to(torch.bfloat16)) for _ in range(2))
    keep_input_dtype(kept.model)
    (one, theirs, copied), (two, mine, left) = saved_by(plain), saved_by(kept)
    assert torch.equal(one, two)
    assert all(torch.equal(a, b) for a, b in zip(theirs, mine, strict=True))
    assert left <= copied - 4 * 2, "in each of two layers, four inputs were saved twice"
