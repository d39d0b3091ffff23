"""A v1 taskset of verifiers: a single reply is put into a trace, and `task.score` scores it.

No harness, no runtime and no network are used, so only rewards that read the trace alone can be audited. A row's gold
is the field of its data that is called so (`answer`, `solution`, ...).
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import itertools
from importlib.metadata import version
from typing import Any

from agon_judge.auditing.environment import Row, Score, Target
from agon_judge.errors import InputError
from agon_judge.rewards import GOLDS


class VerifiersTaskset:
    def __init__(self, target: Target, module: str) -> None:
        try:
            import verifiers.v1 as vf
        except ImportError as error:
            fix = "pip install 'verifiers>=0.4'"
            raise InputError(f"verifiers with its v1 interface cannot be imported: {error}", fix=fix) from error
        self._vf, self._target, self.version = vf, target, f"verifiers {version('verifiers')}"
        try:
            home = importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"cannot import {module}: {error}", fix="install it, or add it to PYTHONPATH") from error
        kinds = [
            thing
            for thing in vars(home).values()
            if isinstance(thing, type) and issubclass(thing, vf.Taskset) and thing.__module__.startswith(module)
        ]
        if len(kinds) != 1:
            names = ", ".join(kind.__name__ for kind in kinds) or "none"
            raise InputError(f"{module} must have one Taskset; it has {names}", fix="name a module with one taskset")
        self._taskset = kinds[0](_config_of(kinds[0], vf)(id=module, **target.options))

    def rows(self, split: str) -> list[Row]:
        return [
            Row(_question(task.data), self._gold(task.data), task)
            for task in itertools.islice(self._taskset, self._target.take)
        ]

    def score(self, row: Row, text: str) -> Score:
        trace = self._trace(row.payload, text)
        asyncio.run(row.payload.score(trace))
        terms = {name: float(reward.score) for name, reward in trace.rewards.items() if reward is not None}
        return Score(float(trace.reward) if terms else None, terms)

    def needs(self, row: Row) -> str:
        """What scoring a task takes besides a reply; empty when nothing. Without it, verifiers skips such rewards."""
        task = row.payload
        if task.NEEDS_CONTAINER:
            return "a container"
        if self._taskset.toolsets(self._taskset.config) or task.toolsets(task.config):
            return "tools"
        scores = [*task.hooks("reward"), *(judge.score for judge in task.plugged_judges())]
        wanted = (inspect.signature(score).parameters.get("runtime") for score in scores)
        return "a runtime" if any(each and each.default is each.empty for each in wanted) else ""

    def _gold(self, data: Any) -> str | None:
        names = [self._target.gold] if self._target.gold else GOLDS
        found = next((getattr(data, name) for name in names if hasattr(data, name)), None)
        return None if found is None else str(found)

    def _trace(self, task: Any, text: str) -> Any:
        """A trace of one sampled reply."""
        vf, nodes = self._vf, []
        if task.data.system_prompt:
            nodes.append(vf.MessageNode(message=vf.SystemMessage(content=task.data.system_prompt)))
        asked = vf.UserMessage(content=task.data.prompt_text)
        nodes.append(vf.MessageNode(parent=len(nodes) - 1 if nodes else None, message=asked))
        reply = vf.AssistantMessage(content=text)
        nodes.append(vf.MessageNode(parent=len(nodes) - 1, sampled=True, message=reply))
        who = vf.AgentInfo(name="audited", config=vf.AgentConfig(model="none"))
        return vf.Trace(task=vf.TraceTask(type=type(task).__name__, data=task.data), agent=who, nodes=nodes)


def _question(data: Any) -> str:
    """What a model is asked: the system prompt, where there is one, often says how to answer."""
    return "\n\n".join(text for text in (data.system_prompt, data.prompt_text) if text)


def _config_of(kind: Any, vf: Any) -> Any:
    """The config class of a taskset: the second argument of `vf.Taskset[Task, Config]`."""
    for base in getattr(kind, "__orig_bases__", ()):
        for argument in getattr(base, "__args__", ()):
            if isinstance(argument, type) and issubclass(argument, vf.TasksetConfig):
                return argument
    return vf.TasksetConfig
