"""Episodes of two seats as verifiers 0.4.0 writes them in training: `python verifiers_run.py` leaves traces.jsonl.

Replies are scripted. Tasks score them, and `append_episode` writes them. Advantages are stamped on the sampled nodes as
a trainer such as prime-rl does: reward minus the group's mean.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import fmean

import verifiers.v1 as vf
from verifiers.v1.episode import EnvInfo, Episode, GroupInfo, TrainRunInfo, TrainWorkInfo
from verifiers.v1.trace import TraceTask
from verifiers.v1.utils.trace_store import append_episode


class SumData(vf.TaskData):
    answer: int


class SumTask(vf.Task[SumData]):
    @vf.reward
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))

    @vf.reward(weight=0.1)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 10)


def trace_of(task: SumTask, seat: str, messages: list[vf.Message]) -> vf.Trace:
    """A trace of messages of which those of the assistant were sampled."""
    asked = vf.UserMessage(content=str(task.data.prompt))
    nodes = [vf.MessageNode(message=asked, token_ids=[1, 2], mask=[False, False])]
    for message in messages:
        drawn = isinstance(message, vf.AssistantMessage)
        more = {"token_ids": [3, 4], "mask": [True, True], "logprobs": [-0.5, -0.1]} if drawn else {}
        nodes.append(vf.MessageNode(parent=len(nodes) - 1, sampled=drawn, message=message, **more))
    agent = vf.AgentInfo(name=seat, config=vf.AgentConfig(model="scripted"))
    described = TraceTask(type="SumTask", data=task.data)
    return vf.Trace(task=described, agent=agent, nodes=nodes, is_completed=True, ok=True)


def replies(right: str, wrong: str, n: int) -> list[list[vf.Message]]:
    """Four rollouts: right after a tool, wrong, right in many words, and the same wrong reply again."""
    call = vf.AssistantMessage(content="", tool_calls=[vf.ToolCall(id="c1", name="add", arguments=f'{{"a": {n}}}')])
    told = vf.ToolMessage(tool_call_id="c1", content=right)
    return [
        [call, told, vf.AssistantMessage(content=right, reasoning_content="I used the tool.")],
        [vf.AssistantMessage(content=wrong)],
        [vf.AssistantMessage(content=f"After some thought: {right}")],
        [vf.AssistantMessage(content=wrong)],
    ]


async def main() -> None:
    folder, lock = Path(), asyncio.Lock()
    for step in range(2):
        for n in (2, 3):
            task = SumTask(SumData(idx=n, prompt=f"What is {n} + {n}?", answer=2 * n))
            drafts = [trace_of(task, "draft", messages) for messages in replies(str(2 * n), "7", n)]
            read = task.with_data(prompt=f"{task.data.prompt} A rival drafted an answer.")
            challenges = [trace_of(read, "challenge", [vf.AssistantMessage(content=str(2 * n))]) for _ in drafts]
            for traces, scorer in ((drafts, task), (challenges, read)):
                for trace in traces:
                    await scorer.score(trace)
                mean = fmean(trace.reward for trace in traces)
                for trace in traces:
                    for node in trace.nodes:
                        if node.sampled:
                            node.advantages = [trace.reward - mean] * 2
            if step == 1 and n == 3:
                challenges[0].ok = False  # a harness that failed
            for draft, challenge in zip(drafts, challenges, strict=True):
                work = TrainWorkInfo(step=step)
                episode = Episode(
                    env=EnvInfo(id="duel"),
                    task=draft.task,
                    group=GroupInfo(id=f"{step}-{n}"),
                    run=TrainRunInfo(id="run", work=work),
                    traces=[draft, challenge],
                    ok=True,
                )
                await append_episode(folder, episode, lock)


asyncio.run(main())
