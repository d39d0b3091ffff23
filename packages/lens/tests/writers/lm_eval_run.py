"""A task with two filters as lm-eval 0.4.13 writes its samples: `python lm_eval_run.py` leaves samples_*.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

TASK = r"""
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: task/test.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "sum is (\\d+)"}, {function: take_first}]}
  - {name: last, filter: [{function: regex, regex_pattern: "(\\d+)"}, {function: take_first}]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""


class Scripted(LM):
    """Adds two: right for 2 + 2 alone."""

    def loglikelihood(self, requests: Any) -> Any:
        raise TypeError("this task asks for texts only")

    def loglikelihood_rolling(self, requests: Any) -> Any:
        raise TypeError("this task asks for texts only")

    def generate_until(self, requests: Any) -> list[str]:
        given = [int(request.args[0].split()[2]) for request in requests]
        return [f"The sum is {n + 2}" if n % 2 else f"{n + 2}" for n in given]


Path("task").mkdir(exist_ok=True)
rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(6)]
Path("task/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
Path("task/sums.yaml").write_text(TASK)
found = simple_evaluate(
    model=Scripted(), tasks=["sums"], task_manager=TaskManager(include_path="task"), log_samples=True, bootstrap_iters=0
)
samples, tracker = found.pop("samples"), EvaluationTracker(output_path="out")
tracker.save_results_aggregated(results=found, samples=samples)  # it names the folder
tracker.save_results_samples(task_name="sums", samples=samples["sums"])
