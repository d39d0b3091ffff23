"""The checkpoint that ships with the package: small, offline, made for today's prompts, neither hopeless nor done."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.data import tabletop
from agon.engine.hf.sampler import HFSampler
from agon.engine.render import Renderer
from agon.engine.shipped import folder_of
from agon.game.parse import parse, well_formed
from agon.game.prompts import PROMPTS_HASH, challenge_prompt, draft_prompt
from agon.types import BASE, Completion, Request, Sampling
from tests.engine.helpers.bases import random_checkpoint
from tests.engine.helpers.checkpoints import load_tokenizer

RECIPE = json.loads((folder_of("agon:tiny") / "tiny.json").read_text())
PROBLEMS = tabletop.problems(RECIPE["family"], RECIPE["difficulty"], 24, seed=77)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(folder_of("agon:tiny"))


@pytest.fixture(scope="module")
def renderer(tokenizer: Any) -> Renderer:
    return Renderer(tokenizer)


def test_finding_the_checkpoint_needs_no_torch() -> None:
    program = (
        "import sys; from agon.engine.shipped import folder_of; folder_of('agon:tiny'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_checkpoint_is_a_qwen3_of_one_to_three_million_parameters_in_a_few_megabytes() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder_of("agon:tiny"), local_files_only=True)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert model.config.model_type == "qwen3"
    assert parameters == RECIPE["parameters"]
    assert 1_000_000 <= parameters <= 3_000_000
    assert model.config.max_position_embeddings >= 512
    assert sum(path.stat().st_size for path in folder_of("agon:tiny").iterdir()) < 5_000_000


@pytest.mark.parametrize("name", ["tiny", "halves"])
def test_the_checkpoint_was_made_for_the_prompts_of_today(name: str) -> None:
    recipe = json.loads((folder_of(f"agon:{name}") / "tiny.json").read_text())
    assert recipe["prompts"] == PROMPTS_HASH, "the prompts changed: run experiments/tabletop/make_tiny_base.py"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_comes_back_from_the_tokenizer(text: str) -> None:
    tokenizer = load_once()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == text


def load_once(cache: list[Any] = []) -> Any:  # noqa: B006
    """Hypothesis runs a test many times and function fixtures once."""
    if not cache:
        cache.append(load_tokenizer(folder_of("agon:tiny")))
    return cache[0]


def test_reasoning_markers_are_added_tokens_but_not_special_ones(tokenizer: Any) -> None:
    added = {token.content: token.special for token in tokenizer.added_tokens_decoder.values()}
    assert added["<think>"] is added["</think>"] is False
    assert added["<|im_start|>"] is added["<|im_end|>"] is added["<|endoftext|>"] is True
    assert len(tokenizer.encode("<think></think>", add_special_tokens=False)) == 2


def test_a_number_is_one_token_wherever_a_chain_writes_it(tokenizer: Any) -> None:
    for form in (" {}", " = {}", "{}"):
        lengths = {len(tokenizer.encode(form.format(n), add_special_tokens=False)) for n in range(17)}
        assert lengths == {1}, form


def test_prompts_are_short_and_leave_the_reasoning_to_the_model(renderer: Renderer) -> None:
    recap = "Recap:\na) = 1\nb) = 2\nc) = 3\nd) = 4"
    for problem in PROBLEMS:
        draft, challenge = renderer.render(draft_prompt(problem)), renderer.render(challenge_prompt(problem, recap))
        assert not draft.opened
        assert len(draft.ids) <= 50
        assert len(challenge.ids) <= 70


def test_the_base_reasons_recaps_and_answers_sometimes_right_and_sometimes_wrong() -> None:
    sampler = HFSampler(str(folder_of("agon:tiny")))

    async def draw() -> list[Completion]:
        sampling = Sampling(max_tokens=80)
        requests = [Request(draft_prompt(problem), BASE, seed, sampling) for problem in PROBLEMS for seed in range(2)]
        return list(await asyncio.gather(*map(sampler.sample, requests)))

    drawn = asyncio.run(draw())
    sampler.close()
    assert sum(map(well_formed, drawn)) >= 0.8 * len(drawn)
    assert sum("Recap:\na) = " in parse(completion).summary for completion in drawn) >= 0.8 * len(drawn)
    golds = [problem.answer for problem in PROBLEMS for _ in range(2)]
    right = sum(parse(completion).answers == (gold,) for completion, gold in zip(drawn, golds, strict=True))
    assert 3 <= right <= 30


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5", "gemma4", "llama"])
def test_a_random_base_of_every_architecture_loads_and_writes(architecture: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    random_checkpoint(tmp_path, architecture, seed=1)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True)
    assert architecture in model.config.model_type
    ids = torch.tensor([Renderer(load_tokenizer(tmp_path)).render(draft_prompt(PROBLEMS[0])).ids])
    assert (
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, min_new_tokens=3).shape[1]
        == ids.shape[1] + 3
    )


def test_a_random_base_is_decided_by_its_seed(tmp_path: Path) -> None:
    folders = [random_checkpoint(tmp_path / str(k), seed=seed) for k, seed in enumerate((0, 0, 1))]
    first, again, other = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == again != other
