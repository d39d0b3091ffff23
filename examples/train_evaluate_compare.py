"""Train a pair and a single policy at the same budget, evaluate both, and compare them: fifteen lines of Python.

python examples/train_evaluate_compare.py [OUT]
"""

import sys

import agon

out = sys.argv[1] if len(sys.argv) > 1 else "runs"
small = ["train.max_steps=4", "train.problems_per_step=4", "game.group_size=4", "eval.points=1"]
small += ["data.train.take=16", "data.dev.take=8", "data.held_out.take=16"]
pair = agon.train("configs/tabletop/agon.yaml", *small, out=out, name="pair")
alone = agon.train("configs/tabletop/grpo.yaml", *small, out=out, name="alone")
results = agon.evaluate(pair)
print(results)
print(agon.compare(agon.evaluate(alone), results))
