"""An evaluation with two scorers and two epochs as inspect-ai 0.3.285 writes it: `python inspect_run.py`.

The model is inspect's own mock. Its count of tokens is replaced: it would download a tokenizer.
"""

from __future__ import annotations

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, system_message


async def one(*args: object, **more: object) -> int:
    return 1


replies = ["2", "I think that it is 5", "6", "It is 2", "4", "7"]
model = get_model("mockllm/model", custom_outputs=[ModelOutput.from_content("mockllm/model", text) for text in replies])
model.api.count_tokens = model.api.count_text_tokens = one
samples = MemoryDataset([Sample(input=f"What is {n} + {n}?", target=str(2 * n), id=n) for n in (1, 2, 3)])
task = Task(
    name="sums",
    dataset=samples,
    solver=[system_message("Be brief."), generate()],
    scorer=[match(numeric=True), includes()],
)
eval(task, model=model, display="none", log_dir=".", max_connections=1, epochs=2)
