"""A GRPO run of TRL as a config of ours: every field that has a counterpart, and a list of those that have none.

Three kinds of files are read and none is executed: a Python script with a literal `GRPOConfig(...)`, a YAML file for
TRL's parser, and a command line. What the file leaves open keeps TRL's default where it decides how a run learns.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agon.config.read import as_flow
from agon.config.trl_names import FIXED
from agon.errors import InputError

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
    "steps_per_generation", "lora_task_type", "task_type", "bias",
}  # fmt: skip
"""Fields that say nothing about learning: where files go, what is printed, how work is cut into passes."""


@dataclass(slots=True)
class TRLRun:
    """What a file says of a run; values that are not literals are in `computed`."""

    fields: dict[str, Any] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    rewards: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Converted:
    """The text of our config, the fields that it carries over, and why others are missing, by field."""

    text: str
    carried: dict[str, str]
    left: dict[str, str]


def from_trl(path: Path) -> Converted:
    """Read a file of TRL and write it as our config."""
    return convert(read(path), path.name)


# -- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> TRLRun:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", fix="name a script, a YAML file or a command line") from None
    if path.suffix == ".py":
        return _script(text, path)
    found = _yaml(text, path) if path.suffix in (".yaml", ".yml") else _command_line(text, path)
    rewards = found.pop("reward_funcs", [])
    return TRLRun(found, [], [rewards] if isinstance(rewards, str) else list(rewards))


def _script(text: str, path: Path) -> TRLRun:
    """The literal arguments of GRPOConfig, LoraConfig, GRPOTrainer and load_dataset."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path} is not Python: {error}", fix="name a script, a YAML file or a command line") from None
    constants: dict[str, Any] = {}
    run = TRLRun()
    configured = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _literal(node.value, constants)
            constants |= {} if value is _COMPUTED else {node.targets[0].id: value}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if name == "GRPOConfig":
            configured = True
            _take(run, given, constants)
        elif name == "LoraConfig":
            _take(run, {_LORA.get(key, key): value for key, value in given.items()}, constants)
        elif name == "GRPOTrainer":
            configured = True
            _take(run, {"model": given["model"]} if "model" in given else {}, constants)
            rewards = given.get("reward_funcs")
            listed = rewards.elts if isinstance(rewards, ast.List | ast.Tuple) else [rewards] if rewards else []
            run.rewards = [ast.unparse(one) for one in listed]
        elif name == "load_dataset" and node.args and "dataset_name" not in run.fields:
            _take(run, {"dataset_name": node.args[0]}, constants)
    if not configured:
        raise InputError(
            f"{path} has no GRPOConfig(...) and no GRPOTrainer(...)",
            fix="name the script that writes it, or the YAML file that TRL's parser reads",
        )
    return run


_COMPUTED = object()
_LORA = {"r": "lora_r", "target_modules": "lora_target_modules"}


def _take(run: TRLRun, given: Mapping[str, ast.expr], constants: Mapping[str, Any]) -> None:
    for key, node in given.items():
        value = _literal(node, constants)
        if value is _COMPUTED:
            run.computed.append(key)
        else:
            run.fields[key] = value


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return constants.get(node.id, _COMPUTED)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _COMPUTED


def _yaml(text: str, path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {error}", fix="name a script, a YAML file or a command line") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no fields", fix="write one `name: value` of GRPOConfig per line")
    return {str(key): _number(value) for key, value in found.items()}


def _command_line(text: str, path: Path) -> dict[str, Any]:
    """`--name value` pairs; a name without a value is true."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"{path} is not a command line: {error}", fix="name a .py or a .yaml file") from None
    found: dict[str, Any] = {}
    for n, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        values = [value] if equals else []
        for later in words[n + 1 :] if not equals else []:
            if later.startswith("--"):
                break
            values.append(later)
        parsed = [_number(yaml.safe_load(one)) for one in values]
        found[name.replace("-", "_")] = parsed[0] if len(parsed) == 1 else parsed or True
    if not found:
        raise InputError(f"{path} has no --name value", fix="name a .py, a .yaml, or a file with TRL's command line")
    return found


def _number(value: Any) -> Any:
    """YAML reads 1e-6 as text; TRL reads it as a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


# -- converting -------------------------------------------------------------------------------------------------------


def convert(run: TRLRun, origin: str) -> Converted:
    """Our config as text, with the field of TRL beside every line."""
    return _Conversion(run, origin).finish()


class _Conversion:
    """Lines of our config while they are collected."""

    def __init__(self, run: TRLRun, origin: str) -> None:
        self.run, self.origin = run, origin
        self.open = dict(run.fields)
        self.lines: dict[str, tuple[Any, str]] = {}
        self.carried: dict[str, str] = {}
        self.left = dict.fromkeys(run.computed, "its value is computed; write it by hand")

    def put(self, key: str, value: Any, why: str) -> None:
        self.lines[key] = (value, why)

    def move(self, name: str, key: str, change: Callable[[Any], Any] = lambda value: value, remark: str = "") -> None:
        """Carry one field over under our key; one that decides how a run learns has TRL's default."""
        given = name in self.open
        if not given and name not in DEFAULTS:
            return
        value = change(self.open.pop(name) if given else DEFAULTS[name])
        if value is None:
            self.left[name] = f"{self.run.fields.get(name)!r} has no counterpart; {key} keeps its default"
            return
        default = f"yours: computed in your file, {value} is TRL's default" if name in self.left else ""
        self.put(key, value, (name if given else default or f"TRL's default of {name}") + remark)
        if given:
            self.carried[name] = key

    def finish(self) -> Converted:
        self._model()
        self._data()
        self._size()
        self._learning()
        self._engine()
        for name in self.open:
            if name not in QUIET:
                self.left[name] = FIXED.get(name, "Agon has no counterpart")
        return Converted(self._text(), self.carried, self.left)

    def _model(self) -> None:
        for name in ("model", "model_name_or_path"):
            self.move(name, "model.name", _text_only)
        if "model.name" not in self.lines:
            self.put("model.name", "Qwen/Qwen3-0.6B", "yours: the file names no model")
        self.move("model_revision", "model.revision", _text_only)
        for name in ("dtype", "torch_dtype"):
            self.move(name, "model.dtype", lambda value: value if value in ("bfloat16", "float16", "float32") else None)
        if self.open.pop("bf16", False):
            self.put("model.dtype", "bfloat16", "bf16")
        if self.open.pop("fp16", False):
            self.put("model.dtype", "float16", "fp16")
        self.move("lora_r", "model.lora.rank")
        self.move("lora_alpha", "model.lora.alpha")
        self.move("lora_target_modules", "model.lora.targets")

    def _data(self) -> None:
        name = self.open.pop("dataset_name", None)
        preset = PRESETS.get(str(name))
        for split, take in (("train", None), ("dev", 100), ("held_out", 300)):
            if preset:
                self.put(f"data.{split}.preset", preset, f"dataset_name {name}" if split == "train" else "")
            else:
                self.put(f"data.{split}.path", "problems.jsonl", _export(name) if split == "train" else "")
                columns = {"question": "prompt", "answer": "solution"}
                why = "yours: our name on the left, your column on the right" if split == "train" else ""
                self.put(f"data.{split}.columns", columns, why)
            if take:
                why = "chooses the cascade's direction" if split == "dev" else "for the final numbers"
                self.put(f"data.{split}.take", take, why)
        if name is not None:
            self.carried["dataset_name"] = "data"
        given = self.run.rewards
        why = f"yours: TRL had {', '.join(given)}" if given else "yours: math, code or FILE.py:function"
        if given and given[0] != "accuracy_reward" and given[0].isidentifier():
            why += f"; a function in a file of its own works as it is: rewards.py:{given[0]}"
        if more := [f"rewards.py:{name}" for name in given[1:] if name.isidentifier()]:
            why += f"; add what pays besides being right as reward.terms: [{', '.join(more)}]"
        self.put("verifier", "math", why)
        if self.open.pop("reward_weights", None) is not None:
            self.left["reward_weights"] = "write reward.weights, one for each of your reward.terms; right is worth 2"

    def _size(self) -> None:
        """Rollouts per problem and per step stay what they were, on one device."""
        drawn = int(self.open.get("num_generations", DEFAULTS["num_generations"]))
        halves = drawn >= 4 and drawn % 2 == 0
        size = drawn // 2 if halves else max(2, drawn)
        why = f"num_generations {drawn}: " + (
            f"{size} drafts and {size} challenges per problem" if halves else "a pair draws twice as many per problem"
        )
        self.put("game.group_size", size, why)
        batch, passes = (
            int(self.open.get(name, DEFAULTS[name]))
            for name in ("per_device_train_batch_size", "gradient_accumulation_steps")
        )
        why = f"{batch} x {passes} completions per step and device in TRL; multiply by your devices"
        self.put("train.problems_per_step", max(1, batch * passes // drawn), why)
        for name, key in (
            ("num_generations", "game.group_size"),
            ("per_device_train_batch_size", "train.problems_per_step"),
            ("gradient_accumulation_steps", "train.problems_per_step"),
        ):
            if self.open.pop(name, None) is not None:
                self.carried[name] = key

    def _learning(self) -> None:
        adapters = any(name in self.run.fields for name in ("lora_r", "use_peft")) or "lora_r" in self.run.computed
        self.move("num_train_epochs", "train.epochs", lambda value: max(1, round(value)))
        self.move("max_steps", "train.max_steps", lambda value: value if value > 0 else None)
        rate = "" if adapters else "; every weight was trained: adapters want about ten times more"
        self.move("learning_rate", "train.learning_rate", remark=rate)
        schedules = {"constant_with_warmup": "constant"} | {name: name for name in ("linear", "cosine", "constant")}
        self.move("lr_scheduler_type", "train.schedule", lambda value: schedules.get(str(value)))
        steps = self.run.fields.get("max_steps", 0)
        self.move("warmup_ratio", "train.warmup", lambda value: value if 0 <= value < 1 else None)
        self.move("warmup_steps", "train.warmup", lambda value: _share(value, steps))
        if "train.warmup" not in self.lines:
            self.put("train.warmup", 0.0, "TRL's default of warmup_steps")
        self.move("beta", "train.beta")
        self.move("loss_type", "train.loss", lambda value: value if value in ("grpo", "dapo", "dr_grpo") else None)
        corrected = self.open.pop("vllm_importance_sampling_correction", None)
        if corrected is not None:
            self.put(
                "train.importance", "token_truncate" if corrected else "none", "vllm_importance_sampling_correction"
            )
            self.carried["vllm_importance_sampling_correction"] = "train.importance"
        self.move("max_grad_norm", "train.clip_norm", lambda value: value or None)
        self.move("temperature", "train.temperature")
        self.move("max_completion_length", "train.max_completion_tokens")
        self.put("eval.max_completion_tokens", self.lines["train.max_completion_tokens"][0], "the same as in training")
        self.move("gradient_checkpointing", "train.gradient_checkpointing")
        self.move("seed", "train.seed")
        self.move("save_steps", "save.every", lambda value: value if isinstance(value, int) and value > 0 else None)
        self.move("save_total_limit", "save.keep", lambda value: max(2, value) if value else None)
        self.move("report_to", "report_to", _trackers)

    def _engine(self) -> None:
        on = self.open.pop("use_vllm", None)
        self.put(
            "sampler.engine", "vllm", "use_vllm" if on else "TRL drew with transformers; `hf` is for tiny models here"
        )
        if on is not None:
            self.carried["use_vllm"] = "sampler.engine"
        self.move("vllm_server_base_url", "sampler.urls", lambda value: [value] if value else None)
        self.move("vllm_gpu_memory_utilization", "sampler.gpu_memory_utilization")
        self.move("vllm_max_model_length", "sampler.max_model_len")
        self.move("vllm_enable_sleep_mode", "sampler.sleep")

    def _text(self) -> str:
        head = [
            f"# Written from {self.origin} by `agon init --from-trl`. The comment names the field of TRL.",
            "# Next: agon data check FILE, then agon plan FILE. docs/from-trl.md says what differs.",
        ]
        if self.left:
            head += ["#", "# Not carried over:", *(f"#   {name}: {why}" for name, why in self.left.items())]
        lines = [*head, "", "schema: 1", "arm: agon    # train `grpo` as well: the same budget, one policy", ""]
        return "\n".join([*lines, *_tree(self.lines), ""])


def _tree(lines: Mapping[str, tuple[Any, str]]) -> list[str]:
    """Dotted keys as nested YAML, sections in the order in which they came, each value with its comment."""
    order = {"model": 0, "data": 1, "verifier": 2, "game": 3, "train": 4, "sampler": 5, "eval": 6, "save": 7}
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
        if not sections and written:
            written.append("")
        before = sections
        written.append(f"{'  ' * len(sections)}{last}: {as_flow(value)}" + (f"    # {why}" if why else ""))
    return written


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
