"""Part L of docs/results/competition-plan.md on a tiny base: lessons, gate, sampler and a cell, a few steps of each."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.architecture.tree import ROOT, script

sys.path.insert(0, str(ROOT / "evidence"))
from _competition import language_cell, language_cells
from _shared_prefix import SharedPrefixSampler, shared_length
from _smollm2 import FORMAT, Lessons, check_taught, deck, solution
from agon.config import load_config
from agon.engine.hf import sampler as hf
from agon.engine.tiny.checkpoint import tiny_base
from agon.game.prompts import challenge_prompt
from agon.rundir.files import weights_hash
from agon.types import BASE, Completion, Problem, Request, Sampling

QUICK = Lessons(drafts=2, challenges=1, frozen=1, first=1, most=2, enough=1.1)


@pytest.fixture
def taught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`scripts/teach_smollm2` after two steps of lessons with the tiny base, on six problems of each split."""
    torch.set_num_threads(1)
    module = script("teach_smollm2")
    for place in ("_smollm2", "_competition"):
        monkeypatch.setattr(f"{place}.TAUGHT", tmp_path / "taught")
    monkeypatch.setattr(module, "TAUGHT", tmp_path / "taught")
    monkeypatch.setattr(module, "GATE", tmp_path / "gate.json")
    monkeypatch.setattr("_smollm2.GATE", tmp_path / "gate.json")
    sizes = {"held_out": 6, "dev": 6, "train": 6}
    for place in ("_smollm2", "_competition"):
        monkeypatch.setattr(f"{place}.SIZES", sizes)
    module.make(str(tiny_base()), QUICK)
    return module


@pytest.mark.slow
def test_lessons_gate_and_a_cell_run_end_to_end_on_a_tiny_base(
    taught: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = json.loads((tmp_path / "taught" / "lessons.json").read_text())
    assert [step for step, _ in about["checks"]] == [1, 2]
    taught.measure_gate()
    gate = json.loads((tmp_path / "gate.json").read_text())
    assert gate["hash"] == about["hash"]
    assert {"alone", "cascade", "formed", "planted wrong, followed"} <= gate["gate"].keys()

    matrix = script("tabletop_matrix")
    monkeypatch.setattr(matrix, "check_taught", lambda: None)  # two steps teach nothing
    monkeypatch.setattr(hf, "HFSampler", hf.HFSampler)  # a cell replaces it: put it back afterwards
    small = ("train.max_steps=1", "train.problems_per_step=2", "game.group_size=2", "model.lora.layers=2")
    result = matrix.run_reading(language_cell("coop", 0, "test", *small), tmp_path / "runs")
    assert hf.HFSampler is SharedPrefixSampler
    assert result.steps == 1
    assert result.base_hash == gate["hash"]
    assert {"ab", "ba", "a", "b", "ab-own", "ba-none"} <= result.systems.keys()
    assert sum(result.systems["ab"].exchange[name] for name in ("draft_right", "draft_wrong")) == 12


def gate(hash: str | None, alone: float = 0.3, formed: float = 0.9, kept: float = 0.7, converted: float = 0.2) -> str:
    shares = {"alone": alone, "formed": formed, "kept": kept, "converted": converted}
    return json.dumps({"hash": hash, "gate": {name: (9, share, 0, 1) for name, share in shares.items()}})


def test_a_cell_refuses_a_base_that_the_plan_does_not_describe(taught: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="teach_smollm2 --gate"):
        check_taught()
    (tmp_path / "gate.json").write_text(gate("0" * 64))
    with pytest.raises(SystemExit, match="and the plan was made with 0000"):
        check_taught()
    (tmp_path / "gate.json").write_text(gate(weights_hash(tmp_path / "taught"), alone=0.6))
    with pytest.raises(SystemExit, match="solves 60% in one pass"):
        check_taught()
    (tmp_path / "gate.json").write_text(gate(weights_hash(tmp_path / "taught"), formed=0.5))
    with pytest.raises(SystemExit, match="keeps 50% of challenges in the format"):
        check_taught()
    (tmp_path / "gate.json").write_text(gate(weights_hash(tmp_path / "taught")))
    check_taught()


@pytest.mark.parametrize(("kept", "arms"), [(0.7, ["coop", "plain-pair", "agon"]), (0.45, ["coop", "plain-pair"])])
def test_the_gate_decides_whether_agon_runs_and_cells_of_a_seed_follow_each_other(
    kept: float, arms: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gate.json").write_text(gate(None, kept=kept))
    monkeypatch.setattr("_smollm2.GATE", tmp_path / "gate.json")
    assert [cell.arm for cell in language_cells()] == arms * 9


def test_the_config_of_a_cell_has_the_savings_of_the_plan() -> None:
    config = load_config(language_cell("coop", 0).config)
    assert (config.model.lora.layers, config.train.max_completion_tokens) == (10, 32)


def test_lessons_are_the_same_every_time(taught: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taught, "TAUGHT", tmp_path / "again")
    taught.make(str(tiny_base()), QUICK)
    assert (tmp_path / "again" / "lessons.json").read_text() == (tmp_path / "taught" / "lessons.json").read_text()


def test_beginnings_that_are_read_once_change_no_completion_and_no_log_prob() -> None:
    problems = deck()["train"][:3]
    prompts = [challenge_prompt(problem, f"{10 * n}+{n * n}") for problem in problems for n in range(4)]

    def drawn(sampler: hf.HFSampler) -> list[Completion]:
        async def ask() -> list[Completion]:
            asked = (sampler.sample(Request(p, BASE, n, Sampling(max_tokens=12))) for n, p in enumerate(prompts))
            return list(await asyncio.gather(*asked))

        completions = asyncio.run(ask())
        sampler.close()
        return completions

    plain, shared = (drawn(kind(str(tiny_base()))) for kind in (hf.HFSampler, SharedPrefixSampler))
    ids = [completion.tokens.prompt_ids for completion in plain]
    assert shared_length(ids) > max(map(len, ids)) / 4, "there is something to share"
    for one, other in zip(plain, shared, strict=True):
        assert one.text == other.text
        assert one.tokens.logprobs == pytest.approx(other.tokens.logprobs, abs=1e-4)


def test_problems_of_two_splits_are_never_the_same_and_lessons_are_right() -> None:
    splits = deck()
    ids = [problem.id for split in splits.values() for problem in split]
    assert len(set(ids)) == len(ids)
    assert all(FORMAT.fullmatch(solution(problem)) for problem in splits["lessons"])
    assert solution(Problem("", "47 + 38 + 5", "90")) == "<think>47+38=85</think>85+5<answer>90</answer>"
