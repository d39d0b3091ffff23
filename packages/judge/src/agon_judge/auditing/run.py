"""The audit: run a reward on its probes in killable processes, and report what it pays for.

    fault       golds refused, wrong answers paid in full, crashes, hangs, differences between calls, code that is run
    remark      partial credit for wrong answers, spellings refused by a reward that compares text, slow calls

A wrong answer counts when it is paid as much as the gold of its row. What is paid less is partial credit, which is no
fault. A reward that pays the form of a text rather than its answer is audited with `form=True`: then only crashes,
hangs, differences and code that is run are faults.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agon_judge.auditing.environment import Target
from agon_judge.auditing.probes import LONGS, SPELLED, TEMPLATES, Expected, Probe, probes, tolerated, wrap
from agon_judge.errors import InputError, JudgeError
from agon_judge.workers.messages import Limits, Outcome
from agon_judge.workers.pool import WorkerPool
from agon_judge.workers.system import available_cores

LOADING = 600.0
"""Seconds in which a target must have been loaded."""
MEMORY = 16 << 30
"""Bytes of address space of a worker: what a reward imports may reserve much."""
SENT = 4_000
"""Characters up to which a text goes through a worker's socket; a longer one goes through a file."""
PATIENCE = 30
"""Deadlines that a call may take by the clock, if it uses no CPU time."""
CHUNK, HANGS = 16, 3
"""Calls that are submitted together, and hangs after which no more probes are tried: each takes its whole deadline."""
NEAR = 1e-9

Severity = Literal["fault", "remark"]


@dataclass(frozen=True, slots=True)
class Example:
    """The smallest text that shows a finding."""

    question: str
    gold: str | None
    text: str
    reward: float | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: on `rows` of the `of` rows that were tried."""

    kind: str
    severity: Severity
    rows: int
    of: int
    example: Example

    @property
    def share(self) -> float:
        return self.rows / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True)
class Audit:
    """What a reward pays for. `passed` is False where a fault is on more than the share `bound` of the rows."""

    target: str
    version: str
    rows: int
    calls: int
    template: str
    seconds: Mapping[str, float]
    findings: tuple[Finding, ...]
    bound: float = 0.0
    hints: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.severity == "fault" and each.share > self.bound)

    @property
    def passed(self) -> bool:
        return not self.faults

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


@dataclass
class Call:
    """A probe, and what the reward said about it."""

    probe: Probe
    reward: float | None = None
    crash: str = ""
    seconds: float = 0.0


@dataclass
class _Found:
    """Findings as they are collected: the rows by kind, and the smallest example of each."""

    calls: dict[tuple[str, Severity], list[Call]] = field(default_factory=lambda: defaultdict(list))
    details: dict[int, str] = field(default_factory=dict)

    def add(self, kind: str, severity: Severity, call: Call, detail: str = "") -> None:
        self.calls[kind, severity].append(call)
        self.details[id(call)] = detail or call.crash


def audit(
    target: str | Callable[..., Any],
    rows: str | Path | None = None,
    *,
    take: int = 8,
    seed: int = 0,
    split: str = "train",
    gold: str | None = None,
    template: str | None = None,
    chat: bool | None = None,
    form: bool = False,
    deadline: float = 2.0,
    bound: float = 0.0,
    workers: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Audit:
    """Run a reward on answers whose worth is known, and report what it pays for.

    `rows` is a JSONL, JSON or CSV file for a reward function; `take` rows of it are tried. `template` says how an
    answer is written, such as `<answer>{}</answer>`; by default it is found out from the golds. `deadline` is in CPU
    seconds per call, and thirty times as many seconds of a clock.
    """
    name = target if isinstance(target, str) else _name(target)
    if ".py:" in name:
        name = str(Path(name).absolute())
    if template is not None and "{}" not in template:
        raise InputError(f"the template {template!r} has no place for the answer", fix="write {} where it goes")
    if take < 1 or deadline <= 0:
        raise InputError("take and deadline must be above 0", fix="take=8, deadline=5")
    file = str(Path(rows).absolute()) if rows else None
    about = Target(name, file, take, seed, gold, chat, dict(options or {}))
    with tempfile.TemporaryDirectory(prefix="agon-audit-") as folder:
        work = _Work(about, split, deadline, workers or min(4, available_cores()), Path(folder))
        try:
            return _audit(work, template, form, bound)
        finally:
            work.close()


class _Work:
    """The processes of an audit. The second pool is a process of its own, with a different hash seed."""

    def __init__(self, target: Target, split: str, deadline: float, workers: int, folder: Path) -> None:
        self.target, self.folder, self.deadline = target, folder, deadline
        setup = json.dumps({"target": asdict(target), "split": split, "patience": PATIENCE * deadline})
        limits = Limits(workers, deadline, MEMORY, 2 * PATIENCE)
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
        self.calls = self.hangs = 0

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def run(self, some: Iterable[Probe], action: str = "score", turn: str = "", other: bool = False) -> list[Call]:
        """Score probes; in the order in which they come, or backwards in the other process."""
        chosen, calls = list(some), list[Call]()
        if other:
            chosen.reverse()
        for start in range(0, len(chosen), CHUNK):
            if self.hangs < HANGS:
                chunk = chosen[start : start + CHUNK]
                futures = [self._submit(probe, action, turn, other) for probe in chunk]
                calls += [self._call(*pair) for pair in zip(chunk, futures, strict=True)]
        return calls[::-1] if other else calls

    def run_together(self, action: str, pairs: Sequence[tuple[int, str]]) -> dict[str, Any]:
        self.calls += 1
        return self._reply(self._pools[0].submit(action, "0", json.dumps(pairs), "").result())

    def _submit(self, probe: Probe, action: str, turn: str, other: bool) -> Future[Outcome]:
        self.calls += 1
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
            self.hangs += 1
            return {"crash": f"hangs: no reward within {self.deadline:g} CPU seconds", "seconds": self.deadline}
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


def _audit(work: _Work, template: str | None, form: bool, bound: float) -> Audit:
    rows = work.rows
    golds = [row["gold"] for row in rows if row["gold"] is not None]
    first = list[Call]()
    if template is None:
        template, first = _template(work)
    tried = [
        probe
        for index, row in enumerate(rows)
        for probe in probes(index, row["question"], row["gold"], golds, template)
    ]
    canary = work.folder / "was-run"
    tried += [
        Probe(0, "code in an answer", "any", text, code)
        for code in (f"__import__('pathlib').Path({str(canary)!r}).touch()", f"open({str(canary)!r}, 'w')")
        for text in (wrap(template, code), code)
    ]
    # a reward that hangs on its golds ends the audit before the probes: then the first calls are all that there is
    calls = work.run(dict.fromkeys(tried)) + _run_long(work, template) or first
    found = _Found()
    full = _judge_payments(found, calls, [row["gold"] for row in rows], work.full, form)
    _judge_crashes(found, calls, stopped=work.hangs >= HANGS)
    if canary.exists():
        _add(found, "runs code that an answer contains", next(c for c in calls if c.probe.kind == "code in an answer"))
    _judge_differences(found, work, [call for call in calls if len(call.probe.text) <= SENT and not call.crash], full)
    findings = [_finding(work, kind, severity, some, found) for (kind, severity), some in found.calls.items()]
    times = sorted(call.seconds for call in calls)
    return Audit(
        target=work.target.name if "/" not in work.target.name else Path(work.target.name).name,
        version=work.version,
        rows=len(rows),
        calls=work.calls,
        template=template,
        seconds={"median": times[len(times) // 2], "most": times[-1]},
        findings=tuple(sorted(findings, key=lambda each: (each.severity, -each.share, each.kind))),
        bound=bound,
        hints=tuple(_hints(findings, len(rows) - len(golds), len(rows), work.there)),
    )


def _hints(findings: Sequence[Finding], without: int, rows: int, there: int) -> Iterator[str]:
    """What may have been meant otherwise, and what to type then."""
    kinds = {finding.kind for finding in findings}
    everywhere = {finding.kind for finding in findings if finding.severity == "fault" and finding.of == finding.rows}
    if rows < there:
        yield f"{rows} of {there} rows were tried; --take N tries more"
    if without:
        yield f"{without} of {rows} rows have no gold that is one text: less was tried there; --gold names the column"
    if any(kind.startswith("pays") and kind.endswith("for everything") for kind in kinds):
        yield 'if a right answer must be written in a way of its own, state it: --template \'{"result": "{}"}\''
        yield "if the gold is not itself a right answer, name a column of right answers: --gold COLUMN"
    if {"pays another row's gold", "pays junk", "pays a near miss"} <= everywhere:
        yield "if the reward is meant to pay for form, whatever the answer: --form"


def _template(work: _Work) -> tuple[str, list[Call]]:
    """The plainest way to write an answer under which golds earn most, with the calls; LaTeX is put into a box."""
    golds = [(index, row["gold"]) for index, row in enumerate(work.rows) if row["gold"] is not None][:4]
    if not golds:
        return TEMPLATES[0], []
    earned, seen = list[float](), list[Call]()
    latex = any("\\" in gold for _, gold in golds)
    ordered = sorted(TEMPLATES, key=lambda template: "boxed" not in template) if latex else TEMPLATES
    for template in ordered:
        calls = work.run(Probe(i, "gold", "right", wrap(template, gold), gold) for i, gold in golds)
        earned.append(sum(call.reward or 0.0 for call in calls))
        seen += calls
    return ordered[max(range(len(ordered)), key=lambda index: (earned[index], -index))], seen


def _run_long(work: _Work, template: str) -> list[Call]:
    """Long texts. Where a quarter of a text is scored in time, the time grows with the square: slow, and no hang."""
    calls = list[Call]()
    for kind, body in LONGS.items():
        part = body[: len(body) // 4] + body[-1]
        for long, short in dict.fromkeys([(body, part), (wrap(template, body), wrap(template, part))]):
            # digits may be read as an answer
            expected: Expected = "any" if any(letter.isdigit() for letter in body) else "wrong"
            for call in work.run([Probe(0, kind, expected, long, body)]):
                if call.crash.startswith("hangs"):
                    work.hangs -= 1  # the shorter text counts instead
                    (shorter,) = work.run([Probe(0, kind, "any", short, short)])
                    if not shorter.crash.startswith("hangs"):
                        crash = f"slow: no reward within {work.deadline:g} CPU seconds, though a quarter of it has one"
                        call = replace(call, crash=crash)
                calls.append(call)
    return calls


def _judge_payments(
    found: _Found, calls: list[Call], golds: Sequence[str | None], full: float | None, form: bool
) -> float:
    """Golds that are refused and wrong answers that are paid; returns the reward of a right answer."""
    rewards = [call.reward for call in calls if call.reward is not None]
    own = {call.probe.row: call.reward for call in calls if call.probe.kind == "gold"}
    paid_golds = [reward for reward in own.values() if reward is not None]
    if full is None:
        full = max(paid_golds, default=1.0)
    if form:
        return full
    if not rewards:  # a column that it misses, golds that it cannot read: nothing is known about what it pays
        silent = {call.probe.row: call for call in reversed(calls) if not call.crash}
        for call in silent.values():
            _add(found, "gives no verdict on any answer", call)
        return full
    lowest = min(rewards)
    middle = (full + lowest) / 2
    if own and full - lowest < NEAR:  # where all wrong answers crash, nothing is known about payments
        for row in {call.probe.row for call in calls if call.probe.expected == "wrong" and call.reward is not None}:
            own_calls = [call for call in calls if call.probe.row == row and call.reward is not None]
            _add(found, f"pays {full:g} for everything", min(own_calls, key=lambda call: len(call.probe.text)))
        return full
    respelled = [
        call.probe.answer
        for call in calls
        if call.probe.kind == SPELLED["number"] and call.reward is not None and call.reward > middle
    ]
    judged = {call.probe.row for call in calls if call.reward is not None}
    for call in calls:
        probe, reward = call.probe, call.reward
        mine = own.get(probe.row)
        wanted = full if mine is None or mine <= middle else min(mine, full)
        if probe.expected == "right" and not call.crash and (reward is None or reward <= middle):
            if probe.kind == "gold" and probe.row not in judged and judged:
                found.add("gives no verdict on any answer of a row", "remark", call)
            elif probe.kind == "gold":
                _add(found, "refuses the gold" if reward is not None else "gives no verdict on the gold", call)
            elif mine is not None and mine > middle:
                # a reward that pays one spelling of a number compares values; one that pays none compares text,
                # and so does one that only removes separators
                alike = [answer for answer in respelled if "." in answer or "." not in probe.answer]
                strict = probe.kind == SPELLED["words"] or (probe.kind == SPELLED["number"] and not alike)
                found.add(f"refuses the {probe.kind}", "remark" if strict else "fault", call)
        elif probe.expected == "wrong" and reward is not None and reward > middle and reward >= wanted - NEAR:
            if probe.kind == "near miss" and tolerated(probe.answer, golds[probe.row] or ""):
                found.add("pays a number near the gold", "remark", call)
                continue
            _add(found, f"pays {_words(probe.kind)}", call)
        elif probe.expected == "wrong" and reward is not None and reward > lowest + 0.2 * (full - lowest):
            found.add("pays a wrong answer in part", "remark", call)
    return full


def _words(kind: str) -> str:
    return "a long text" if kind in LONGS else {"near miss": "a near miss"}.get(kind, kind)


def _judge_crashes(found: _Found, calls: list[Call], stopped: bool) -> None:
    for call in calls:
        if call.crash.startswith("slow"):
            found.add("is slow on a long text", "remark", call)
        elif "surrogates not allowed" in call.crash:  # no tokenizer decodes to one; a log that is fetched may hold one
            found.add("raises on a lone surrogate", "remark", call)
        elif call.crash.startswith("hangs"):
            rest = f"; after {HANGS} hangs no more probes were tried" if stopped else ""
            _add(found, "hangs", call, call.crash + rest)
        elif call.crash:
            _add(found, "raises on the gold" if call.probe.kind == "gold" else "raises", call)


def _judge_differences(found: _Found, work: _Work, calls: list[Call], full: float) -> None:
    """The same text again, in a thread, in a process with a different hash seed, and in a batch of all rows."""
    kinds = {"gold", "near miss", "another row's gold", "junk", "several answers at once", "the question"}
    chosen, counted = list[Call](), Counter[tuple[int, str]]()
    for call in calls:
        counted[call.probe.row, call.probe.kind] += 1
        if call.probe.kind in kinds and counted[call.probe.row, call.probe.kind] <= 4:
            chosen.append(call)
    some = [call.probe for call in chosen]
    work.hangs = 0  # these texts have returned once: long ones that hang do not hide a difference
    places = {
        "gives a different reward when asked again": work.run(some, turn="again"),
        "gives a different reward in a thread": work.run(some, action="thread"),
        "gives a different reward in another process": work.run(some, other=True),
    }
    for kind, again in places.items():
        for call, second in zip(chosen, again, strict=False):
            if second.crash or not _equal(call.reward, second.reward):
                _add(found, kind, call, f"first {call.reward}, then {second.crash or second.reward}")
        if found.calls.get((kind, "fault")):
            return  # one difference explains the others
    firsts, spent = list[Call](), 0.0
    for call in sorted(chosen, key=lambda call: call.probe.kind != "gold"):  # the golds of all rows meet
        if len(call.probe.text) <= 500 and len(firsts) < 32 and spent + call.seconds <= work.deadline / 2:
            firsts.append(call)
            spent += call.seconds  # together they have one deadline
    batch = [("batch", "in a batch")] if work.batch else []
    for action, place in [*batch, ("threads", "beside other threads")]:
        if len(firsts) < 2 or any(severity == "fault" and "different reward" in kind for kind, severity in found.calls):
            return
        reply = work.run_together(action, [(call.probe.row, call.probe.text) for call in firsts])
        rewards = reply.get("rewards") or [None] * len(firsts)
        for call, reward in zip(firsts, rewards, strict=True):
            if not _equal(call.reward, reward):
                detail = f"alone {call.reward}, {place} {reply.get('crash') or reward}"
                _add(found, f"gives a different reward {place}", call, detail)


def _equal(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) < 1e-6)


def _add(found: _Found, kind: str, call: Call, detail: str = "") -> None:
    found.add(kind, "fault", call, detail)


def _finding(work: _Work, kind: str, severity: Severity, calls: list[Call], found: _Found) -> Finding:
    smallest = min(calls, key=lambda call: (len(call.probe.text), call.probe.row))
    row = work.rows[smallest.probe.row]
    text = smallest.probe.text if len(smallest.probe.text) <= 500 else f"{smallest.probe.kind}"
    detail = found.details.get(id(smallest), "")
    if kind == "pays a wrong answer in part":
        most = max(calls, key=lambda call: call.reward or 0.0)
        detail = f"at most {most.reward:g}, for {most.probe.answer[:60]!r}"
    example = Example(row["question"][:500], row["gold"], text, smallest.reward, detail)
    return Finding(kind, severity, len({call.probe.row for call in calls}), len(work.rows), example)


def _name(function: Callable[..., Any]) -> str:
    """A function as FILE:name, by which another process finds it."""
    name, file = getattr(function, "__qualname__", ""), inspect.getsourcefile(inspect.unwrap(function))
    if not name.isidentifier() or file is None:
        raise InputError(f"{function!r} is not a function of a file", fix="define it at the top of a .py file")
    return f"{file}:{name}"
