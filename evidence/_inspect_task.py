"""Score rows of GSM8K with inspect-ai through a server: `python _inspect_task.py ROWS CAP`.

Runs in an environment that has inspect-ai and not necessarily Agon. The server is the one that AGON_BASE_URL names. The
last line is a list of {"reasoning", "content", "score"}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


def sample(row: dict[str, str]) -> Sample:
    return Sample(input=row["question"], target=row["answer"].rpartition("####")[2].strip())


def main() -> None:
    rows, cap = sys.argv[1], int(sys.argv[2])
    task = Task(dataset=json_dataset(rows, sample), solver=generate(), scorer=match(numeric=True))
    [log] = eval(
        task,
        model="openai-api/agon/agon",
        temperature=0,
        max_tokens=cap,
        extra_body={"agon": {"max_draft_tokens": cap}},
        max_connections=1,
        max_retries=0,
        display="none",
    )
    if log.status != "success":
        sys.exit(f"{log.status}: {log.error}")
    found = [
        {
            "reasoning": reasoning(each.output.message.content),
            "content": each.output.completion,
            "score": each.scores["match"].value,
        }
        for each in log.samples
    ]
    print(json.dumps(found))


def reasoning(content: Any) -> str:
    """What inspect-ai took for the reasoning of a message."""
    parts = [] if isinstance(content, str) else content
    return "".join(part.reasoning for part in parts if part.type == "reasoning")


if __name__ == "__main__":
    main()
