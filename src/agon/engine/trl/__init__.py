"""TRL's GRPO trainer as the learner: one base, two adapters, one optimizer step."""
