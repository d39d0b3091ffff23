"""A GRPO run of TRL as a config of ours: every field that has a counterpart, and a list of those that have none.

`trl_files` reads a script, a notebook, a YAML file or a command line, and executes none. What the file leaves open
keeps TRL's default where it decides how a run learns. What the result would be refused for is left out and listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agon.config.models import FUNCTION, Config, Train
from agon.config.read import as_flow
from agon.config.trl_files import TRLRun, read
from agon.config.trl_names import FIXED, KEYS

DEFAULTS: dict[str, Any] = {
    "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_train_epochs": 3,
    "learning_rate": 1e-6, "lr_scheduler_type": "linear", "beta": 0.0, "loss_type": "dapo", "max_grad_norm": 1.0,
    "temperature": 1.0, "max_completion_length": 512, "seed": 42,
}  # fmt: skip
"""TRL's values of the fields that decide how a run learns."""
PRESETS = {
    "openai/gsm8k": "gsm8k", "gsm8k": "gsm8k", "zwhe99/DeepMath-103K": "deepmath-hard",
    "HuggingFaceH4/MATH-500": "math-500", "deepmind/code_contests": "codecontests-easy",
}  # fmt: skip
QUIET = {
    "output_dir", "run_name", "logging_steps", "logging_strategy", "log_completions", "remove_unused_columns",
    "per_device_eval_batch_size", "eval_strategy", "save_strategy", "do_train", "do_eval", "dataset_config",
    "dataset_train_split", "dataset_test_split", "use_peft", "disable_tqdm", "push_to_hub", "hub_model_id",
    "use_cpu", "vllm_mode", "attn_implementation", "num_completions_to_print", "generation_batch_size",
    "steps_per_generation", "lora_task_type", "task_type", "bias", "data_seed", "logging_first_step", "project",
    "dataset_num_proc", "ddp_find_unused_parameters", "dataloader_num_workers", "random_state", "num_processes",
    "use_gradient_checkpointing", "gradient_checkpointing_kwargs", "vllm_server_timeout", "log_level",
    "overwrite_output_dir",
    "bnb_4bit_quant_type", "use_bnb_nested_quant", "load_best_model_at_end", "hub_strategy",
}  # fmt: skip
"""Fields that say nothing about learning: where files go, what is printed, how work is cut into passes."""
SAME: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.2,), "epsilon_high": (0.2,), "num_iterations": (1,), "scale_rewards": (True, "group"),
    "weight_decay": (0,), "optim": ("adamw_torch", "adamw_torch_fused"), "adam_beta1": (0.9,), "adam_beta2": (0.999,),
    "top_p": (1,), "top_k": (0, -1), "lora_dropout": (0,), "load_in_4bit": (False,), "load_in_8bit": (False,),
    "vllm_importance_sampling_mode": ("token_truncate",), "repetition_penalty": (1,), "use_rslora": (False,),
    "importance_sampling_level": ("token",), "multi_objective_aggregation": ("sum_then_normalize",),
    "mask_truncated_completions": (False,), "full_finetuning": (False,), "shuffle_dataset": (True,),
}  # fmt: skip
"""Values that Agon has without a key: a field that states one loses nothing."""
LOST = FIXED | {
    "top_p": "training draws at top_p 1; eval.top_p is for evaluation",
    "max_prompt_length": "prompts are not cut; train.max_peek_tokens bounds what a challenge reads",
    "system_prompt": "the prompts around a question are Agon's own",
    "lora_dropout": "adapters have no dropout",
    "use_rslora": "adapters are scaled by alpha / rank",
}
"""Why a field has no counterpart."""
JUDGES = re.compile("accura|correct|answer|solve|verif|math")
"""Names of reward functions that say what is right, rather than how it is written."""


@dataclass(slots=True)
class Converted:
    """The text of our config, the fields that it carries over, and why others are missing, by field."""

    text: str
    carried: dict[str, str]
    left: dict[str, str]


KnownFile = tuple[Mapping[str, str], Mapping[str, int]]
"""Of a local file: the columns that hold question and answer, and how many problems dev and held-out may take; both
empty where the file cannot be read."""


def from_trl(path: Path, known: Callable[[str], KnownFile] = lambda file: ({}, {})) -> Converted:
    """Read a file of TRL and write it as our config, with the field of TRL beside every line.

    `known` looks into a local file.
    """
    return _Conversion(read(path), path.name, known).finish()


class _Conversion:
    """Lines of our config while they are collected."""

    def __init__(self, run: TRLRun, origin: str, known: Callable[[str], KnownFile]) -> None:
        self.run, self.origin, self.known = run, origin, known
        self.open = dict(run.fields)
        self.lines: dict[str, tuple[Any, str]] = {}
        self.carried: dict[str, str] = {}
        computed = [name for name in run.computed if name not in QUIET]
        self.left = dict.fromkeys(computed, "its value is computed; write it by hand") | run.remarks

    def put(self, key: str, value: Any, why: str) -> None:
        self.lines[key] = (value, why)

    def move(self, name: str, key: str, change: Callable[[Any], Any] = lambda value: value, remark: str = "") -> None:
        """Carry one field over under our key; one that decides how a run learns has TRL's default."""
        given = name in self.open
        if not given and name not in DEFAULTS:
            return
        try:
            value = change(self.open.pop(name) if given else DEFAULTS[name])
        except (TypeError, ValueError):
            value = None
        if value is None:
            self.left[name] = f"{self.run.fields.get(name)!r} has no counterpart; {key} keeps its default"
            return
        default = f"yours: computed in your file, {value} is TRL's default" if name in self.left else ""
        written = f"{assumed} of {name}" if (assumed := self.run.assumed.get(name)) else name
        self.put(key, value, (written if given else default or f"TRL's default of {name}") + remark)
        if given and not assumed:
            self.carried[name] = key

    def finish(self) -> Converted:
        self._model()
        self._data()
        self._size()
        self._learning()
        self._engine()
        for name, value in self.open.items():
            if name not in QUIET and value not in SAME.get(name, ()):
                hint = f"in Agon this is {KEYS[name]}" if name in KEYS else "Agon has no counterpart"
                self.left[name] = LOST.get(name, hint)
        self._drop_what_is_refused()
        return Converted(self._text(), self.carried, self.left)

    def _drop_what_is_refused(self) -> None:
        """Leave out values that no config may have, such as a temperature of 0."""
        try:
            Config.model_validate(self._values())
        except ValidationError as error:
            for fault in error.errors():
                at = ".".join(map(str, fault["loc"]))
                for key in [key for key in self.lines if at and (at == key or at.startswith(f"{key}."))]:
                    value, _ = self.lines.pop(key)
                    name = next((name for name, ours in self.carried.items() if ours == key), key)
                    self.carried.pop(name, None)
                    self.left[name] = f"{value!r} is refused ({fault['msg']}); {key} keeps its default"

    def _values(self) -> dict[str, Any]:
        """The lines as a tree."""
        tree: dict[str, Any] = {"schema": 1, "arm": "agon"}
        for key, (value, _) in self.lines.items():
            *sections, last = key.split(".")
            inner = tree
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[last] = value
        return tree

    def _model(self) -> None:
        for name in ("model", "model_name_or_path"):
            self.move(name, "model.name", _text_only)
        if "model.name" not in self.lines:
            self.put("model.name", "Qwen/Qwen3-0.6B", "yours: the file names no model")
        self.move("model_revision", "model.revision", _text_only)
        for name in ("dtype", "torch_dtype"):
            if self.open.get(name) == "auto":  # the base as it is published, as by default here
                del self.open[name]
            self.move(name, "model.dtype", lambda value: value if value in ("bfloat16", "float16", "float32") else None)
        if self.open.pop("bf16", False):
            self.put("model.dtype", "bfloat16", "bf16")
        if self.open.pop("fp16", False):
            self.put("model.dtype", "float16", "fp16")
        for name in ("bf16", "fp16"):
            if self.run.fields.get(name):
                self.carried[name] = "model.dtype"
        if self.open.get("load_in_4bit") is True:
            self.open.pop("load_in_4bit")
            assumed = self.run.assumed.get("load_in_4bit")
            self.put("model.quantize", "nf4", f"{assumed} of load_in_4bit" if assumed else "load_in_4bit")
            self.carried |= {} if assumed else {"load_in_4bit": "model.quantize"}
            if str(self.lines["model.name"][0]).endswith("-bnb-4bit"):
                self.put("model.name", self.lines["model.name"][0], "yours: name the base that was quantised, not this")
        self.move("lora_r", "model.lora.rank")
        self.move("lora_alpha", "model.lora.alpha")
        self.move("lora_target_modules", "model.lora.targets")

    def _data(self) -> None:
        name = self.open.pop("dataset_name", None)
        column = self.open.pop("dataset_prompt_column", "prompt")
        preset = PRESETS.get(str(name))
        is_file = str(name).endswith((".jsonl", ".json", ".csv", ".parquet"))
        found, sizes = self.known(str(name)) if is_file else ({}, {})
        for split, take in (("train", None), ("dev", 100), ("held_out", 300)):
            if preset:
                self.put(f"data.{split}.preset", preset, f"dataset_name {name}" if split == "train" else "")
            else:
                path = name if is_file else "problems.jsonl"
                why = "the file of load_dataset" if is_file else _export(name)
                self.put(f"data.{split}.path", path, why if split == "train" else "")
                columns = found or {"question": column, "answer": "solution"}
                why = "yours: our name on the left, your column on the right"
                why = ("by the names in the file: check them" if found else why) if split == "train" else ""
                self.put(f"data.{split}.columns", columns, why)
            if take:
                why = "chooses the cascade's direction" if split == "dev" else "for the final numbers"
                self.put(f"data.{split}.take", sizes.get(split, take), why)
        if name is not None:
            self.carried["dataset_name"] = "data"
        self._rewards("code" if preset == "codecontests-easy" else "math")

    def _rewards(self, verifier: str) -> None:
        """The function whose name says what is right is the verifier and the others are terms, if files have them."""
        given = self.run.rewards
        judges = [name for name in given if JUDGES.search(name) and "format" not in name]
        judge = next(iter([*judges, *given]), "")
        others = [name for name in given if name != judge]
        weights = self.open.pop("reward_weights", None)
        if len(judges) == 1 and all(".py:" in name for name in given):
            self._terms(judge, others, [1.0] * len(given) if weights is None else weights)
            return
        why = f"yours: TRL had {', '.join(given)}" if given else "yours: math, code or FILE.py:function"
        if _usable(judge) and not judge.endswith("accuracy_reward"):
            why += f"; a function in a file of its own works as it is: {_usable(judge)}"
        if terms := [name for name in map(_usable, others) if name]:
            why += f"; add what pays besides being right as reward.terms: [{', '.join(terms)}]"
        self.put("verifier", verifier, why)
        if weights is None or not others:
            return
        self.left["reward_weights"] = "write reward.weights, one for each of your reward.terms; right is worth 2"
        if isinstance(weights, list) and len(weights) == len(given) and (first := weights[given.index(judge)]) > 0:
            each = [f"{2 * weight / first:.3g}" for name, weight in zip(given, weights, strict=True) if name != judge]
            self.left["reward_weights"] = (
                f"a right answer is worth 2 here: where {judge} pays 1 for it, reward.weights: [{', '.join(each)}] "
                "for the others keeps the ratio"
            )

    def _terms(self, judge: str, others: list[str], weights: Any) -> None:
        """The functions as they are; the weights keep their ratio, where the judge pays 1 and is worth 2 here."""
        self.put("verifier", judge, "reward_funcs: its name says that it judges; right is what it pays 1 for")
        if not others:
            return
        self.put("reward.terms", others, "reward_funcs: what pays besides being right")
        if (
            isinstance(weights, list)
            and len(weights) == 1 + len(others)
            and (first := weights[self.run.rewards.index(judge)]) > 0
        ):
            each = [round(2 * w / first, 4) for name, w in zip(self.run.rewards, weights, strict=True) if name != judge]
            self.put(
                "reward.weights",
                each,
                f"weights {weights} in TRL; a right answer is worth 2 here, so twice their ratio",
            )
            self.carried["reward_weights"] = "reward.weights"
        else:
            self.left["reward_weights"] = "write reward.weights, one for each of your reward.terms; right is worth 2"

    def _size(self) -> None:
        """Rollouts per problem and per step stay what they were."""
        names = ("num_generations", "per_device_train_batch_size", "gradient_accumulation_steps")
        given = {name: self.open.pop(name) for name in names if name in self.open}
        self.left |= {name: f"{v!r} is not a number" for name, v in given.items() if not isinstance(v, int | float)}
        given = {name: value for name, value in given.items() if name not in self.left}
        drawn, batch, passes = (max(1, int(given.get(name, DEFAULTS[name]))) for name in names)
        devices = self.open.get("num_processes", 1)
        devices = devices if isinstance(devices, int) and devices > 0 else 1
        halves = drawn >= 4 and drawn % 2 == 0
        size = drawn // 2 if halves else max(2, drawn)
        why = f"num_generations {drawn}: " + (
            f"{size} drafts and {size} challenges per problem" if halves else "a pair draws twice as many per problem"
        )
        self.put("game.group_size", size, why)
        whole = batch * passes * devices
        why = f"{batch} x {passes} completions per step and device in TRL; multiply by your devices"
        if devices > 1:
            why = f"{batch} x {passes} completions on {devices} devices, {drawn} per problem"
        if whole < drawn:
            why += f"; a step of TRL held {whole} of {drawn} of a problem, ours holds whole problems"
        self.put("train.problems_per_step", max(1, whole // drawn), why)
        keys = ("game.group_size", "train.problems_per_step", "train.problems_per_step")
        self.carried |= {name: key for name, key in zip(names, keys, strict=True) if name in given}

    def _learning(self) -> None:
        adapters = any(name in self.run.fields for name in ("lora_r", "use_peft")) or "lora_r" in self.run.computed
        epochs = self.run.fields.get("num_train_epochs", 1)
        part = f"; {epochs} in TRL: set train.max_steps" if isinstance(epochs, float) and epochs % 1 else ""
        self.move("num_train_epochs", "train.epochs", lambda value: max(1, round(value)), part)
        if self.open.get("max_steps") == -1:  # TRL's default: all epochs
            del self.open["max_steps"]
        self.move("max_steps", "train.max_steps", lambda value: value if value > 0 else None)
        rate = "" if adapters else "; every weight was trained: adapters want about ten times more"
        self.move("learning_rate", "train.learning_rate", remark=rate)
        schedules = {"constant_with_warmup": "constant"} | {name: name for name in ("linear", "cosine", "constant")}
        self.move("lr_scheduler_type", "train.schedule", lambda value: schedules.get(str(value)))
        steps = self.run.fields.get("max_steps", 0)
        self.move("warmup_ratio", "train.warmup", lambda value: value if 0 <= value < 1 else None)
        self.move("warmup_steps", "train.warmup", lambda value: _share(value, steps))
        if "warmup_steps" in self.left and "warmup_steps" not in self.run.computed:
            self.left["warmup_steps"] = "write it as a share of all steps, train.warmup; `agon plan` counts the steps"
        if "train.warmup" not in self.lines:
            lost = next((name for name in ("warmup_ratio", "warmup_steps") if name in self.left), None)
            self.put("train.warmup", 0.0, f"yours: {lost}" if lost else "TRL's default of warmup_steps")
        self.move("beta", "train.beta")
        self.move("loss_type", "train.loss", lambda value: value if value in ("grpo", "dapo", "dr_grpo") else None)
        corrected = self.open.pop("vllm_importance_sampling_correction", None)
        if corrected is not None:
            self.put(
                "train.importance", "token_truncate" if corrected else "none", "vllm_importance_sampling_correction"
            )
            self.carried["vllm_importance_sampling_correction"] = "train.importance"
        self.move("max_grad_norm", "train.clip_norm")
        if self.lines["train.clip_norm"][0] == 0:
            self.put("train.clip_norm", None, "max_grad_norm 0 clips nothing")
        self.move("temperature", "train.temperature")
        self.move(
            "max_completion_length", "train.max_completion_tokens", lambda value: value if int(value) > 0 else None
        )
        longest = self.lines.get("train.max_completion_tokens", (Train().max_completion_tokens, ""))[0]
        self.put("eval.max_completion_tokens", longest, "the same as in training")
        self.move("gradient_checkpointing", "train.gradient_checkpointing")
        self.move("seed", "train.seed")
        self.move("save_steps", "save.every", lambda value: value if isinstance(value, int) and value > 0 else None)
        self.move("save_total_limit", "save.keep", lambda value: max(2, value) if value else None)
        if self.open.get("report_to") in ("none", ["none"], []):
            del self.open["report_to"]
        self.move("report_to", "report_to", _trackers)

    def _engine(self) -> None:
        on = self.open.pop("use_vllm", None)
        self.put(
            "sampler.engine", "vllm", "use_vllm" if on else "TRL drew with transformers; `hf` is for tiny models here"
        )
        if on is not None:
            self.carried["use_vllm"] = "sampler.engine"
        plain = ": a plain `vllm serve`, not `trl vllm-serve`"
        self.move("vllm_server_base_url", "sampler.urls", lambda value: [value] if value else None, plain)
        host, port = self.open.pop("vllm_server_host", None), self.open.pop("vllm_server_port", 8000)
        if host and "sampler.urls" not in self.lines and self.open.get("vllm_mode", "server") == "server":
            url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
            self.put("sampler.urls", [url], "vllm_server_host" + plain)
        self.move("vllm_gpu_memory_utilization", "sampler.gpu_memory_utilization")
        peek = int(Train.model_fields["max_peek_tokens"].default)
        room = self.lines["eval.max_completion_tokens"][0] + peek
        for name in ("vllm_max_model_length", "max_seq_length"):
            self.move(name, "sampler.max_model_len", lambda value: value if value > room else None)
            if name in self.left and name not in self.run.computed:
                self.left[name] = f"too short: a challenge holds a peek of {peek} tokens; the length is derived"
        self.move("vllm_enable_sleep_mode", "sampler.sleep")
        tensors = self.open.pop("vllm_tensor_parallel_size", 1)
        if tensors != 1:
            self.put("sampler.options", {"tensor_parallel_size": tensors}, "vllm_tensor_parallel_size")
            self.carried["vllm_tensor_parallel_size"] = "sampler.options"

    def _text(self) -> str:
        head = [
            f"# Written from {self.origin} by `agon init --from-trl`. The comment names the field of TRL.",
            "# Next: agon data check FILE, then agon plan FILE. docs/from-trl.md says what differs.",
        ]
        if self.left:
            lost = (f"#   {' '.join(f'{name}: {why}'.split())}" for name, why in self.left.items())
            head += ["#", "# Not carried over:", *lost]
        lines = [*head, "", "schema: 1", "arm: agon    # train `grpo` as well: the same budget, one policy", ""]
        return "\n".join([*lines, *_tree(self.lines), ""])


def _tree(lines: Mapping[str, tuple[Any, str]]) -> list[str]:
    """Dotted keys as nested YAML, sections in the order in which they came, each value with its comment."""
    order = {
        "model": 0,
        "data": 1,
        "verifier": 2,
        "reward": 2,
        "game": 3,
        "train": 4,
        "sampler": 5,
        "eval": 6,
        "save": 7,
    }
    written: list[str] = []
    before: list[str] = []
    for key in sorted(lines, key=lambda key: order.get(key.split(".")[0], 9)):
        *sections, last = key.split(".")
        for depth, section in enumerate(sections):
            if before[: depth + 1] != sections[: depth + 1]:
                if depth == 0 and written:
                    written.append("")
                written.append(f"{'  ' * depth}{section}:")
                before = sections[: depth + 1]
        value, why = lines[key]
        why = f"    # {' '.join(why.split())}" if why else ""
        if not sections and written:
            written.append("")
        before = sections
        written.append(f"{'  ' * len(sections)}{last}: {as_flow(value)}" + why)
    return written


def _usable(name: str) -> str:
    """How a config names a reward function: its module's if it was imported, else one in a file to write."""
    if re.fullmatch(FUNCTION, name):
        return name
    return f"rewards.py:{name}" if name.isidentifier() else ""


def _export(name: Any) -> str:
    if name is None:
        return "yours: JSONL, parquet or CSV"
    return f'yours: load_dataset("{name}", split="train").to_json("problems.jsonl")'


def _text_only(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _share(warmup: Any, steps: Any) -> float | None:
    """Warmup as a share of all steps; transformers takes a number below 1 as one already."""
    if 0 <= warmup < 1:
        return float(warmup)
    return round(warmup / steps, 4) if isinstance(steps, int) and steps > warmup else None


def _trackers(value: Any) -> list[str] | None:
    named = [value] if isinstance(value, str) else list(value or [])
    return [name for name in named if name in ("trackio", "wandb", "tensorboard")] or None
