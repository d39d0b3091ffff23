"""Draft and challenge as an environment of verifiers (v1): `vf-eval TASKSET --env.id agon_duel`.

Two seats play any v1 taskset. `challenge` gets the same task, with what the draft shows in its prompt, so that the
task's own rewards score both. A and B are two models of one server: adapters by name. It needs verifiers, which Agon
does not install; the rules are those of `agon.game`, which needs no torch. README.md.
"""

from __future__ import annotations

import verifiers.v1 as vf
from duel_rules import CONVERSION, peek_of_reply, verdict_of
from pydantic import Field

from agon.game.prompts import with_attempt
from agon.game.reward import conversion

__all__ = ["DuelEnv"]


class DuelConfig(vf.EnvConfig):
    draft: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    challenge: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    right: float = 1.0
    """A seat is right when its task pays it at least this."""
    bonus: float = Field(0.5, ge=0)
    """What a conversion pays: half of a right answer, as in the paper."""
    peek_chars: int = Field(8000, ge=1)
    """The longest peek."""


class DuelEnv(vf.Env[DuelConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        draft = await agents.draft.run(task)
        if not draft.ok:
            return  # a machine failed: there is nothing to challenge
        seen = peek_of_reply(draft.last_reply, self.config.peek_chars)
        challenge = await agents.challenge.run(task.with_data(prompt=challenge_prompt(task.data.prompt, seen)))
        challenge.info["peek"] = seen

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        seats = {trace.agent.name: trace for trace in episode.traces if trace.ok}
        if len(seats) < 2:
            return  # nothing is paid without both verdicts
        verdicts = {name: verdict_of(trace.reward, self.config.right) for name, trace in seats.items()}
        for name, trace in seats.items():
            trace.record_metric("right", verdicts[name].correct)
        won = conversion(verdicts["challenge"], verdicts["draft"])
        seats["challenge"].record_reward(CONVERSION, won, weight=self.config.bonus)


def challenge_prompt(prompt: str | list[vf.Message] | None, seen: str) -> str | list[vf.Message]:
    """The task's prompt with the peek below it; of several messages, below the last."""
    if isinstance(prompt, str):
        return with_attempt(prompt, seen)
    if not prompt or prompt[-1].role != "user" or not isinstance(prompt[-1].content, str):
        raise ValueError("agon_duel needs a task whose prompt is text, or messages that end in one of the user's")
    return [*prompt[:-1], prompt[-1].model_copy(update={"content": with_attempt(prompt[-1].content, seen)})]
