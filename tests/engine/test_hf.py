"""The transformers sampler: one seed gives one text whoever shares the batch, and versions are what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from agon.engine.hf import sampler as hf
from agon.engine.hf.sampler import NUCLEUS, HFSampler
from agon.engine.safe_load import base_digest
from agon.errors import EngineError
from agon.types import BASE, Completion, Message, Policy, Prompt, Request, Sampling, Seat, Version
from tests.engine.helpers.bases import random_base

from .helpers.families import qwen3

SHORT = Sampling(max_tokens=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random base, three adapters that change what it says, and one in its last layer alone."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("models")
    tokenizer = qwen3()
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, initializer_range=0.4,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(root / "base")
    tokenizer.save_pretrained(root / "base")
    everywhere = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    for name, layers in {"one": None, "two": None, "three": None, "last": [1]}.items():
        settings = LoraConfig(r=4, target_modules=everywhere, layers_to_transform=layers)
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(root / "base"), settings)
        for key, parameter in model.named_parameters():
            if "lora_B" in key:
                torch.nn.init.normal_(parameter, std=0.5)
        model.save_pretrained(root / name)
    return root


@pytest.fixture
def sampler(folder: Path) -> Iterator[HFSampler]:
    made = HFSampler(str(folder / "base"))
    made.publish(Version("a@000000-one"), folder / "one")
    made.publish(Version("b@000000-two"), folder / "two")
    yield made
    made.close()


def request(seed: int, seat: Seat = Policy.A, words: str = "Count.", sampling: Sampling = SHORT) -> Request:
    return Request(Prompt((Message("user", (words,)),)), seat, seed, sampling)


def draw(sampler: HFSampler, *requests: Request) -> list[Completion]:
    async def all_of_them() -> list[Completion]:
        return await asyncio.gather(*map(sampler.sample, requests))

    return asyncio.run(all_of_them())


def test_the_same_seed_gives_the_same_completion_whatever_shares_the_batch(sampler: HFSampler) -> None:
    alone = [draw(sampler, request(seed))[0] for seed in range(4)]
    crowd = [request(100 + n, Policy.B, "A much longer question. " * n) for n in range(3)]
    crowd += [request(200 + n, Policy.A, "Another long question. " * n) for n in range(3)]
    together = draw(sampler, *crowd, *map(request, range(4)))[6:]
    assert [one.tokens.completion_ids for one in alone] == [one.tokens.completion_ids for one in together]
    assert len({one.text for one in alone}) == 4


@pytest.mark.parametrize("family", ["llama", "qwen3_5", "gemma4"])
def test_groups_draw_what_their_members_draw_alone_in_every_kind_of_cache(family: str, tmp_path: Path) -> None:
    """Members of a group share the cache of their prompt: keys and values, windows of them, or a recurrent state."""
    tokenizer = qwen3()
    size = len(tokenizer)
    extra = {"vocab_size_per_layer_input": size} if family == "gemma4" else {}
    random_base(family, vocab_size=size, initializer_range=0.4, **extra).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    made = HFSampler(str(tmp_path))
    asked = [request(seed, BASE, words) for words in ("Count.", "Count further than before.") for seed in range(3)]
    alone = [draw(made, one)[0].tokens for one in asked]
    together = [one.tokens for one in draw(made, *asked)]
    made.close()
    assert [one.completion_ids for one in together] == [one.completion_ids for one in alone]
    assert len({one.completion_ids for one in alone}) == 6
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(torch.tensor(one.logprobs), torch.tensor(other.logprobs), atol=1e-3, rtol=0)


def test_a_prompt_is_read_once_for_all_who_share_it(sampler: HFSampler) -> None:
    read = list[int]()
    watch = sampler._model.get_input_embeddings().register_forward_hook(lambda _, ids, __: read.append(ids[0].numel()))
    drawn = draw(sampler, *map(request, range(16)))
    watch.remove()
    width = len(drawn[0].tokens.prompt_ids)
    assert read[:2] == [width - 1, 16]
    assert max(read[2:]) == 16


def test_requests_of_different_batches_are_not_drawn_together(
    sampler: HFSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With steps in flight, what is rounded together must not depend on timing."""
    drawn, generate = list[list[int]](), sampler._generate

    def noting(jobs: Sequence[Any]) -> list[Completion]:
        drawn.append([job.request.batch for job in jobs])
        return generate(jobs)

    monkeypatch.setattr(sampler, "_generate", noting)
    draw(sampler, *(replace(request(seed), batch=seed % 2) for seed in range(4)))
    assert drawn == [[0, 0], [1, 1]]


def plain_logprobs(folder: Path, adapter: str | None, completion: Completion, temperature: float) -> torch.Tensor:
    """Log-probabilities of the sampled ids in one plain forward pass."""
    from peft import PeftModel

    model = AutoModelForCausalLM.from_pretrained(folder / "base")
    if adapter:
        model = PeftModel.from_pretrained(model, folder / adapter)
    prompt, drawn = completion.tokens.prompt_ids, completion.tokens.completion_ids
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *drawn]])).logits[0, len(prompt) - 1 : -1]
    return (logits / temperature).log_softmax(-1).gather(1, torch.tensor(drawn)[:, None]).squeeze(1)


@pytest.mark.parametrize(("seat", "adapter"), [(Policy.A, "one"), (Policy.B, "two"), (BASE, None)])
def test_log_probs_are_those_of_the_version_that_was_asked(
    sampler: HFSampler, folder: Path, seat: Seat, adapter: str | None
) -> None:
    sampling = Sampling(temperature=0.7, max_tokens=12)
    requests = [request(5, seat, sampling=sampling), request(6, Policy.A, "Longer words here."), request(7, Policy.B)]
    completion = draw(sampler, *requests)[0]
    expected = plain_logprobs(folder, adapter, completion, 0.7)
    torch.testing.assert_close(torch.tensor(completion.tokens.logprobs), expected, atol=1e-4, rtol=0)


def test_an_adapter_in_the_last_layer_alone_is_drawn_from_beside_others(sampler: HFSampler, folder: Path) -> None:
    sampler.publish(Version("a@000001-last"), folder / "last")
    for seat, adapter in ((Policy.A, "last"), (Policy.B, "two"), (BASE, None)):
        [completion] = draw(sampler, request(5, seat))
        expected = plain_logprobs(folder, adapter, completion, 1.0)
        torch.testing.assert_close(torch.tensor(completion.tokens.logprobs), expected, atol=1e-4, rtol=0)


def test_every_completion_says_which_version_made_it(sampler: HFSampler) -> None:
    drawn = draw(sampler, request(1), request(1, Policy.B), request(1, BASE))
    assert [one.version for one in drawn] == ["a@000000-one", "b@000000-two", BASE]
    assert len({one.text for one in drawn}) == 3


def test_sampled_tokens_follow_the_softmax(sampler: HFSampler, folder: Path) -> None:
    sampling = Sampling(max_tokens=1)
    drawn = draw(sampler, *(request(seed, BASE, sampling=sampling) for seed in range(2000)))
    model = AutoModelForCausalLM.from_pretrained(folder / "base")
    with torch.no_grad():
        expected = model(torch.tensor([drawn[0].tokens.prompt_ids])).logits[0, -1].softmax(-1).double() * len(drawn)
    counts = torch.bincount(torch.tensor([one.tokens.completion_ids[0] for one in drawn]), minlength=len(expected))
    common = expected >= 5
    observed = [*counts[common].tolist(), counts[~common].sum().item()]
    wanted = [*expected[common].tolist(), expected[~common].sum().item()]
    assert len(wanted) > 5
    assert chisquare(observed, wanted, sum_check=False).pvalue > 0.001


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.0, 0.8)])
def test_rows_draw_from_their_own_distribution_whoever_is_beside_them(temperature: float, top_p: float) -> None:
    """Two kinds of rows in one batch, over a vocabulary whose likely tokens lie at both ends of long stretches that
    can hardly be drawn."""
    size, count = 5_000, 1_500
    kinds = torch.full((2, size), -30.0)
    likely = torch.tensor([0, 1, 2, 2_499, 2_500, size - 2, size - 1])
    kinds[0, likely] = torch.tensor([0.0, 1.0, -1.0, 0.5, 0.0, -2.0, 1.5])
    kinds[1, likely] = torch.tensor([2.0, -1.0, 0.0, -0.5, 1.0, 0.0, -3.0])
    sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=1)

    def drawn(kind: int, seeds: range) -> list[int]:
        """In batches of 10 beside 10 rows of the other kind."""
        tokens = []
        for at in range(0, len(seeds), 10):
            beside = range(10**6 + at, 10**6 + at + 10)
            draw = hf._draw(sampling, [*beside, *seeds[at : at + 10]], "cpu", lambda ids: None)
            tokens += draw(None, kinds[[1 - kind] * 10 + [kind] * 10]).argmax(-1)[10:].tolist()
        return tokens

    for kind, logits in enumerate(kinds):
        tokens = drawn(kind, range(count))
        expected = hf._nucleus((logits / temperature).softmax(-1)[None], top_p)[0] * count
        common = expected >= 5
        counts = torch.bincount(torch.tensor(tokens), minlength=size)
        assert counts[~common].sum() <= 15
        assert chisquare(counts[common], expected[common], sum_check=False).pvalue > 0.001
        alone = hf._draw(sampling, [7], "cpu", lambda ids: None)
        assert alone(None, logits[None]).argmax(-1).item() == tokens[7]


def test_top_p_draws_from_the_nucleus_only(sampler: HFSampler) -> None:
    def first_ids(top_p: float) -> set[int]:
        sampling = Sampling(max_tokens=1, top_p=top_p)
        return {
            one.tokens.completion_ids[0]
            for one in draw(sampler, *(request(s, BASE, sampling=sampling) for s in range(300)))
        }

    assert len(first_ids(1e-6)) == 1
    assert 1 < len(first_ids(0.5)) < len(first_ids(1.0))


@pytest.mark.parametrize("sharpness", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("top_p", [0.3, 0.95])
def test_a_nucleus_is_the_shortest_list_of_likely_tokens_that_holds_its_share(sharpness: float, top_p: float) -> None:
    probs = (sharpness * torch.randn(5, 3 * NUCLEUS, generator=torch.Generator().manual_seed(0))).softmax(-1)
    for row, before in zip(hf._nucleus(probs, top_p), probs, strict=True):
        kept = row > 0
        share = before[kept]
        assert before[kept].min() > before[~kept].max()
        assert share.sum() >= top_p > share.sum() - share.min()
        torch.testing.assert_close(row[kept], share / share.sum())


def test_drawing_leaves_the_weights_of_the_base_as_they_were_to_the_bit(sampler: HFSampler) -> None:
    before = base_digest(sampler._model)
    texts = [one.text for one in draw(sampler, request(1, BASE), request(1), request(1, Policy.B))]
    assert base_digest(sampler._model) == before
    assert [one.text for one in draw(sampler, request(1, BASE), request(1), request(1, Policy.B))] == texts


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_policy_draws_from_its_own_adapter_whatever_was_loaded_last(folder: Path, dtype: str) -> None:
    """In half precision adapters are not merged: a path of its own."""
    texts = []
    for last in ("b@000000-two", "a@000000-one"):
        made = HFSampler(str(folder / "base"), dtype=dtype)
        for version in sorted(("a@000000-one", "b@000000-two"), key=lambda name: name == last):
            made.publish(Version(version), folder / version.rpartition("-")[2])
        texts.append([one.text for one in draw(made, request(1), request(1, Policy.B), request(1, BASE))])
        made.close()
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 3


def test_a_batch_holds_a_limited_number_of_tokens(sampler: HFSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(
        sampler, "_generate", lambda jobs: sizes.append(len(jobs)) or HFSampler._generate(sampler, jobs)
    )
    (alone,) = draw(sampler, request(0))
    width = len(alone.tokens.prompt_ids) + SHORT.max_tokens
    monkeypatch.setattr(hf, "TOKENS", 3 * width + 1)
    draw(sampler, *map(request, range(8)))
    monkeypatch.setattr(hf, "TOKENS", 1)
    draw(sampler, *map(request, range(2)))
    assert sizes == [1, 3, 3, 2, 1, 1]


def test_temperature_zero_is_greedy(sampler: HFSampler, folder: Path) -> None:
    cold = Sampling(temperature=0, max_tokens=8)
    one, two = draw(sampler, request(1, sampling=cold), request(2, sampling=cold))
    assert one.tokens.completion_ids == two.tokens.completion_ids
    expected = plain_logprobs(folder, "one", one, 1.0)
    torch.testing.assert_close(torch.tensor(one.tokens.logprobs), expected, atol=1e-4, rtol=0)


def test_a_completion_ends_at_its_stop_token_or_at_its_cap(sampler: HFSampler) -> None:
    stop = sampler.renderer.stop
    drawn = draw(sampler, *(request(seed, BASE, sampling=Sampling(max_tokens=60)) for seed in range(128)))
    assert {one.finish for one in drawn} == {"stop", "length"}
    for one in drawn:
        ids = one.tokens.completion_ids
        assert len(ids) == len(one.tokens.logprobs) == one.generated_tokens <= 60
        assert (one.finish == "stop") == (ids[-1] in stop)
        assert stop.isdisjoint(ids[:-1])


def test_an_end_named_by_the_checkpoint_alone_is_structure_and_not_text(folder: Path, tmp_path: Path) -> None:
    import shutil

    from transformers import GenerationConfig

    base = Path(shutil.copytree(folder / "base", tmp_path / "base"))
    GenerationConfig(eos_token_id=list(range(300)), repetition_penalty=9.0).save_pretrained(base)
    made = HFSampler(str(base))
    drawn = draw(made, *(request(seed, BASE, sampling=Sampling(max_tokens=40)) for seed in range(16)))
    made.close()
    for one in drawn:
        assert one.finish == "stop"
        assert one.text == made.renderer.tokenizer.decode(one.tokens.completion_ids[:-1], skip_special_tokens=False)


def test_unknown_versions_are_errors(sampler: HFSampler, folder: Path) -> None:
    with pytest.raises(EngineError, match="a@000009-x"):
        draw(sampler, request(1, Version("a@000009-x")))
    fresh = HFSampler(str(folder / "base"))
    with pytest.raises(EngineError, match="no version a is live"):
        draw(fresh, request(1))
    fresh.close()


def test_a_name_or_a_folder_is_never_reused(sampler: HFSampler, folder: Path) -> None:
    for version, name in ((Version("a@000000-one"), "three"), (Version("a@000001-x"), "one"), (BASE, "three")):
        with pytest.raises(EngineError, match="published before"):
            sampler.publish(version, folder / name)
    with pytest.raises(EngineError, match="has no adapter_config"):
        sampler.publish(Version("a@000001-x"), folder / "nowhere")


def test_an_adapter_of_another_base_is_refused_and_leaves_the_others_alone(
    sampler: HFSampler, folder: Path, tmp_path: Path
) -> None:
    before = draw(sampler, request(3))[0].text
    wider = Qwen3Config(vocab_size=64, hidden_size=48, intermediate_size=64, num_hidden_layers=2, head_dim=8)
    get_peft_model(Qwen3ForCausalLM(wider), LoraConfig(r=4, target_modules="all-linear")).save_pretrained(tmp_path)
    with pytest.raises(EngineError, match="does not fit"):
        sampler.publish(Version("a@000001-x"), tmp_path)
    assert draw(sampler, request(3))[0].text == before


def test_an_adapter_whose_tensors_would_be_ignored_is_refused(sampler: HFSampler, folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    (path,) = copies(folder, tmp_path, "renamed")
    weights = load_file(path / "adapter_model.safetensors")
    save_file({f"other.{key}": value for key, value in weights.items()}, path / "adapter_model.safetensors")
    with pytest.raises(EngineError, match="missing or unexpected"):
        sampler.publish(Version("a@000001-x"), path)


def copies(folder: Path, tmp_path: Path, *names: str) -> list[Path]:
    import shutil

    return [Path(shutil.copytree(folder / "three", tmp_path / name)) for name in names]


def test_old_versions_are_dropped_unless_pinned(sampler: HFSampler, folder: Path, tmp_path: Path) -> None:
    first = draw(sampler, request(3))[0]
    sampler.pin(Version("a@000000-one"), folder / "one")
    for step, path in enumerate(copies(folder, tmp_path, "x", "y", "z"), start=1):
        sampler.publish(Version(f"a@{step}-x"), path)
    assert draw(sampler, request(3))[0].version == "a@3-x"
    assert draw(sampler, request(3, Version("a@000000-one")))[0].text == first.text
    with pytest.raises(EngineError, match="a@1-x"):
        draw(sampler, request(3, Version("a@1-x")))
    sampler.pin(Version("a@1-x"), tmp_path / "x")
    assert draw(sampler, request(3, Version("a@1-x")))[0].version == "a@1-x"


def test_publishing_leaves_the_random_numbers_of_others_alone(sampler: HFSampler, folder: Path) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    sampler.publish(Version("a@9-x"), folder / "three")
    assert torch.equal(torch.rand(3), expected)


def test_a_prompt_beyond_the_context_is_refused_with_a_fix(sampler: HFSampler) -> None:
    with pytest.raises(EngineError, match="no room") as caught:
        draw(sampler, request(1, words="word " * 400))
    assert "max_peek_tokens" in caught.value.fix


def test_a_failed_batch_fails_its_requests_and_not_the_sampler(
    sampler: HFSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(jobs: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(sampler, "_generate", broken)
        with pytest.raises(EngineError, match="out of memory"):
            draw(sampler, request(1))
    assert draw(sampler, request(1))[0].text


def test_cancelled_requests_leave_the_queue(sampler: HFSampler) -> None:
    async def scenario() -> Completion:
        gone = asyncio.create_task(sampler.sample(request(1)))
        await asyncio.sleep(0)
        gone.cancel()
        return await sampler.sample(request(2))

    assert asyncio.run(scenario()).text == draw(sampler, request(2))[0].text
