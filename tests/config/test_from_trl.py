"""Scripts, YAML files and command lines in the styles of TRL's documentation become configs that plan and start."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agon.cli import main
from agon.config import load_config
from agon.config.explain import names
from agon.config.from_trl import DEFAULTS, QUIET, from_trl
from agon.config.trl_names import KEYS
from agon.errors import InputError
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "from-trl.md"

QUICKSTART = """
from datasets import load_dataset
from trl import GRPOTrainer
from trl.rewards import accuracy_reward

dataset = load_dataset("trl-lib/DeepMath-103K", split="train")
trainer = GRPOTrainer(model="Qwen/Qwen2-0.5B-Instruct", reward_funcs=accuracy_reward, train_dataset=dataset)
trainer.train()
"""
LORA = """
import trl
from peft import LoraConfig

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"

def short(completions, **kwargs):
    return [-0.01 * len(completion) for completion in completions]

args = trl.GRPOConfig(
    output_dir="out", learning_rate=1e-5, num_generations=16, per_device_train_batch_size=16,
    gradient_accumulation_steps=4, max_completion_length=2048, use_vllm=True, bf16=True, warmup_steps=10, max_steps=200,
    loss_type="dr_grpo", reward_weights=[1.0, 0.2], epsilon_high=0.28, save_steps=int(50 * 2), report_to=["wandb"],
)
trainer = trl.GRPOTrainer(
    model=MODEL, args=args, train_dataset=dataset, reward_funcs=[accuracy, short],
    peft_config=LoraConfig(r=32, lora_alpha=64, target_modules="all-linear"),
)
"""
FILE = """
model_name_or_path: Qwen/Qwen3-4B
dataset_name: openai/gsm8k
learning_rate: 2e-6
use_vllm: true
vllm_server_base_url: http://127.0.0.1:8000
num_generations: 8
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
lr_scheduler_type: cosine_with_min_lr
use_peft: true
lora_r: 16
lora_target_modules: [q_proj, v_proj]
reward_funcs: [accuracy_reward, think_format_reward]
"""
COMMAND = r"""
accelerate launch -m trl.scripts.grpo \
    --model_name_or_path Qwen/Qwen2-0.5B --dataset_name trl-lib/math --learning_rate 1e-5 --bf16 --num_generations 4 \
    --lora_r 8 --reward_funcs accuracy_reward think_format_reward --output_dir out  # one node
"""
TRL_COMMAND = "trl grpo --model_name_or_path=Qwen/Qwen2-0.5B --num_generations=3 --max-steps=50 --warmup_ratio=0.1\n"
FILES = {"quickstart.py": QUICKSTART, "lora.py": LORA, "grpo.yaml": FILE, "run.sh": COMMAND, "trl.txt": TRL_COMMAND}


def converted(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    (folder / name).write_text(FILES[name])
    made = from_trl(folder / name)
    return yaml.safe_load(made.text), made.left


def test_a_script_keeps_its_values_and_names_what_it_loses(tmp_path: Path) -> None:
    made, left = converted("lora.py", tmp_path)
    assert made["model"] == {
        "name": "Qwen/Qwen2.5-0.5B-Instruct",
        "dtype": "bfloat16",
        "lora": {"rank": 32, "alpha": 64, "targets": "all-linear"},
    }
    assert made["game"]["group_size"] == 8
    assert made["train"]["problems_per_step"] == 4
    assert {key: made["train"][key] for key in ("learning_rate", "loss", "max_steps", "warmup")} == {
        **{"learning_rate": 1e-5, "loss": "dr_grpo", "max_steps": 200, "warmup": 0.05}
    }
    assert set(left) == {"reward_weights", "epsilon_high", "save_steps"}
    assert "reward.weights" in left["reward_weights"]


def test_the_first_reward_is_offered_as_the_verifier_and_the_others_as_terms(tmp_path: Path) -> None:
    told = {}
    for name in ("lora.py", "grpo.yaml"):
        converted(name, tmp_path)
        text = from_trl(tmp_path / name).text
        told[name] = next(line for line in text.splitlines() if line.startswith("verifier:"))
    assert "works as it is: rewards.py:accuracy;" in told["lora.py"]
    assert "reward.terms: [rewards.py:short]" in told["lora.py"]
    assert "works as it is" not in told["grpo.yaml"], "a format reward says nothing about right and wrong"
    assert "reward.terms: [rewards.py:think_format_reward]" in told["grpo.yaml"]


def test_what_a_script_leaves_open_is_trls_default(tmp_path: Path) -> None:
    made, left = converted("quickstart.py", tmp_path)
    assert made["train"]["learning_rate"] == DEFAULTS["learning_rate"]
    assert made["train"]["loss"] == "dapo"
    assert made["train"]["max_completion_tokens"] == made["eval"]["max_completion_tokens"] == 512
    assert left == {}


def test_the_defaults_are_those_of_trl() -> None:
    fields = pytest.importorskip("trl").GRPOConfig.__dataclass_fields__
    assert {name: fields[name].default for name in DEFAULTS} == DEFAULTS
    assert {name for name in QUIET if name in fields} > {"output_dir", "steps_per_generation"}


def test_a_yaml_file_is_read_with_numbers_and_a_preset(tmp_path: Path) -> None:
    made, left = converted("grpo.yaml", tmp_path)
    assert made["train"]["learning_rate"] == 2e-6
    assert made["data"]["train"] == {"preset": "gsm8k"}
    assert made["sampler"] == {"engine": "vllm", "urls": ["http://127.0.0.1:8000"]}
    assert set(left) == {"lr_scheduler_type"}


def test_rollouts_of_a_problem_stay_equal_where_they_can_be_halved(tmp_path: Path) -> None:
    assert converted("run.sh", tmp_path)[0]["game"]["group_size"] == 2
    odd, _ = converted("trl.txt", tmp_path)
    assert odd["game"]["group_size"] == 3


@pytest.mark.parametrize("name", FILES)
def test_a_converted_run_plans_and_starts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a size that a CPU trains in seconds: the base, the limits and the engine are replaced, nothing else."""
    pytest.importorskip("trl", reason="it trains, which takes the extra `train`")
    (tmp_path / name).write_text(FILES[name])
    rows = [{"prompt": f"What is {n} + {n + 1}?", "solution": str(2 * n + 1)} for n in range(450)]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--from-trl", name, "-o", "mine.yaml"]) == 0
    files = [
        f"data.{split}={{path: problems.jsonl, columns: {{question: prompt, answer: solution}}" for split in SPLITS
    ]
    small = [f"{words}, take: 4}}" for words in files] + [
        *("model.name=agon:tiny", "model.dtype=float32", "model.lora.targets=all-linear", "sampler={engine: hf}"),
        *("train.max_steps=1", "train.problems_per_step=1", "train.max_completion_tokens=8"),
        *("eval={points: 0, max_completion_tokens: 8}", "report_to=[]", "game.group_size=2"),
    ]
    assert load_config(tmp_path / "mine.yaml", small).arm == "agon"
    assert main(["plan", "mine.yaml", *small]) == 0
    assert main(["train", "mine.yaml", *small, "--out", "runs", "--name", "first"]) == 0
    assert len((tmp_path / "runs" / "first" / "steps.jsonl").read_text().splitlines()) == 1


SPLITS = ("train", "dev", "held_out")


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("a.py", "print(1)", "GRPOConfig"),
        ("a.py", "def (", "not Python"),
        ("a.yaml", "- 1", "no fields"),
        ("a.sh", "echo hello", "no --name value"),
    ],
)
def test_a_file_without_a_run_is_refused(name: str, text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=word):
        from_trl(tmp_path / name)


def test_a_script_is_never_executed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nGRPOConfig(seed=open('x'))")
    assert from_trl(tmp_path / "a.py").left == {"seed": "its value is computed; write it by hand"}
    assert not (tmp_path / "ran").exists()


def test_the_page_names_fields_of_trl_and_keys_of_ours() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    ours = {key for _, cell in rows for key in re.findall(r"`([^`]+)`", cell)}
    theirs = {field for cell, _ in rows for field in re.findall(r"`([^`]+)`", cell)}
    assert ours <= {*names()}
    assert {*KEYS} <= theirs | {"vllm_importance_sampling_mode"}
    assert len(theirs) > 30
