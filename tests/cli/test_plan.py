"""`agon plan`: the budget of the paper, said before anything is started."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.config.arms import ARMS
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
  steps                                   375          375
  rollouts                             48,000       48,000
  generated tokens, at most       720,000,000  720,000,000
  evaluation on dev, completions        9,600        2,100

--full shows the budget, memory by part and assumptions
"""


def test_the_plan_of_the_headline_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON]) == 0
    assert capsys.readouterr().out == PLAN


def test_all_sections_are_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", AGON, "--gpu", "4090"]
    sections = planned(capsys, *words[1:])
    assert main([*words, "--full"]) == 0
    full = capsys.readouterr().out
    assert all(f"\n\n{title}\n" in full for title in sections)
    assert main(words) == 0
    short = capsys.readouterr().out
    assert "--full" in short
    assert len(short.splitlines()) < 40 < len(full.splitlines())


def test_grpo_is_beside_agon_and_agon_beside_grpo(capsys: pytest.CaptureFixture[str]) -> None:
    for arm, other in (("agon", "grpo"), ("grpo", "agon"), ("coop", "grpo")):
        table = planned(capsys, AGON, f"arm={arm}", "--gpu", "4090")["side by side"]
        assert list(table["run"]) == [arm, other]
        beside = planned(capsys, AGON, f"arm={other}", "--gpu", "4090")["side by side"]
        assert {row: cells[other] for row, cells in table.items()} == {row: cell[other] for row, cell in beside.items()}


def test_a_run_that_grpo_cannot_play_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    table = planned(capsys, AGON, "rival.kind=league", "--gpu", "4090")["side by side"]
    assert table["steps"] == 375


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_draws_the_same_number_of_rollouts(arm: str, capsys: pytest.CaptureFixture[str]) -> None:
    budget = planned(capsys, AGON, f"arm={arm}")["training budget"]
    assert budget["rollouts per problem"]["both"] == 16
    assert budget["rollouts"]["both"] == 48_000


def test_grpo_has_one_stage(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "configs/paper/main/grpo.yaml")
    assert plan["training budget"]["rollouts per problem"] == {"draft": 16, "challenge": 0, "both": 16}
    assert plan["learner"]["streams per step"] == 1
    assert plan["learner"]["forward passes per step, at most"] == 128


def test_hidden_drafts_prefill_no_peek(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "configs/examples/hidden-drafts.yaml")
    assert plan["training budget"]["peek tokens to prefill, at most"]["both"] == 0


def test_a_draft_is_drawn_once_for_all_its_cascades(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, AGON)["evaluation on dev along the run"]
    assert plan["completions per problem and point, at most"] == 4 + 4
    assert plan["completions"] == 300 * (6 * 4 + 8), "first versions are met at the end alone"
    always = planned(capsys, AGON, "eval.against_first=always")["evaluation on dev along the run"]
    assert always["completions"] == 300 * (4 + 6 * 8), "before the first step they are the versions themselves"
    never = planned(capsys, AGON, "eval.against_first=never")["evaluation on dev along the run"]
    assert never["completions"] == 300 * 7 * 4


def test_the_plan_says_what_a_curve_on_held_out_adds(capsys: pytest.CaptureFixture[str]) -> None:
    adds = 7 * 300 * (2 + 2)
    plan = planned(capsys, AGON)
    assert plan["evaluation on dev along the run"]["eval.curve=held_out adds completions"] == adds
    assert "evaluation on held-out along the run" not in plan
    chosen = planned(capsys, AGON, "eval.curve=held_out")
    assert "eval.curve=held_out adds completions" not in chosen["evaluation on dev along the run"]
    assert chosen["evaluation on held-out along the run"]["completions"] == adds
    assert chosen["evaluation on held-out along the run"]["systems"] == "a, b, ab, ba"


def test_max_steps_bounds_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, AGON, "train.max_steps=10")
    assert plan["steps"]["steps"] == 10
    assert plan["training budget"]["rollouts"]["both"] == 1_280


def test_problems_that_fill_no_step_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, AGON, "data.train.take=100")
    assert (plan["steps"]["steps"], plan["steps"]["problems left over each epoch"]) == (12, 4)


def test_an_uncounted_source_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "configs/paper/code/agon.yaml")
    assert plan["run"]["train"] == "codecontests-easy, all problems"
    assert plan["steps"]["steps"] is None
    assert plan["training budget"]["rollouts"] == {"draft": None, "challenge": None, "both": None}
    assert plan["training budget"]["rollouts per step"]["both"] == 128


def test_the_evaluation_points_are_known_without_the_number_of_problems(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("configs/paper/code/agon.yaml", "--gpu", "4090")
    plan, whole = (planned(capsys, *words, *more) for more in ((), ("data.train.take=3000",)))
    assert plan["steps"]["evaluation points"] == 7, "step 0, and eval.points"
    name = "evaluation on dev along the run"
    assert plan[name]["completions"] == whole[name]["completions"]
    assert main(["plan", *words, "--full"]) == 0
    printed = capsys.readouterr().out
    assert "evaluation at step 0 and 6 points" in printed
    assert main(["plan", *words, "data.dev.take=null", "--full"]) == 0
    assert re.search(r"evaluation at step 0 and 6 points +not known", capsys.readouterr().out)


def test_a_local_file_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.dumps({"question": f"What is {n} plus {n * n}?", "answer": str(n + n * n)}) for n in range(60)]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    source = f"path: {tmp_path / 'mine.jsonl'}, preset: null"
    splits = [f"data.dev={{{source}, take: 10}}", f"data.held_out={{{source}, take: 10}}"]
    plan = planned(capsys, AGON, f"data.train={{{source}}}", *splits)
    assert plan["run"]["train"].endswith("mine.jsonl, 40 problems")
    assert plan["steps"]["steps"] == 5


def test_too_few_problems_for_one_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "data.train.take=5"]) == 2
    assert capsys.readouterr().err == (
        "error: train.problems_per_step is 8, but there are only 5 training problems\n"
        "fix: lower train.problems_per_step, or take more training problems\n"
    )


def test_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", str(ROOT / AGON)]) == 0
    assert not list(tmp_path.iterdir())


def test_memory_by_part_from_the_shape_of_the_base(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The config.json of Qwen3-0.6B, without its weights."""
    shape = {
        "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 1024,
        "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(shape))
    memory = planned(capsys, AGON, f"model.name={tmp_path}")["memory of the learner and traffic, estimated"]
    assert memory["parameters of one adapter"] == 10_092_544, "the paper's ~10 M"
    assert memory["base"] == "1.11 GiB"
    assert memory["published per step"] == "77.0 MiB"
    alone = planned(capsys, AGON, f"model.name={tmp_path}", "arm=grpo")["memory of the learner and traffic, estimated"]
    assert alone["published per step"] == "38.5 MiB"


def test_a_base_in_parts_is_counted_by_learner(capsys: pytest.CaptureFixture[str]) -> None:
    words, title = (
        [AGON, "model.name=Qwen/Qwen3-32B", "train.shard=base"],
        "memory of the learner and traffic, estimated",
    )
    options = "sampler.options.tensor_parallel_size"
    found = {}
    for learners, layout in ((8, [f"{options}=8"]), (4, [f"{options}=4", "sampler.replicas=1"])):
        plan = planned(capsys, *words, *layout, "sampler.gpu_memory_utilization=0.5", "--gpu", "h200", "--gpus", "8")
        found[learners] = plan[title][f"base, a part of {learners} and what a pass gathers"]
        static = plan["memory on H200 SXM, 139.7 GiB"]["learner: base, adapters, optimizer"]
        assert float(static.split()[0]) == pytest.approx(float(found[learners].split()[0]) + 4.2, abs=0.5), (
            "and adapters"
        )
    whole = planned(capsys, *words[:2])[title]["base"]
    assert float(whole.split()[0]) == pytest.approx(61, abs=1)
    eighth = float(whole.split()[0]) / 8
    assert float(found[4].split()[0]) - float(found[8].split()[0]) == pytest.approx(eighth, abs=0.1)


def test_one_learner_splits_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "train.shard=base", "--gpu", "h100"]) == 1
    shown = capsys.readouterr()
    assert "train.shard is base, and there is one learner" in shown.err
    assert shown.err.strip().endswith(f"fix: start it with agon train {AGON} train.shard=none")


def test_kernels_that_a_base_needs_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agon.engine import linear_attention

    monkeypatch.setattr(linear_attention, "has_kernels", lambda: False)
    (tmp_path / "config.json").write_text(json.dumps(TEXT["Qwen/Qwen3.5-2B"]))
    settings = f"model.name={tmp_path}", "train.max_peek_tokens=64"
    long, short = (planned(capsys, AGON, *settings, f"train.max_completion_tokens={n}") for n in (2000, 1900))
    section = "memory of the learner and traffic, estimated"
    assert "'.[qwen3-5]'" in long[section]["needs"]
    assert "needs" not in short[section]


def test_memory_is_said_to_be_unknown_without_the_base(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read" in planned(capsys, AGON, "model.name=no/such-base")["memory"]["not known"]


def test_memory_on_a_gpu_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, AGON, "--gpu", "24")
    assert plan["memory on RTX 4090, 23.6 GiB"]["fits"] == "yes"
    assert plan["drawing"]["rollouts per step and engine"] == 128


def test_eight_gpus_have_a_fastest_layout_that_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", AGON, "train.seed=3", "--gpu", "h100", "--gpus", "8"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if line.startswith("  fastest "))
    assert f"-m agon train {AGON} train.seed=3 sampler.replicas=6 train.staleness=1" in first
    assert re.fullmatch(
        r"fits on 8 x H100 SXM; about .* h as configured, .* h in the fastest layout with train.staleness=1, .*",
        lines[0],
    )
    rows = planned(capsys, *words[1:])["layouts of 8 x H100 SXM"]
    assert first.endswith(rows["fastest"]["command"])


def test_both_arms_are_planned_in_the_same_layout(capsys: pytest.CaptureFixture[str]) -> None:
    words = [AGON, "model.name=Qwen/Qwen3-32B", "--gpu", "h100", "--gpus", "8", "--json"]
    assert main(["plan", *words]) == 1
    shown = capsys.readouterr()
    cells = json.loads(shown.out)["plan"]["side by side"]["rollouts in flight"]
    assert cells["agon"] == cells["grpo"]
    assert "fix: start it with torchrun --nproc-per-node" in shown.err


def test_engines_on_more_gpus_than_there_are_are_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "sampler.replicas=9", "--gpu", "h100", "--gpus", "8"]) == 2
    assert "fix: add --gpus 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (["sampler.replicas=9"], True),
        (["cluster.engine=ray", "cluster.address=local", "cluster.samplers=9"], True),
        (["sampler.urls=[http://localhost:1,http://localhost:2]"], False),
        (["sampler.urls=[http://localhost:1,http://localhost:2]", "train.problems_per_step=1"], True),
        ([], False),
    ],
)
def test_more_engines_than_problems_are_a_warning(
    capsys: pytest.CaptureFixture[str], words: list[str], warned: bool
) -> None:
    assert ("warning" in planned(capsys, AGON, *words)["run"]) is warned


def test_hours_and_the_price_of_several_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, AGON, "--gpu", "h100", "--gpus", "8", "--price", "2.5")
    assert plan["time on 8 x H100 SXM, estimated"]["cost"].startswith("$")
    assert "NVIDIA H100 datasheet" in plan["assumptions"]["bandwidth"]


def test_a_plan_on_a_gpu_begins_with_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "--gpu", "4090", "--price", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    time = next(line for line in lines if line.startswith("  run  "))
    hours = time.split()[1]
    assert lines[0].startswith(f"fits on 1 x RTX 4090; about {hours} h, $")
    assert main(["plan", AGON, "--gpu", "96"]) == 0
    assert capsys.readouterr().out.startswith("fits on 1 x a GPU of 96 GB; how long it takes is not")
    assert main(["plan", AGON, "--gpu", "v100"]) == 1
    assert capsys.readouterr().out.startswith("cannot run on 1 x V100")


def test_a_warning_is_shown_without_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "--gpu", "h100", "--gpus", "16"]) == 0
    assert "\nwarning: 16 engines share 8 problems" in capsys.readouterr().out


def test_what_cannot_fit_is_refused_with_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "--gpu", "4090", "train.tokens_per_pass=400000", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["plan"]["memory on RTX 4090, 23.6 GiB"]["fits"] == "no"
    assert "error: Qwen/Qwen3-0.6B does not fit on RTX 4090 as configured: an update needs" in shown.err
    assert "fix: set train.tokens_per_pass=17048" in shown.err


def test_a_gpu_that_is_not_known_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", AGON, "--gpu", "voodoo2"]) == 2
    assert "there is no GPU 'voodoo2'" in capsys.readouterr().err


@pytest.mark.parametrize("base", TEXT)
def test_the_bases_of_the_paper_are_planned_without_torch_and_without_a_network(base: str) -> None:
    words = ["plan", AGON, f"model.name={base}", "--gpu", "h100"]
    code = f"""
import socket, sys
def refuse(*args, **more): raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = refuse
for name in ("torch", "transformers", "vllm", "huggingface_hub", "fla"): sys.modules[name] = None
from agon.cli import main
sys.exit(main({words!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fits on 1 x H100")


def test_the_plan_says_who_the_rival_is_and_what_it_draws(capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = ("rival.kind=endpoint", "rival.url=https://host/v1", "rival.model=big")
    plan = planned(capsys, AGON, *endpoint)
    assert plan["run"]["rival"].startswith("big at https://host/v1; only A learns")
    drawn = plan["training budget"]["rollouts by the rival"]
    assert (drawn["draft"], drawn["challenge"], drawn["both"]) == (187 * 64, 188 * 64, 375 * 64)
    assert plan["learner"]["streams per step"] == 1
    assert plan["evaluation on dev along the run"]["systems"] == "a"


def test_the_plan_names_both_bases_and_adds_them_up(capsys: pytest.CaptureFixture[str]) -> None:
    config, title = "configs/examples/two-bases.yaml", "memory of the learner and traffic, estimated"
    two, one = planned(capsys, config), planned(capsys, config, "model.b.name=null")
    assert two["run"]["base"] == "agon:tiny (A) and agon:halves (B), float32, LoRA rank 16"
    assert two[title]["base parameters"] == "1,082,752 and 1,082,752"
    assert two[title]["published per step"] == one[title]["published per step"]
    assert two[title]["base"] != one[title]["base"]


def test_the_plan_says_which_layers_carry_an_adapter_and_counts_those(capsys: pytest.CaptureFixture[str]) -> None:
    config, title = "configs/examples/two-bases.yaml", "memory of the learner and traffic, estimated"
    some, all_layers = planned(capsys, config, "model.lora.layers=1"), planned(capsys, config)
    assert some["run"]["base"].endswith("LoRA rank 16, last 1 layer only")
    assert some[title]["published per step"] != all_layers[title]["published per step"]


@pytest.mark.parametrize("arm", ["grpo", "self-refine", "fixed-roles", "plain-pair"])
def test_a_rival_that_would_teach_nothing_is_refused_by_name(capsys: pytest.CaptureFixture[str], arm: str) -> None:
    assert main(["plan", AGON, f"arm={arm}", "rival.kind=league"]) == 2
    assert "rival.kind" in capsys.readouterr().err
