"""Duels over turns and tools: verifiers plays them (`agon_duel`), and the learner learns from its traces.

verifiers has an environment of its own, since its pins conflict with those of vLLM: it runs as a command here, and
leaves a `traces.jsonl` with the token ids, masks and log-probs of every turn. `read` makes rows of it, `step` is one
step of training. There is no loop, checkpoint or log besides: README.md shows ten lines that train.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duel_rules import CONVERSION, verdict_of

from agon.algorithm import score
from agon.engine.http_client import HTTPClient
from agon.errors import DataError, EngineError, RunError
from agon.game.rules import Game
from agon.protocols import Learner, Tokens, Update
from agon.types import Bout, Completion, Finish, Played, Policy, Problem, Prompt, Rollout, Stream, Version, content_id


@dataclass(frozen=True, slots=True)
class Arena:
    """Where duels are played: a server of the base with adapters, a taskset, and a Python that has verifiers."""

    python: Path
    """Of an environment with verifiers and agon-rl, where this folder is on PYTHONPATH."""
    url: str
    """A vLLM server on this machine, started as README.md says."""
    base: str
    """The folder or name of the base: its tokenizer renders the messages."""
    taskset: Mapping[str, Any]
    """A taskset as verifiers' config has it: {"id": MODULE, ...}."""
    problems: int = 1
    """Problems per step, drawn anew from the taskset; each is played by a group."""
    renderer: Mapping[str, Any] | None = None
    """verifiers' renderer, such as {"name": "qwen3"}; None chooses by the base."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the environment: right, bonus, peek_chars, draft, challenge."""
    at_once: int = 8
    """Duels that are played at the same time."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further variables of verifiers' process."""

    def play(self, seats: Mapping[str, Version], step: int, game: Game, folder: Path) -> Path:
        """Play a group of duels for each problem of a step, by verifiers' own command; the traces that it wrote."""
        sampling = {"temperature": game.sampling.temperature, "top_p": game.sampling.top_p}
        agents = {name: {**self.env.get(name, {}), "model": model} for name, model in seats.items()}
        client: dict[str, Any] = {"type": "train", "base_url": f"{self.url}/v1", "api_key_var": "AGON_API_KEY"}
        client |= {"renderer_model_name": self.base} | ({"renderer": dict(self.renderer)} if self.renderer else {})
        config = {
            "env": {**self.env, "id": "agon_duel", "taskset": dict(self.taskset), **agents},
            "model": seats["draft"],
            "client": client,
            "sampling": sampling | {"max_tokens": game.sampling.max_tokens},
            "select": {"shuffle": True, "seed": step, "limit": self.problems},
            "num_rollouts": game.group_size,
            "max_concurrent": self.at_once,
            "rich": None,
            "push": False,
            "output_dir": str(folder),
            "run": {"name": "duels"},
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "duels.json").write_text(json.dumps(config, indent=2))
        main = "from verifiers.v1.cli.eval.main import main; main()"
        command = [str(self.python), "-c", main, "@", str(folder / "duels.json")]
        done = subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, text=True)
        written = folder / "duels" / "traces.jsonl"
        if done.returncode or not written.exists():
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
            raise RunError(f"verifiers ended with {done.returncode}: {lines[-1][:300]}", fix=f"see {folder}")
        return written


@dataclass(frozen=True, slots=True)
class Duels:
    """What one step played, and how many duels were left out: a machine failed, or a harness rewrote its history."""

    played: Played
    failures: tuple[str, ...]


def step(learner: Learner, arena: Arena, game: Game, folder: Path) -> tuple[Duels, Update]:
    """One step: serve both adapters as they are, play, and learn. `folder` must be new."""
    number = learner.step
    names = {}
    for policy in Policy:
        place = folder.absolute() / policy.value
        names[policy] = Version.of(policy, number, learner.export(policy, place)[:12])
        _ask(arena.url, "load", names[policy], lora_path=str(place))
    drafter, challenger = game.roles_at(number)
    try:
        traces = arena.play({"draft": names[drafter], "challenge": names[challenger]}, number, game, folder)
    finally:
        for name in names.values():
            _ask(arena.url, "unload", name)
    duels = read(traces, number, game)
    return duels, learner.update(duels.played.streams)


def read(traces: Path, number: int, game: Game) -> Duels:
    """The bouts of a step from a `traces.jsonl` of `agon_duel`, paid and compared by the rules of the game."""
    groups: dict[str, list[Bout]] = {}
    failures = []
    for n, line in enumerate(traces.read_bytes().splitlines(), 1):
        try:
            episode = json.loads(line)
            group = groups.setdefault(episode["task"]["key"], [])
            bout = _bout(episode, len(group))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(f"{traces}, line {n} is not a duel: {error!r}", fix="play it with agon_duel") from error
        if isinstance(bout, str):
            failures.append(bout)
        else:
            group.append(bout)
    scored = [score(group, game) for group in groups.values() if group]
    bouts = tuple(bout for group in scored for bout in group)
    if len(bouts) <= len(failures):
        why = max(set(failures), key=failures.count) if failures else "none was played"
        raise RunError(f"{len(failures)} of {len(bouts) + len(failures)} duels failed: {why}", fix=f"see {traces}")
    seats = {(bout.draft.policy, bout.final.policy) for bout in bouts}
    if len(seats) != 1:
        raise DataError(f"{traces} has duels of different seats", fix="read the traces of one step at a time")
    ((drafter, challenger),) = seats
    assert drafter is not None
    assert challenger is not None
    drafts = tuple(tuple(bout.draft for bout in group) for group in scored)
    challenges = tuple(tuple(bout.final for bout in group) for group in scored)
    streams = Stream("standalone", drafter, drafts), Stream("competitive", challenger, challenges)
    return Duels(Played(number, drafter, challenger, bouts, *streams), tuple(failures))


def _bout(episode: Mapping[str, Any], index: int) -> Bout | str:
    """A duel, or why it has no verdict."""
    seats = {trace["agent"]["name"]: trace for trace in episode["traces"]}
    said = [*episode["errors"], *(error for trace in seats.values() for error in trace["errors"])]
    if said and not episode["ok"]:
        *_, cause = said[0]["message"].strip().splitlines() or [""]  # a traceback ends in it
        return f"{said[0]['type']}: {cause}"[:300]
    if not episode["ok"] or seats.keys() != {"draft", "challenge"}:
        return "a seat has no trace"
    data = episode["task"]["data"]
    question = data["prompt"] if isinstance(data["prompt"], str) else json.dumps(data["prompt"])
    problem = Problem(content_id(episode["task"]["key"]), question, str(data.get("answer", "")))
    rows = [_rollout(seats[name], problem, index) for name in ("draft", "challenge")]
    failed = [row for row in rows if isinstance(row, str)]
    if failed:
        return failed[0]
    draft, challenge = (row for row in rows if isinstance(row, Rollout))
    return Bout(draft, challenge, seats["challenge"]["info"]["peek"], rival=index)


def _rollout(trace: Mapping[str, Any], problem: Problem, index: int) -> Rollout | str:
    """One seat's trace as a row: all from its first sampled token on is the completion."""
    nodes = trace["nodes"]
    sampled = [n for n, node in enumerate(nodes) if node["sampled"]]
    path = [sampled[-1]]
    while (parent := nodes[path[0]].get("parent")) is not None:
        if not 0 <= parent < path[0]:
            raise ValueError(f"message {path[0]} follows message {parent}")
        path.insert(0, parent)
    if not set(sampled) <= set(path):
        return "a harness rewrote its history: not every turn is a prefix of the last"
    tokens = tokens_of([nodes[n] for n in path])
    version = Version(trace["agent"]["config"]["model"])
    paid = sum(reward["score"] * reward["weight"] for name, reward in trace["rewards"].items() if name != CONVERSION)
    right = bool(trace["metrics"]["right"])
    verdict = verdict_of(paid, right=paid if right else math.inf)  # the threshold is the environment's
    cut = trace["calls"][-1].get("finish_reason") == "length" or str(trace.get("stop_condition")).startswith("max_")
    last = nodes[sampled[-1]]["message"]
    thought = last.get("reasoning_content")
    text = (f"<think>{thought}</think>" if thought else "") + (last.get("content") or "")
    drawn = sum(tokens.sampled or ())
    finish: Finish = "length" if cut else "stop"
    completion = Completion(text, version, tokens.size - drawn, drawn, finish=finish, tokens=tokens)
    return Rollout(problem, index, version.policy, Prompt(()), completion, verdict)


def tokens_of(nodes: Sequence[Mapping[str, Any]]) -> Tokens:
    """The tokens of a conversation, message by message: what the policy did not draw is marked, and has no log-prob."""
    ids = [token for node in nodes for token in node["token_ids"]]
    marks = [bool(mark) for node in nodes for mark in node["mask"]]
    known = [value for node in nodes for value in node["logprobs"]]
    if not any(marks) or len(marks) != len(ids) or len(known) != sum(marks):
        raise ValueError("its turns carry no token ids and log-probs: set client.type to train")
    drawn = iter(known)
    logprobs = [next(drawn) if mark else math.nan for mark in marks]
    first = marks.index(True)
    return Tokens(tuple(ids[:first]), tuple(ids[first:]), tuple(logprobs[first:]), tuple(marks[first:]))


def _ask(url: str, action: str, name: Version, **more: str) -> None:
    """Load an adapter under its name, or unload it."""

    async def ask() -> None:
        client = HTTPClient(url, limit=120)
        try:
            reply = await client.send(f"/v1/{action}_lora_adapter", {"lora_name": name, **more})
        finally:
            await client.close()
        if not reply.ok:
            raise EngineError(
                f"{reply.url} answered {reply.status}: {reply.text[:200]}",
                fix="start vllm serve with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 --enable-lora, as README.md says",
            )

    asyncio.run(ask())
