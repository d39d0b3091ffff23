"""`agon plan`: the budget of the paper, said before anything is started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.config.arms import ARMS
from agon.engine import probe
from agon.engine.published import TEXT

ROOT = Path(__file__).resolve().parents[2]
AGON = "configs/paper/main/agon.yaml"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["plan", *words, "--json"]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)["plan"]
    return plan


PLAN = """\
375 steps; hours, memory and price: name a GPU, such as --gpu 4090

run
  arm       agon: coop with a bonus for solving what the draft got wrong: the paper's method
  base      Qwen/Qwen3-0.6B, bfloat16, LoRA rank 16
  train     deepmath-hard, 3,000 problems
  dev       deepmath-hard, 300 problems
  held-out  deepmath-hard, 300 problems
  verifier  math
  sampler   vllm

side by side
                                    agon         grpo
  steps                              375          375
  rollouts                        48,000       48,000
  generated tokens, at most  720,000,000  720,000,000
  evaluation, completions          9,600        2,100

--full shows the budget, memory by part and assumptions
"""


def test_the_plan_of_the_headline_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON]) == 0
    assert capsys.readouterr().out == PLAN


def test_a_plan_on_a_gpu_begins_with_its_verdict_and_shows_all_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    words = [AGON, "--gpu", "4090", "--price", "0.5"]
    sections = planned(capsys, *words)
    assert main(["plan", *words, "--full"]) == 0
    full = capsys.readouterr().out
    assert all(f"\n\n{title}\n" in full for title in sections)
    assert main(["plan", *words]) == 0
    short = capsys.readouterr().out
    assert short.startswith(f"fits on 1 x RTX 4090; about {sections['side by side']['run']['agon']} if completions")
    assert len(short.splitlines()) < 40 < len(full.splitlines())


def test_grpo_is_beside_agon_and_agon_beside_grpo(capsys: pytest.CaptureFixture[str]) -> None:
    tables = {
        arm: planned(capsys, AGON, f"arm={arm}", "--gpu", "4090")["side by side"] for arm in ("agon", "grpo", "coop")
    }
    assert [list(table["run"]) for table in tables.values()] == [["agon", "grpo"], ["grpo", "agon"], ["coop", "grpo"]]
    for label, cells in tables["agon"].items():
        assert cells == {"agon": tables["grpo"][label]["agon"], "grpo": tables["coop"][label]["grpo"]}
    assert planned(capsys, AGON, "rival.kind=league", "--gpu", "4090")["side by side"]["steps"] == 375, (
        "no rule for grpo"
    )


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_draws_the_same_number_of_rollouts(arm: str, capsys: pytest.CaptureFixture[str]) -> None:
    column = planned(capsys, AGON, f"arm={arm}")["side by side"]
    assert column["rollouts"][arm] == 48_000


def test_grpo_has_one_stage_and_hidden_drafts_are_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    grpo = planned(capsys, "configs/paper/main/grpo.yaml")["budget"]
    assert grpo["rollouts per step"] == "128 drafts, 0 challenges"
    assert grpo["forward passes per step, at most"] == 128
    pair = planned(capsys, AGON)["budget"]
    assert (pair["rows learnt per step"], pair["summary tokens to read, at most"]) == (128, 49_152_000)
    hidden = planned(capsys, "configs/examples/hidden-drafts.yaml")["budget"]
    assert hidden["summary tokens to read, at most"] == 0
    assert planned(capsys, AGON, "rival.kind=frozen")["budget"]["rows learnt per step"] == 64


def test_a_draft_is_drawn_once_for_all_its_cascades(capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(*words: str) -> int:
        return int(planned(capsys, AGON, *words)["side by side"]["evaluation, completions"]["agon"])

    assert drawn() == 300 * (6 * 4 + 8), "first versions are met at the end alone"
    assert drawn("eval.against_first=always") == 300 * (4 + 6 * 8), "before the first step they are the versions"
    assert drawn("eval.against_first=never") == 300 * 7 * 4
    adds = planned(capsys, AGON)["budget"]["eval.curve=held_out adds completions"]
    assert adds == 7 * 300 * (2 + 2) == drawn("eval.curve=held_out") - drawn()


def test_max_steps_bounds_the_plan_and_problems_that_fill_no_step_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    bounded = planned(capsys, AGON, "train.max_steps=10")["side by side"]
    assert (bounded["steps"]["agon"], bounded["rollouts"]["agon"]) == (10, 1_280)
    hundred = planned(capsys, AGON, "data.train.take=100")
    assert hundred["side by side"]["steps"]["agon"] == 12
    assert hundred["budget"]["problems left over each epoch"] == 4


def test_problems_that_only_a_download_counts_are_assumed_and_a_reader_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = planned(capsys, "configs/paper/code/agon.yaml")
    assert plan["run"]["train"] == "codecontests-easy, 1,000 problems"
    assert plan["side by side"]["steps"]["agon"] == 125
    assert "data.train" in plan["run"]["warning"]
    assert "warning" not in planned(capsys, AGON)["run"]


def test_a_local_file_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.dumps({"question": f"What is {n} plus {n * n}?", "answer": str(n + n * n)}) for n in range(60)]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    source = f"path: {tmp_path / 'mine.jsonl'}, preset: null"
    splits = [f"data.dev={{{source}, take: 10}}", f"data.held_out={{{source}, take: 10}}"]
    plan = planned(capsys, AGON, f"data.train={{{source}}}", *splits)
    assert plan["run"]["train"].endswith("mine.jsonl, 40 problems")
    assert plan["side by side"]["steps"]["agon"] == 5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["data.train.take=5"], 2, "there are only 5 training problems"),
        (["--gpu", "voodoo2"], 2, "there is no GPU 'voodoo2'"),
        (["--gpu", "4090", "--price", "abc"], 2, "fix: write dollars per GPU and hour"),
        (["--gpu", "h100", "--gpus", "8", "sampler.replicas=9"], 2, "fix: add --gpus 9"),
        (["--gpu", "4090", "train.tokens_per_pass=400000"], 1, "fix: set train.tokens_per_pass=17048"),
        (["--gpu", "v100"], 1, "have no kernels below 7.5"),
        (["--gpu", "4090", "model.name=no/such-base"], 1, "cannot read the config of no/such-base"),
        (["--from", "no-run"], 2, "no run"),
        (["arm=grpo", "rival.kind=league"], 2, "rival.kind"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_type(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main(["plan", AGON, *words]) == code
    assert said in capsys.readouterr().err


def test_what_does_not_fit_is_still_laid_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "--gpu", "4090", "train.tokens_per_pass=400000", "--json"]) == 1
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["memory on RTX 4090, 23.6 GiB"]["fits"] == "no"


def test_kernels_that_a_base_needs_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agon.engine import linear_attention

    monkeypatch.setattr(linear_attention, "has_kernels", lambda: False)
    (tmp_path / "config.json").write_text(json.dumps(TEXT["Qwen/Qwen3.5-2B"]))
    settings = [f"model.name={tmp_path}", "train.max_peek_tokens=64", "--gpu", "h100"]
    long, short = ([AGON, *settings, f"train.max_completion_tokens={n}"] for n in (2000, 1900))
    assert main(["plan", *long]) == main(["plan", *short]) == 0
    assert capsys.readouterr().out.count("\nneeds: kernels of linear attention") == 1


def test_a_driver_that_is_too_old_is_noted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "driver_version", lambda: "550.54.15")
    monkeypatch.setattr(probe, "cuda_of_torch", lambda: 13)
    assert main(["plan", AGON]) == 0
    assert "driver 550.54.15 is older than CUDA 13 needs" in capsys.readouterr().out


def test_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", str(ROOT / AGON)]) == 0
    assert not list(tmp_path.iterdir())


def test_the_paper_is_planned_without_torch_and_without_a_network() -> None:
    words = ["plan", AGON, "--gpu", "h100"]
    code = f"""
import socket, sys
def refuse(*args, **more): raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = refuse
for name in ("torch", "transformers", "vllm", "huggingface_hub", "fla"): sys.modules[name] = None
from agon.cli import main
sys.exit(max(main([*{words!r}, f"model.name={{base}}"]) for base in {list(TEXT)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fits on 1 x H100") == len(TEXT)
