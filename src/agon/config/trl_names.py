"""What people from TRL type: fields of its GRPOConfig that have a different name here, or no key at all; short names.

Fields with the same name, such as `learning_rate`, are found as misspelt keys are.
"""

from __future__ import annotations

from agon.config.keys import names

KEYS = {
    "num_generations": "game.group_size (half of it: as many drafts, then as many challenges)",
    "per_device_train_batch_size": "train.problems_per_step (of all devices together)",
    "gradient_accumulation_steps": "train.problems_per_step (of all devices together)",
    "num_train_epochs": "train.epochs",
    "lr_scheduler_type": "train.schedule",
    "warmup_ratio": "train.warmup",
    "warmup_steps": "train.warmup (a share of all steps)",
    "max_grad_norm": "train.clip_norm",
    "loss_type": "train.loss",
    "max_completion_length": "train.max_completion_tokens",
    "vllm_importance_sampling_correction": "train.importance",
    "vllm_importance_sampling_mode": "train.importance",
    "use_vllm": "sampler.engine (vllm or hf)",
    "vllm_server_base_url": "sampler.urls",
    "vllm_gpu_memory_utilization": "sampler.gpu_memory_utilization",
    "vllm_max_model_length": "sampler.max_model_len",
    "vllm_enable_sleep_mode": "sampler.sleep",
    "reward_weights": "reward.weights (of reward.terms: a right answer is always worth 2)",
    "save_steps": "save.every",
    "save_total_limit": "save.keep",
    "eval_steps": "eval.points (how many in all)",
    "bf16": "model.dtype (bfloat16, float16 or float32)",
}
"""Our key for a field of TRL, with a remark where its values mean something different."""
SHORT = {
    "lr": "train.learning_rate",
    "batch_size": "train.problems_per_step",
    "num_epochs": "train.epochs",
    "kl_coef": "train.beta",
    "max_tokens": "train.max_completion_tokens",
    "max_new_tokens": "train.max_completion_tokens",
    "lora_r": "model.lora.rank",
    "lora_alpha": "model.lora.alpha",
    "model": "model.name",
    "model_name_or_path": "model.name",
    "dataset_name": "data.train.preset (or data.train.path for a file)",
}
"""The same for names that other trainers and command lines use."""
FIXED = {
    "epsilon": "ratios are clipped at 0.2",
    "epsilon_high": "ratios are clipped at 0.2 on both sides",
    "delta": "ratios are clipped at 0.2 on both sides",
    "num_iterations": "each batch is used for one update",
    "steps_per_generation": "each batch is used for one update; leave it out",
    "importance_sampling_level": "ratios are taken token by token",
    "vllm_importance_sampling_clip_max": "ratios are truncated at 3",
    "scale_rewards": "rewards are scaled by the group's standard deviation",
    "multi_objective_aggregation": "rewards are summed, then scaled",
    "mask_truncated_completions": "a truncated completion is wrong, and counted",
    "top_entropy_quantile": "every token is learned from",
    "sync_ref_model": "the reference is the frozen base",
    "optim": "the optimizer is AdamW",
    "weight_decay": "weight decay is 0",
    "adam_beta1": "AdamW has 0.9, 0.999 and 1e-8",
    "adam_beta2": "AdamW has 0.9, 0.999 and 1e-8",
    "adam_epsilon": "AdamW has 0.9, 0.999 and 1e-8",
    "top_p": "training draws from the whole distribution; eval.top_p is for evaluation",
    "top_k": "training draws from the whole distribution",
    "min_p": "training draws from the whole distribution",
    "repetition_penalty": "training draws from the whole distribution",
    "generation_kwargs": "training draws from the whole distribution, at train.temperature",
    "shuffle_dataset": "problems are shuffled by train.seed",
    "trust_remote_code": "no code of a base is run",
    "push_to_hub": "nothing is uploaded; afterwards: hf upload NAME RUN/pair",
    "full_determinism": "every random choice follows from the seed; kernels are PyTorch's own",
    "metric_for_best_model": "the best checkpoint is the one with most right answers on dev",
    "deepspeed": "the learner is one process; train.gpus=K shares its work",
    "fsdp": "the learner is one process; train.gpus=K shares its work",
    "logging_steps": "every step is logged",
    "log_completions": "every bout is kept, and `agon view RUN` shows them",
    "output_dir": "runs are written to --out DIR, each under its --name",
    "run_name": "a run is named with --name",
    "resume_from_checkpoint": "resume with: agon train RUN --resume",
}
"""What Agon does where it has no key."""


def trl_hint(key: tuple[str, ...]) -> str | None:
    """What to write for a name from elsewhere; None for any other key. A key of the same section comes first."""
    *section, word = key
    if word in FIXED:
        return f"Agon has no such key: {FIXED[word]}"
    known = KEYS | SHORT
    if word not in known:
        return None
    ours, space, remark = known[word].partition(" ")
    beside = ".".join((*section, ours.split(".")[-1]))
    return f"in Agon this is {beside if beside in names() else ours}{space}{remark}"
