"""`AgonTrainer`: a pair in the shape of TRL's GRPOTrainer, over `agon.train`.

    trainer = AgonTrainer("Qwen/Qwen3-0.6B", reward_funcs=[accuracy, brevity], args=GRPOConfig(...), train_dataset=rows)
    trainer.train()

Every field of GRPOConfig is carried over to a key of ours, has no part in what is learned, or is refused by name where
its value is not what Agon does. What a script leaves open has TRL's default, which the object itself holds.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.config import overrides_of
from agon.config.read import Place, Written
from agon.config.trl_names import FIXED
from agon.config.validate import finished
from agon.data.split import part_sizes
from agon.engine.learner.constants import ADAM, CLIP, TRUNCATE
from agon.engine.trl_args import grpo_config
from agon.errors import InputError
from agon.training.run import Show, train
from agon.verify.custom import Function, name_of

if TYPE_CHECKING:
    from agon.config import Config
    from agon.rundir import RunDir
    from agon.training.rows import Rows

Key = str

SAME: Mapping[str, Key] = {
    "learning_rate": "train.learning_rate", "beta": "train.beta", "loss_type": "train.loss", "seed": "train.seed",
    "temperature": "train.temperature", "max_completion_length": "train.max_completion_tokens",
    "gradient_checkpointing": "train.gradient_checkpointing",
}  # fmt: skip
"""Fields that mean the same and have the same values."""

OF_VLLM = {
    "use_vllm", "vllm_mode", "vllm_server_base_url", "vllm_server_host", "vllm_server_port",
    "vllm_gpu_memory_utilization", "vllm_max_model_length", "vllm_enable_sleep_mode", "vllm_tensor_parallel_size",
    "vllm_importance_sampling_correction", "vllm_importance_sampling_mode",
}  # fmt: skip
OF_SIZE = {
    "num_generations", "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps",
    "warmup_steps", "lr_scheduler_type",
}  # fmt: skip
OF_RUN = {
    "output_dir", "reward_weights", "max_grad_norm", "bf16", "fp16", "model_init_kwargs", "report_to",
    "eval_strategy", "eval_steps", "save_strategy", "save_steps", "save_total_limit", "load_best_model_at_end",
}  # fmt: skip
CARRIED = {*SAME, *OF_VLLM, *OF_SIZE, *OF_RUN}
"""Fields with a counterpart."""

QUIET = {
    # what is printed, and where it goes: every step and every completion is kept
    "logging_strategy", "logging_steps", "logging_first_step", "log_on_each_node", "logging_nan_inf_filter",
    "log_level", "log_level_replica", "disable_tqdm", "run_name", "project", "log_completions", "log_multimodal",
    "num_completions_to_print", "log_unique_prompts", "include_num_input_tokens_seen", "debug", "skip_memory_metrics",
    # evaluation and checkpoints, whose content is ours
    "per_device_eval_batch_size", "num_generations_eval", "eval_delay", "prediction_loss_only", "eval_on_start",
    "eval_do_concat_batches", "eval_use_gather_object", "eval_accumulation_steps", "include_for_metrics",
    "batch_eval_metrics", "bf16_full_eval", "fp16_full_eval", "save_only_model", "save_on_each_node",
    "enable_jit_checkpoint", "do_train", "do_eval", "do_predict", "resume_from_checkpoint",
    "restore_callback_states_from_checkpoint", "ignore_data_skip", "greater_is_better",
    # of an upload, which push_to_hub would ask for
    "hub_token", "hub_private_repo", "hub_model_id", "hub_strategy", "hub_always_push", "hub_revision",
    # how work is cut and moved: passes are cut by train.tokens_per_pass, and a run is one process
    "average_tokens_across_devices", "generation_batch_size", "pad_to_multiple_of", "gradient_checkpointing_kwargs",
    "use_liger_kernel", "liger_kernel_config", "use_cache", "cache_implementation", "tf32", "torch_compile",
    "torch_compile_backend", "torch_compile_mode", "torch_empty_cache_steps", "use_cpu", "accelerator_config",
    "auto_find_batch_size", "dataloader_drop_last", "dataloader_num_workers", "dataloader_pin_memory",
    "dataloader_persistent_workers", "dataloader_prefetch_factor", "dataloader_multiprocessing_context",
    "dataloader_in_order", "remove_unused_columns", "label_names", "length_column_name", "data_seed",
    "ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_static_graph", "ddp_backend",
    "ddp_timeout", "local_rank", "ds3_gather_for_generation", "use_transformers_continuous_batching",
    "transformers_continuous_batching_config", "use_transformers_paged", "vllm_server_timeout", "vllm_group_port",
    "vllm_model_impl", "disable_dropout",
    # of losses and options that are refused
    "sapo_temperature_neg", "sapo_temperature_pos", "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg",
    "vespo_lambda_neg", "ref_model_mixup_alpha", "ref_model_sync_steps", "use_adaptive_entropy", "entropy_coef_min",
    "entropy_coef_max", "entropy_coef_delta", "entropy_target",
}  # fmt: skip
"""Fields that say nothing about what is learned."""

ONLY: Mapping[str, tuple[Any, ...]] = {
    # the loss and the optimizer, as engine/learner/constants.py has them
    "epsilon": (CLIP,), "epsilon_high": (None, CLIP), "delta": (None,), "num_iterations": (1,),
    "steps_per_generation": (), "importance_sampling_level": ("token",), "scale_rewards": ("group", True),
    "multi_objective_aggregation": ("sum_then_normalize",), "mask_truncated_completions": (False,),
    "sync_ref_model": (False,), "top_entropy_quantile": (1.0,), "entropy_coef": (0.0,),
    "off_policy_mask_threshold": (None,), "use_bias_correction_kl": (True, False), "cast_lm_head_to_fp32": (False,),
    "vllm_importance_sampling_clip_max": (TRUNCATE,), "vllm_importance_sampling_clip_min": (None,),
    "vllm_importance_sampling_cap": (None, TRUNCATE), "optim": ("adamw_torch", "adamw_torch_fused"),
    "optim_args": (None,), "optim_target_modules": (None,), "weight_decay": (ADAM["weight_decay"],),
    "adam_beta1": ADAM["betas"][:1], "adam_beta2": ADAM["betas"][1:], "adam_epsilon": (ADAM["eps"],),
    "label_smoothing_factor": (0,), "neftune_noise_alpha": (None,),
    "router_aux_loss_coef": (None, 0), "lr_scheduler_kwargs": (None, {}),
    # drawing
    "top_p": (1,), "top_k": (0, -1, None), "min_p": (None, 0), "repetition_penalty": (1,),
    "generation_kwargs": (None, {}), "chat_template_kwargs": (None, {}), "vllm_structured_outputs_regex": (None,),
    "max_tool_calling_iterations": (None,), "shuffle_dataset": (True,), "train_sampling_strategy": ("random",),
    # the rest
    "trust_remote_code": (False,), "push_to_hub": (False,), "log_completions_hub_repo": (None,),
    "trackio_space_id": (None,), "trackio_bucket_id": (None,), "trackio_static_space_id": (None,),
    "metric_for_best_model": (None, "loss"), "full_determinism": (False,), "deepspeed": (None,),
    "fsdp": (None, "", []), "fsdp_config": (None, {}), "parallelism_config": (None,),
}  # fmt: skip
"""What Agon does where it has no key; any other value is refused."""

NOT_HERE = {
    "processing_class": "the tokenizer is the base's own",
    "reward_processing_classes": "reward models are not loaded; a function that asks one is",
    "callbacks": "every step and completion is kept in the run, and agon_lens.watch wraps reward functions",
    "optimizers": "the optimizer is AdamW",
    "quantization_config": "write **{'model.quantize': 'nf4'}",
    "tools": "completions are one turn",
    "rollout_func": "rollouts are the game's",
    "environment_factory": "write **{'data.train.env': ...}: environments bring their rows",
    "compute_metrics": "agon.evaluate(RUN) measures the pair",
}
"""Arguments of GRPOTrainer without a counterpart."""

ARGUMENTS = ("model", "reward_funcs", "args", "train_dataset", "eval_dataset", "peft_config")
ADAPTER = {"r", "lora_alpha", "target_modules"}
ADAPTER_QUIET = {
    "task_type", "peft_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision",
    "inference_mode", "fan_in_fan_out", "megatron_core", "ensure_weight_tying", "runtime_config",
}  # fmt: skip
ADAPTER_FIXED = {
    "lora_dropout": "adapters have no dropout",
    "use_rslora": "adapters are scaled by alpha / rank",
    "layers_to_transform": "write **{'model.lora.layers': N} for the last N layers",
}
JUDGES = re.compile("accura|correct|answer|solv|solution|verif|math")
"""Names of reward functions that say what is right, rather than how it is written."""


class AgonTrainer:
    """Train a pair with the arguments of `trl.GRPOTrainer`.

    One of `reward_funcs` decides what is right: what it returns is right from `reward.right` (1) on. What the others
    return is added, times their share of `args.reward_weights`. `eval_dataset` is for the final numbers; the problems
    that choose who drafts, and without an `eval_dataset` those too, are taken from the training rows. Any key of
    Agon's config may follow by name: `**{"train.staleness": 1}`, or `arm="grpo"` for a baseline.

    `config`, without the data, and `notes`, what differs from TRL, can be read before `train` starts.
    """

    def __init__(
        self,
        model: str,
        reward_funcs: Function | Sequence[Function],
        args: Any = None,
        train_dataset: Rows | None = None,
        eval_dataset: Rows | None = None,
        *,
        peft_config: Any = None,
        **keys: Any,
    ) -> None:
        if refused := next((name for name in keys if name in NOT_HERE and keys[name] is not None), None):
            raise InputError(f"AgonTrainer takes no {refused}: {NOT_HERE[refused]}", fix=f"leave out {refused}=")
        if not isinstance(model, str):
            named = getattr(getattr(model, "config", None), "_name_or_path", None) or "Qwen/Qwen3-0.6B"
            raise InputError(f"model is a {type(model).__name__}, not a name", fix=f"give the name: model={named!r}")
        self.notes: list[str] = []
        self.run: RunDir | None = None
        """The run directory, once `train` has returned."""
        self.args = grpo_config(args, model)
        self._rewards, self._weights = self._judge_first(reward_funcs)
        self._rows = _sized("train_dataset", train_dataset)
        self._held_out = None if eval_dataset is None else _sized("eval_dataset", eval_dataset)
        self.config = self._config(model, peft_config, overrides_of(keys, "AgonTrainer", ARGUMENTS))

    def train(self, resume_from_checkpoint: bool | None = None, *, show: Show = "auto") -> RunDir:
        """Train the pair, or resume its run, and return the run directory, which is `args.output_dir`."""
        folder = Path(self.args.output_dir)
        if resume_from_checkpoint:
            self.run = train(folder, resume=True, reward=self._rewards, show=show)
            return self.run
        for note in self.notes if show == "auto" else []:
            print(f"note: {note}", file=sys.stderr)
        sizes = part_sizes(len(self._rows))
        self.run = train(
            self.config,
            train=self._rows,
            dev=sizes["dev"],
            held_out=sizes["held_out"] if self._held_out is None else self._held_out,
            reward=self._rewards,
            weights=self._weights,
            name=folder.name,
            out=folder.parent,
            show=show,
        )
        return self.run

    def _judge_first(self, functions: Function | Sequence[Function]) -> tuple[list[Function], list[float]]:
        """The functions with the one that decides what is right in front, and the weights of the others."""
        listed: list[Any] = list(functions) if isinstance(functions, list | tuple) else [functions]
        if not listed:
            raise InputError("reward_funcs is empty", fix="give the function that decides what is right")
        weights = self.args.reward_weights or [1.0] * len(listed)
        if len(weights) != len(listed):
            raise InputError(f"{len(weights)} reward_weights for {len(listed)} reward_funcs", fix="give one for each")
        names = [name_of(each) for each in listed]
        judging = [at for at, name in enumerate(names) if JUDGES.search(name.lower()) and "format" not in name.lower()]
        at = judging[0] if len(judging) == 1 else 0
        if weights[at] <= 0:
            fix = "give it a weight above 0, or put the function that decides what is right first"
            raise InputError(f"{names[at]} decides what is right, and its weight is {weights[at]}", fix=fix)
        if others := [name for name in names if name is not names[at]]:
            told = f"{names[at]} decides what is right (at least reward.right, 1); {', '.join(others)} is added to it"
            self.notes.append(told)
        rest = [each for each in range(len(listed)) if each != at]
        return [listed[at], *(listed[each] for each in rest)], [2 * weights[each] / weights[at] for each in rest]

    def _config(self, model: str, adapter: Any, overrides: Sequence[str]) -> Config:
        """The config for everything but the data; one ConfigError with every field that is refused."""
        written = Written()
        placeholder = {split: {"path": "rows.jsonl"} for split in ("train", "dev", "held_out")}
        values = {"schema": 1, "arm": "agon", "data": placeholder, "verifier": "math", "model.name": model}
        for key, value in values.items():
            _put(written, key, value, "AgonTrainer")
        for field, key, value in (*_carried(self.args, self._training_rows()), *_adapter(adapter)):
            _put(written, key, value, field)
        for place, text in (*_refused(self.args), *_refused_adapter(adapter)):
            written.report(Place(place), text)
        self.notes += _differences(self.args, adapter)
        return finished(written, "AgonTrainer", overrides)

    def _training_rows(self) -> int:
        """How many rows are left to learn from, once dev and held-out have theirs."""
        sizes = part_sizes(len(self._rows))
        taken = f"of {len(self._rows)} training rows {sizes['dev']} choose who drafts (dev)"
        if self._held_out is None:
            self.notes.append(f"{taken} and {sizes['held_out']} are for the final numbers (held-out)")
            return len(self._rows) - sizes["dev"] - sizes["held_out"]
        self.notes.append(f"{taken}; eval_dataset is for the final numbers (held-out)")
        return len(self._rows) - sizes["dev"]


def _put(written: Written, key: Key, value: Any, origin: str) -> None:
    at = tuple(key.split("."))
    written.put(at, value, {at: Place(origin)})


def _sized(name: str, rows: Any) -> Any:
    if isinstance(rows, Mapping) or not isinstance(rows, Sized) or isinstance(rows, str):
        raise InputError(f"{name} is a {type(rows).__name__}", fix=f"give {name}= a data set or a list of dicts")
    return rows


def _carried(args: Any, rows: int) -> Iterator[tuple[str, Key, Any]]:
    """Field, key and value of all that has a counterpart. `rows` is how many there are to train on."""

    def as_given(field: str, key: Key, value: Any) -> tuple[str, Key, Any]:
        return f"GRPOConfig.{field}", key, value

    for field, key in SAME.items():
        yield as_given(field, key, getattr(args, field))
    completions = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    problems = max(1, completions // args.num_generations)
    yield as_given("num_generations", "game.group_size", max(2, args.num_generations // 2))
    yield as_given("per_device_train_batch_size", "train.problems_per_step", problems)
    yield as_given("max_completion_length", "eval.max_completion_tokens", args.max_completion_length)
    yield as_given("max_grad_norm", "train.clip_norm", args.max_grad_norm or None)

    per_epoch = max(1, rows // problems)
    if args.max_steps > 0:  # as in TRL, it decides, however many epochs it takes
        yield as_given("max_steps", "train.max_steps", args.max_steps)
        yield as_given("max_steps", "train.epochs", args.max_steps)
        total = args.max_steps
    else:
        yield as_given("num_train_epochs", "train.epochs", _whole(args.num_train_epochs))
        total = int(per_epoch * args.num_train_epochs)
    kind = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    yield as_given("lr_scheduler_type", "train.schedule", kind.removesuffix("_with_warmup"))
    warmup = args.warmup_steps if args.warmup_steps < 1 else (args.warmup_steps - 0.5) / max(1, total)
    warmup = 0.0 if kind == "constant" else float(warmup)  # a share, of which the learner takes whole steps, rounded up
    yield as_given("warmup_steps", "train.warmup", warmup)

    every = _steps(args.save_strategy, args.save_steps, total)
    if every and args.save_steps != _default(args, "save_steps"):
        yield as_given("save_steps", "save.every", every)
    if args.save_total_limit is not None:
        yield as_given("save_total_limit", "save.keep", args.save_total_limit)
    if args.load_best_model_at_end:
        yield as_given("load_best_model_at_end", "save.pair", "best")
    if every := _steps(args.eval_strategy, args.eval_steps, total):
        yield as_given("eval_steps", "eval.points", math.ceil(total / every))
    elif str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "epoch":
        yield as_given("eval_strategy", "eval.points", math.ceil(total / per_epoch))
    if args.report_to:
        yield as_given("report_to", "report_to", [name for name in args.report_to if name != "none"])
    yield from _of_model(args)
    yield from _of_sampler(args)


def _of_model(args: Any) -> Iterator[tuple[str, Key, Any]]:
    given = dict(args.model_init_kwargs or {})
    here = "float32" if args.device.type == "cpu" else "bfloat16"
    yield "GRPOConfig.bf16", "model.dtype", "float16" if args.fp16 else here if args.bf16 else "float32"
    for name in ("torch_dtype", "dtype"):
        if (dtype := given.get(name, "auto")) != "auto":
            yield "GRPOConfig.model_init_kwargs", "model.dtype", str(dtype).removeprefix("torch.")
    if given.get("revision"):
        yield "GRPOConfig.model_init_kwargs", "model.revision", given["revision"]


def _of_sampler(args: Any) -> Iterator[tuple[str, Key, Any]]:
    """Engines on a GPU are vLLM's; on a CPU transformers draws, unless vLLM is asked for."""
    if not args.use_vllm and args.device.type == "cpu":
        yield "GRPOConfig.use_vllm", "sampler.engine", "hf"
        yield "GRPOConfig.use_vllm", "train.importance", "none"
        return
    yield "GRPOConfig.use_vllm", "sampler.engine", "vllm"
    correction = "token_truncate" if args.vllm_importance_sampling_correction else "none"
    yield "GRPOConfig.vllm_importance_sampling_correction", "train.importance", correction
    if args.use_vllm and args.vllm_mode == "server":
        host = "localhost" if args.vllm_server_host == "0.0.0.0" else args.vllm_server_host
        url = args.vllm_server_base_url or f"http://{host}:{args.vllm_server_port}"
        yield "GRPOConfig.vllm_server_base_url", "sampler.urls", [url]
    for field, key in (
        ("vllm_gpu_memory_utilization", "sampler.gpu_memory_utilization"),
        ("vllm_max_model_length", "sampler.max_model_len"),
        ("vllm_enable_sleep_mode", "sampler.sleep"),
    ):
        if getattr(args, field) != _default(args, field):
            yield f"GRPOConfig.{field}", key, getattr(args, field)
    if args.vllm_tensor_parallel_size > 1:
        size = {"tensor_parallel_size": args.vllm_tensor_parallel_size}
        yield "GRPOConfig.vllm_tensor_parallel_size", "sampler.options", size


def _adapter(adapter: Any) -> Iterator[tuple[str, Key, Any]]:
    if adapter is None:
        return
    yield "LoraConfig.r", "model.lora.rank", getattr(adapter, "r", None)
    yield "LoraConfig.lora_alpha", "model.lora.alpha", getattr(adapter, "lora_alpha", None)
    if targets := getattr(adapter, "target_modules", None):
        named = targets if isinstance(targets, str) else sorted(targets)
        yield "LoraConfig.target_modules", "model.lora.targets", named


def _refused(args: Any) -> Iterator[tuple[str, str]]:
    """Where a field has a value that Agon does not have, and what it does instead."""
    for field in fields(args):
        name, value = field.name, getattr(args, field.name)
        if name in ONLY:
            allowed = ONLY[name] if name != "steps_per_generation" else (args.gradient_accumulation_steps,)
            known = any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in allowed)
            reason = FIXED.get(name, "Agon has no counterpart")
        elif name in CARRIED | QUIET:
            continue
        else:
            known, reason = value == _default(args, name), "Agon does not know this field"
        if not known:
            yield f"GRPOConfig.{name}", f"cannot be {value!r}: {reason}"
    if args.num_generations < 4 or args.num_generations % 2:
        reason = "a pair draws as many drafts as challenges, at least two of each: write an even number from 4 on"
        yield "GRPOConfig.num_generations", f"cannot be {args.num_generations}: {reason}"
    if args.vllm_importance_sampling_mode not in ("token_truncate", _default(args, "vllm_importance_sampling_mode")):
        reason = "ratios are truncated token by token; write token_truncate"
        yield "GRPOConfig.vllm_importance_sampling_mode", f"cannot be {args.vllm_importance_sampling_mode!r}: {reason}"
    for name in args.model_init_kwargs or {}:
        if name not in {"dtype", "torch_dtype", "revision", "device_map", "attn_implementation", "use_cache"}:
            yield "GRPOConfig.model_init_kwargs", f"has no {name} in Agon: leave it out"


def _refused_adapter(adapter: Any) -> Iterator[tuple[str, str]]:
    if adapter is None:
        return
    if type(adapter).__name__ != "LoraConfig" or not is_dataclass(adapter):
        yield "peft_config", f"is a {type(adapter).__name__}; both policies are LoRA adapters: peft.LoraConfig(...)"
        return
    for field in fields(adapter):
        value = getattr(adapter, field.name)
        if field.name not in ADAPTER | ADAPTER_QUIET and value and value != _default(adapter, field.name):
            reason = ADAPTER_FIXED.get(field.name, "Agon has no counterpart")
            yield f"LoraConfig.{field.name}", f"cannot be {value!r}: {reason}"


def _differences(args: Any, adapter: Any) -> Iterator[str]:
    """What a script at TRL's defaults gets otherwise here, in sentences."""
    if adapter is None:
        yield (
            "without peft_config TRL trains all weights; here each policy is a LoRA adapter, for which "
            f"learning_rate {args.learning_rate:g} may be low (Agon's own default is 5e-5)"
        )
    elif not adapter.target_modules:
        yield "LoraConfig names no target_modules: every linear layer carries an adapter"
    if not args.use_vllm and args.device.type != "cpu":
        yield "completions are drawn by vLLM; without it Agon draws on a CPU only"
    if args.use_vllm and args.vllm_importance_sampling_mode != "token_truncate":
        yield (
            f"the gap between vLLM and the learner is corrected token by token, truncated at {TRUNCATE:g}, "
            f"and not by TRL's default {args.vllm_importance_sampling_mode}"
        )
    if args.beta and args.use_bias_correction_kl:
        yield "the KL term is TRL's with use_bias_correction_kl=False"


def _default(settings: Any, name: str) -> Any:
    """What a field of a dataclass is where nobody sets it."""
    field = next(field for field in fields(settings) if field.name == name)
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _whole(epochs: float) -> Any:
    return int(epochs) if float(epochs).is_integer() else epochs


def _steps(strategy: Any, steps: float | None, total: int) -> int | None:
    """Every how many steps, where a strategy counts them; below 1 it is a share of all."""
    if str(getattr(strategy, "value", strategy)) != "steps" or not steps:
        return None
    return max(1, round(steps * total)) if steps < 1 else int(steps)
