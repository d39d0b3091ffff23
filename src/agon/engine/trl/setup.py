"""Our config in the terms of TRL, transformers and PEFT: arguments, base, optimizer, and the stubs TRL requires."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models
from torch import nn
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedTokenizerFast, Trainer, get_scheduler

from agon.config import Model, Train
from agon.engine.adapters import AdapterPair, build_pair
from agon.engine.dtypes import learner_dtype
from agon.engine.quantize import load_nf4
from agon.engine.safe_load import load_model
from agon.engine.trl.compat import GRPOConfig, is_flash_attn_2_available
from agon.engine.trl.row_attention import ROWS
from agon.engine.trl.shard import load_part
from agon.types import Policy

SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}
PATIENCE = 1800
"""Seconds that a collective may take. Processes meet before each, so none waits in one for another's play."""
FLASH_HEAD = 256
"""The largest head that flash_attention_2 has kernels for."""
OPTIMIZERS = {"adamw": "adamw_torch_fused", "sgd": "sgd"}


def trl_arguments(model: Model, train: Train, total_steps: int, optimizer: str, scratch: str) -> GRPOConfig:
    """Our config as TRL's. Batching is ours, so TRL's own sizes are set to the smallest legal values."""
    arguments = GRPOConfig(
        output_dir=scratch,
        seed=train.seed,
        max_steps=total_steps,
        per_device_train_batch_size=2,
        num_generations=2,
        gradient_accumulation_steps=1,
        optim=OPTIMIZERS[optimizer],
        learning_rate=train.learning_rate,
        lr_scheduler_type=SCHEDULES[train.schedule],
        warmup_steps=train.warmup,
        weight_decay=0.0,
        max_grad_norm=float("inf") if train.clip_norm is None else train.clip_norm,
        loss_type=train.loss,
        beta=0.0,
        temperature=train.temperature,
        max_completion_length=train.max_completion_tokens,
        router_aux_loss_coef=0.0,
        gradient_checkpointing=train.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        bf16=model.dtype == "bfloat16" and has_accelerator(),
        use_cpu=not has_accelerator(),
        ddp_timeout=PATIENCE,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    # else that of `accelerate launch`: fp16 there scales the loss, and nothing here would scale the gradient back
    arguments.mixed_precision = "bf16" if arguments.bf16 else "no"
    return arguments


def has_accelerator() -> bool:
    """Whether the learner has a device to run on; a Mac's is not used: nothing here was tried on it."""
    return torch.accelerator.is_available() and torch.accelerator.current_accelerator() != torch.device("mps")


def load_base(model: Model, path: str | None = None, parts: int | None = None) -> Any:
    """The base, from `path` if it is not where its name says; `parts`: this process's part of so many."""
    if model.quantize == "nf4":
        return load_nf4(model)
    path, dtype = path or model.name, getattr(torch, learner_dtype(model.dtype))
    if parts is not None:
        return load_part(path, dtype, revision=model.revision, processes=parts)
    return load_model(path, dtype, revision=model.revision)


def without_dropout(base: Any) -> None:
    """Turn off whatever dropout a base was published with: engines draw without it, so that the learner's log-probs
    would be those of a different policy, and different ones in every pass."""
    for module in base.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in [name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)]:
            setattr(module, name, 0.0)


def attention_of(model: Model, base: Any, device: torch.device) -> str:
    """The name by which transformers knows the attention that a config asks for."""
    if model.attention != "auto":
        return ROWS if model.attention == "rows" else model.attention
    widest = max(getattr(module, "head_dim", 0) for module in base.modules())
    flash = device.type == "cuda" and model.dtype == "bfloat16" and is_flash_attn_2_available()
    return "flash_attention_2" if flash and widest <= FLASH_HEAD else ROWS


def make_pair(base: Any, model: Model, seed: int) -> AdapterPair:
    """The adapters; their files name the base as the config does, never as a path of this machine's cache."""
    pair = build_pair(base, model.lora, model.init, seed)
    for config in pair.model.peft_config.values():
        config.base_model_name_or_path, config.revision = model.name, model.revision
    # PEFT has chosen its layers by it; TRL would round the adapters to bfloat16
    base.is_loaded_in_4bit = False
    return pair


def place(pair: AdapterPair, args: GRPOConfig) -> None:
    """Move the pair to its device and enable checkpointing, which the HF loop does only when it starts."""
    if not isinstance(pair.model.get_base_model(), FSDPModule):  # a base in parts is on its device, and stays there
        pair.model.to(args.device)
    if args.gradient_checkpointing:
        pair.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=args.gradient_checkpointing_kwargs)
        # it lets the embeddings require gradients, as TRL does; only reentrant checkpoints need that, and every pass
        # would compute gradients below the first adapter
        pair.model.disable_input_require_grads()


def make_optimizer(pair: AdapterPair, args: GRPOConfig) -> torch.optim.Optimizer:
    """TRL's optimizer over explicit lists, one group per policy: a scan of `requires_grad` would miss one of them."""
    kind, settings = Trainer.get_optimizer_cls_and_kwargs(args)
    groups = [{"params": pair.parameters(policy), "weight_decay": args.weight_decay} for policy in Policy]
    return kind(groups, **settings)


def make_scheduler(optimizer: torch.optim.Optimizer, args: GRPOConfig) -> Any:
    """The stock schedule with warmup, the same for both policies."""
    return get_scheduler(args.lr_scheduler_type, optimizer, args.get_warmup_steps(args.max_steps), args.max_steps)


def stub_tokenizer(pair: AdapterPair) -> PreTrainedTokenizerFast:
    """The tokenizer that TRL requires. No text enters the learner, so it knows padding and end only."""
    config = pair.model.config.get_text_config()
    pad = config.pad_token_id if config.pad_token_id is not None else 0
    end = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    vocabulary = {"<pad>": pad, "<end>": end if end not in (None, pad) else pad + 1}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>", unk_token="<pad>")
