"""Two steps of rollouts through the writer of verl 0.9.1: `python verl_run.py` leaves 9.jsonl and 10.jsonl."""

from __future__ import annotations

from verl.trainer.ppo.ray_trainer import RayPPOTrainer

for step in (9, 10):
    asked = [f"user\nWhat is {n} + {n}?\nassistant\n" for n in (1, 2) for _ in range(4)]
    said = [f"It is {k}." for k in range(8)]
    right = [k in (0, 2) for k in range(8)]
    RayPPOTrainer._write_generations(
        inputs=asked,
        outputs=said,
        gts=["2"] * 4 + ["4"] * 4,
        scores=[float(each) for each in right],
        reward_extra_infos_dict={"acc": right},
        dump_path=".",
        global_steps=step,
    )
