"""The trial: a reward in killable processes, and what it says about each probe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agon_judge.auditing.clock import LOADING, PATIENCE, Clock
from agon_judge.auditing.environment import Target
from agon_judge.auditing.probes import LONGS, TEMPLATES, Expected, Probe, wrap
from agon_judge.errors import InputError, JudgeError
from agon_judge.workers.pool import Limits, Outcome, WorkerPool

MEMORY = 16 << 30
"""Bytes of address space of a worker: what a reward imports may reserve much."""
SENT = 4_000
"""Characters up to which a text goes through a worker's socket; a longer one goes through a file."""
CHUNK = 16
"""Calls that are submitted together."""


@dataclass
class Call:
    """A probe, and what the reward said about it."""

    probe: Probe
    reward: float | None = None
    crash: str = ""
    seconds: float = 0.0


class Trial:
    """The processes of an audit. The second pool is a process of its own, with a different hash seed."""

    def __init__(self, target: Target, split: str, clock: Clock, workers: int, folder: Path) -> None:
        self.target, self.folder, self.clock = target, folder, clock
        setup = json.dumps({"target": asdict(target), "split": split, "patience": clock.patience})
        limits = Limits(workers, clock.deadline, MEMORY, 2 * PATIENCE)
        self._pools = [
            WorkerPool(
                "agon_judge.auditing.worker:call", limits, setup=setup, environ={**os.environ, "PYTHONHASHSEED": seed}
            )
            for seed in ("0", "1")
        ]
        about = self._loaded(self._pools[0].submit("about", "0", "", ""))
        self.version, self.full, self.batch = about["version"], about["full"], about["batch"]
        asked = [self._pools[0].submit("row", str(index), "", "") for index in range(about["rows"])]
        self.rows = [self._loaded(future) for future in asked]
        self.there: int = about["there"]

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def run(
        self, some: Iterable[Probe], what: str = "", *, action: str = "score", turn: str = "", other: bool = False
    ) -> list[Call]:
        """Score probes; in the order in which they come, or backwards in the other process."""
        chosen, calls = list(some), list[Call]()
        if other:
            chosen.reverse()
        for start in range(0, len(chosen), CHUNK):
            if not self.clock.gives_up:
                chunk = chosen[start : start + CHUNK]
                futures = [self._submit(probe, action, turn, other) for probe in chunk]
                calls += [self._call(*pair) for pair in zip(chunk, futures, strict=True)]
                self.clock.say(what, len(calls), len(chosen))
        return calls[::-1] if other else calls

    def run_together(self, action: str, pairs: Sequence[tuple[int, str]]) -> dict[str, Any]:
        self.clock.calls += 1
        return self._reply(self._pools[0].submit(action, "0", json.dumps(pairs), "").result())

    def template(self) -> tuple[str, list[Call]]:
        """The plainest way to write an answer under which golds earn most, with the calls; LaTeX is put into a box."""
        golds = [(index, row["gold"]) for index, row in enumerate(self.rows) if row["gold"] is not None][:4]
        if not golds:
            return TEMPLATES[0], []
        earned, seen = list[float](), list[Call]()
        latex = any("\\" in gold for _, gold in golds)
        ordered = sorted(TEMPLATES, key=lambda template: "boxed" not in template) if latex else TEMPLATES
        for template in ordered:
            some = [Probe(i, "gold", "right", wrap(template, gold), gold) for i, gold in golds]
            calls = self.run(some, "finding the form of an answer")
            earned.append(sum(call.reward or 0.0 for call in calls))
            seen += calls
        return ordered[max(range(len(ordered)), key=lambda index: (earned[index], -index))], seen

    def run_long(self, template: str) -> list[Call]:
        """Long texts. Where a quarter of a text is scored in time, time grows with the square: slow, and no hang."""
        calls = list[Call]()
        for kind, body in LONGS.items():
            part = body[: len(body) // 4] + body[-1]
            for long, short in dict.fromkeys([(body, part), (wrap(template, body), wrap(template, part))]):
                # digits may be read as an answer
                expected: Expected = "any" if any(letter.isdigit() for letter in body) else "wrong"
                for call in self.run([Probe(0, kind, expected, long, body)], "long texts"):
                    if call.crash.startswith("hangs"):
                        self.clock.hangs -= 1  # the shorter text counts instead
                        (shorter,) = self.run([Probe(0, kind, "any", short, short)], "long texts")
                        if not shorter.crash.startswith("hangs"):
                            limit = f"{self.clock.deadline:g} CPU seconds"
                            crash = f"slow: no reward within {limit}, though a quarter of it has one"
                            call = replace(call, crash=crash)
                    calls.append(call)
        return calls

    def _submit(self, probe: Probe, action: str, turn: str, other: bool) -> Future[Outcome]:
        self.clock.calls += 1
        text = probe.text
        if len(text) > SENT and action == "score":
            path = self.folder / f"text{abs(hash(text))}"
            path.write_text(text, "utf-8")
            action, text = "file", str(path)
        return self._pools[other].submit(action, str(probe.row), text, turn)

    def _call(self, probe: Probe, future: Future[Outcome]) -> Call:
        reply = self._reply(future.result())
        return Call(probe, reply.get("reward"), reply.get("crash", ""), reply.get("seconds", 0.0))

    def _reply(self, outcome: Outcome) -> dict[str, Any]:
        if outcome.name == "timeout":
            return {"crash": self.clock.hang(), "seconds": self.clock.deadline}
        if outcome.name == "crashed":
            return {"crash": "ends its process"}
        if outcome.name == "infra":
            message = f"the audit cannot continue: {outcome.detail}"
            raise JudgeError(message, fix="see whether memory or processes ran out")
        reply: dict[str, Any] = json.loads(outcome.detail)
        return reply

    def _loaded(self, future: Future[Outcome]) -> dict[str, Any]:
        """What a target says about itself, or an error with the reason why it cannot be loaded."""
        try:
            outcome = future.result(LOADING)
        except FutureTimeout:
            what = f"{self.target.name} was not loaded within {LOADING:.0f} seconds"
            raise InputError(what, fix="see what it does when it is imported") from None
        if outcome.name not in ("about", "row"):
            try:
                refused = json.loads(outcome.detail)
            except ValueError:
                refused = {"message": f"{self.target.name} cannot be loaded: {outcome.detail}", "fix": ""}
            raise InputError(refused["message"], fix=refused["fix"])
        reply: dict[str, Any] = json.loads(outcome.detail)
        return reply
