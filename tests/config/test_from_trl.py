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
    loss_type="dr_grpo", reward_weights=[1.0, 0.2], epsilon_high=0.28, save_steps=len(data) // 5, report_to=["wandb"],
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
UNSLOTH = """
from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer
from my_rewards import correctness

max_seq_length, lora_rank = 1024, 32
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="unsloth/Qwen3-4B-Base", max_seq_length=max_seq_length, load_in_4bit=True, fast_inference=True,
    max_lora_rank=lora_rank, gpu_memory_utilization=0.7,
)
model = FastLanguageModel.get_peft_model(
    model, r=lora_rank, target_modules=["q_proj", "v_proj"], lora_alpha=lora_rank * 2, random_state=3407,
    use_gradient_checkpointing="unsloth",
)
dataset = load_dataset("openai/gsm8k", "main")["train"]
max_prompt_length = 256
training_args = GRPOConfig(
    learning_rate=5e-6, adam_beta1=0.9, adam_beta2=0.99, optim="adamw_8bit", per_device_train_batch_size=6,
    gradient_accumulation_steps=4, num_generations=6, max_prompt_length=max_prompt_length, max_grad_norm=0.1,
    max_completion_length=max_seq_length - max_prompt_length, report_to="none", output_dir="outputs",
)
trainer = GRPOTrainer(
    model=model, processing_class=tokenizer, reward_funcs=[xmlcount, int_format, correctness], args=training_args,
    train_dataset=dataset,
)
"""
STAR = """
import torch, trl
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig as Config

MODEL: str = "Qwen/Qwen2.5-1.5B-Instruct"
common = dict(output_dir=f"out/{MODEL}", learning_rate=2e-5, beta=1 / 1000, epsilon=0.2, num_iterations=1)
args = {**common, "num_generations": 2 * 4, "top_p": 0.9, "run_name": unknown()}
args = Config(**{**common, "num_generations": 2 * 4, "top_p": 0.9}, temperature=0.0, max_grad_norm=0)
args.max_completion_length = int(1e3)
model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16, device_map="auto")
rewards = [brevity, accuracy]

class Trainer(trl.GRPOTrainer):
    pass

Trainer(model, rewards, args=args, peft_config=LoraConfig(r=64, lora_dropout=0.05))
"""
LAUNCHED = """
#SBATCH --nodes=1
BASE=Qwen/Qwen3-1.7B  # {
trl vllm-serve --model $BASE --tensor_parallel_size 1 &
accelerate launch --config_file zero3.yaml --num_processes 4 train.py --config grpo.yaml --run_name "a: b: c" \\
    --model_name_or_path ${1:-$BASE} --per-device-train-batch-size 4 --no_gradient_checkpointing 2>&1 | tee log
echo done
"""
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": ["# GRPO"]},
            {"cell_type": "code", "source": ["%%capture\n", "!pip install trl\n"]},
            {"cell_type": "code", "source": ["%pip install trl\n", "args = GRPOConfig(num_generations=4)\n"]},
        ]
    }
)
STYLES = {"unsloth.py": UNSLOTH, "star.py": STAR, "launch.sh": LAUNCHED, "a.ipynb": NOTEBOOK, "grpo.yaml": FILE}
FILES = {"quickstart.py": QUICKSTART, "lora.py": LORA, "grpo.yaml": FILE, "run.sh": COMMAND, "trl.txt": TRL_COMMAND}


def converted(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    (folder / name).write_text((FILES | STYLES)[name])
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


def test_an_unsloth_script_keeps_its_quantised_base_and_its_names(tmp_path: Path) -> None:
    (tmp_path / "my_rewards.py").touch()
    made, left = converted("unsloth.py", tmp_path)
    lora = {"rank": 32, "alpha": 64, "targets": ["q_proj", "v_proj"]}
    assert made["model"] == {"name": "unsloth/Qwen3-4B-Base", "quantize": "nf4", "lora": lora}
    assert made["train"]["max_completion_tokens"] == 768
    assert made["sampler"] == {"engine": "vllm", "gpu_memory_utilization": 0.7}
    assert (made["game"]["group_size"], made["train"]["problems_per_step"]) == (3, 4)
    assert set(left) == {"max_seq_length", "adam_beta2", "optim", "max_prompt_length"}
    text = from_trl(tmp_path / "unsloth.py").text
    assert f"works as it is: {tmp_path / 'my_rewards.py'}:correctness; add" in text
    assert "reward.terms: [rewards.py:xmlcount, rewards.py:int_format]" in text


def test_names_dicts_and_arithmetic_of_a_script_are_followed(tmp_path: Path) -> None:
    made, left = converted("star.py", tmp_path)
    assert made["model"] == {
        **{"name": "Qwen/Qwen2.5-1.5B-Instruct", "dtype": "bfloat16"},
        "lora": {"rank": 64, "alpha": 8},  # PEFT's default, which is not ours
    }
    wanted = {"learning_rate": 2e-5, "beta": 0.001, "max_completion_tokens": 1000, "clip_norm": None}
    assert {key: made["train"][key] for key in wanted} == wanted
    assert set(left) == {"top_p", "lora_dropout", "temperature"}
    assert "refused" in left["temperature"]
    assert "TRL had brevity, accuracy; a function in a file of its own works as it is: rewards.py:accuracy" in (
        from_trl(tmp_path / "star.py").text
    )


def test_a_shell_script_is_read_with_its_variables_config_and_devices(tmp_path: Path) -> None:
    converted("grpo.yaml", tmp_path)
    made, left = converted("launch.sh", tmp_path)
    assert made["model"]["name"] == "Qwen/Qwen3-1.7B"
    assert made["train"]["learning_rate"] == 2e-6
    assert made["train"]["problems_per_step"] == 4 * 8 * 4 // 8
    assert made["train"]["gradient_checkpointing"] is False
    assert set(left) == {"lr_scheduler_type"}
    (tmp_path / "grpo.yaml").unlink()
    assert "config" in from_trl(tmp_path / "launch.sh").left


def test_what_a_value_cannot_be_is_left_out_and_said(tmp_path: Path) -> None:
    script = "GRPOConfig(num_generations='x', learning_rate=-1, lora_r=[1], seed=9**9**9, warmup_steps='3', beta=b)"
    (tmp_path / "a.py").write_text(f"b = b + 1\n{script}")
    left = from_trl(tmp_path / "a.py").left
    assert set(left) == {"num_generations", "learning_rate", "lora_r", "seed", "warmup_steps", "beta"}
    (tmp_path / "mine.yaml").write_text(from_trl(tmp_path / "a.py").text)
    assert load_config(tmp_path / "mine.yaml").game.group_size == 4


def test_weights_are_stated_beside_the_two_for_a_right_answer(tmp_path: Path) -> None:
    _, left = converted("lora.py", tmp_path)
    assert "reward.weights: [0.4] for the others" in left["reward_weights"]


@pytest.mark.parametrize("name", STYLES)
def test_every_style_plans(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = converted(name, tmp_path)
    rows = [{"prompt": f"What is {n} + {n + 1}?", "solution": str(2 * n + 1)} for n in range(450)]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(made))
    files = [
        f"data.{split}={{path: problems.jsonl, columns: {{question: prompt, answer: solution}}" for split in SPLITS
    ]
    words = ["model.name=agon:tiny", "model.lora.targets=all-linear", *(f"{file}, take: 4}}" for file in files)]
    assert main(["plan", "mine.yaml", *words]) == 0


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


LOCAL = """
from datasets import load_dataset
from rewards import brief, correct
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("json", data_files="questions.jsonl", split="train")
args = GRPOConfig(reward_weights=[0.1, 0.5], num_generations=4)
trainer = GRPOTrainer(model="agon:tiny", reward_funcs=[brief, correct], train_dataset=dataset, args=args)
"""


def test_rewards_and_problems_in_files_are_used_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"problem": f"What is {n} + {n}?", "gold": str(2 * n)} for n in range(450)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "rewards.py").write_text("def brief(completions, **rest): ...\ndef correct(completions, **rest): ...\n")
    (tmp_path / "grpo.py").write_text(LOCAL)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--from-trl", "grpo.py"]) == 0
    made = load_config(tmp_path / "grpo-agon.yaml")
    assert made.data.train.columns == {"question": "problem", "answer": "gold"}
    assert (made.data.dev.take, made.data.held_out.take) == (45, 90)
    assert Path(made.verifier).name == "rewards.py:correct"
    assert [Path(name).name for name in made.reward.terms] == ["rewards.py:brief"]
    assert made.reward.weights == [0.4]
    assert main(["plan", "grpo-agon.yaml", "model.lora.targets=all-linear"]) == 0


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
        ("a.py", "x = " + "-" * 100_000 + "1", "not Python"),
        ("a.ipynb", "{}", "not a notebook"),
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


VALUES: dict[str, Any] = {
    **dict.fromkeys(("model", "model_name_or_path", "dataset_name"), "openai/gsm8k"),
    **dict.fromkeys(("lora_r", "lora_alpha", "num_generations", "max_steps", "save_steps", "save_total_limit"), 64),
    **dict.fromkeys(("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "seed"), 64),
    **dict.fromkeys(("use_vllm", "gradient_checkpointing", "vllm_enable_sleep_mode", "load_in_4bit", "bf16"), True),
    **dict.fromkeys(("fp16", "vllm_importance_sampling_correction"), True),
    **dict.fromkeys(("learning_rate", "beta", "temperature", "vllm_gpu_memory_utilization"), 0.5),
    **dict.fromkeys(("warmup_ratio", "warmup_steps", "max_grad_norm"), 0.5),
    **dict.fromkeys(("vllm_max_model_length", "max_seq_length", "max_completion_length"), 16384),
    **{"dtype": "float16", "model_revision": "main", "lora_target_modules": ["q_proj"], "loss_type": "grpo"},
    **{"lr_scheduler_type": "cosine", "vllm_server_base_url": "http://127.0.0.1:1", "vllm_tensor_parallel_size": 2},
    **{"report_to": "wandb", "reward_funcs": ["accuracy"], "eval_steps": 10, "reward_weights": [1.0]},
}
"""A value for every field on the page."""


def rows_of_the_page() -> list[tuple[list[str], list[str]]]:
    lines = [line.split("|")[1:4] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", a), re.findall(r"`([^`]+)`", b)) for a, b, _ in lines]


def test_the_page_names_fields_of_trl_and_keys_of_ours() -> None:
    ours = {key for _, keys in rows_of_the_page() for key in keys}
    theirs = {field for fields, _ in rows_of_the_page() for field in fields}
    assert ours <= {*names()}
    assert {*KEYS} <= theirs | {"vllm_importance_sampling_mode"}
    assert len(theirs) >= 40
    assert theirs == VALUES.keys()


def test_the_fields_of_the_page_are_those_of_trl() -> None:
    trl = pytest.importorskip("trl")
    known = {
        name for kind in (trl.GRPOConfig, trl.ModelConfig, trl.ScriptArguments) for name in kind.__dataclass_fields__
    }
    calls = {"model", "reward_funcs", "max_seq_length", "warmup_ratio"}  # GRPOTrainer, Unsloth, transformers before 5
    assert {field for fields, _ in rows_of_the_page() for field in fields} <= known | calls


def test_a_field_goes_where_the_page_says(tmp_path: Path) -> None:
    listed = {"eval_steps", "reward_weights", "reward_funcs"}  # which are yours to write
    for fields, keys in rows_of_the_page():
        for field in {*fields} - listed:
            (tmp_path / "a.yaml").write_text(yaml.safe_dump({"max_completion_length": 8, field: VALUES[field]}))
            made = from_trl(tmp_path / "a.yaml")
            if field == "dataset_name":
                assert yaml.safe_load(made.text)["data"]["train"] == {"preset": "gsm8k"}
            else:
                assert made.carried[field] in keys, field
                assert field not in made.left


def test_a_name_that_is_made_of_itself_again_and_again_is_read_at_once(tmp_path: Path) -> None:
    again = "dataset = prepare(dataset)\n" * 4
    (tmp_path / "run.py").write_text(QUICKSTART.replace("trainer =", again + "trainer ="))
    assert "dataset_name" in from_trl(tmp_path / "run.py").carried
