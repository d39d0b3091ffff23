"""An evaluation of a tool environment as verifiers 0.3.1 writes it: `python verifiers_v0_run.py` leaves results.jsonl.

The client's one network call is scripted; everything else is verifiers' own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion


class Scripted(vf.OpenAIChatCompletionsClient):
    """Calls the tool, then gives its result; every third time it gives up."""

    def __init__(self) -> None:
        super().__init__(AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1"))
        self.answers = 0

    async def get_native_response(self, prompt: Any, *rest: Any, **more: Any) -> ChatCompletion:
        last = prompt[-1]
        if last["role"] == "tool":
            self.answers += 1
            return reply(f"The sum is {last['content']}" if self.answers % 3 else "No idea, sorry about that")
        n = int(last["content"].split()[2])
        call = {"name": "add", "arguments": json.dumps({"a": n, "b": n})}
        return reply("", [{"id": "c1", "type": "function", "function": call}])


def reply(text: str, calls: list[Any] | None = None) -> ChatCompletion:
    message = {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted"}
    return ChatCompletion.model_validate({**head, "choices": [choice], "usage": usage})


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def text_of(completion: Any) -> str:
    last = completion[-1]
    return str(last["content"] if isinstance(last, dict) else last.content)


def says(completion: Any, answer: str) -> float:
    return float(answer in text_of(completion))


def short(completion: Any) -> float:
    return float(len(text_of(completion)) < 14)


data = Dataset.from_list([{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in (2, 3, 4)])
rubric = vf.Rubric(funcs=[says, short], weights=[1.0, 0.2])
env = vf.ToolEnv(tools=[add], max_turns=4, dataset=data, rubric=rubric)
env.evaluate_sync(
    client=Scripted(),
    model="scripted",
    num_examples=3,
    rollouts_per_example=4,
    results_path=Path("results"),
    save_results=True,
)
