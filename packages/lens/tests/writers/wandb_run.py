"""A table of TRL's columns as an offline run of wandb stores it: `python wandb_run.py` leaves wandb/."""

from __future__ import annotations

import wandb

NAMES = ["step", "prompt", "completion", "correct_reward", "advantage"]
rows = [
    [str(step), f"What is {n} + {n}?", f"{k}", float(k == 2), 1.5 if k == 2 else -0.5]
    for step in (1, 2)
    for n in (1, 2)
    for k in range(4)
]
with wandb.init(project="sums", mode="offline") as run:
    run.log({"completions": wandb.Table(columns=NAMES, data=rows)})
