"""The audit: run a reward on its probes in killable processes, and report what it pays for.

    fault       golds refused, wrong answers paid, crashes, hangs, differences between calls, code that is run
    remark      partial credit for wrong answers, spellings refused by a reward that compares text, slow calls

A wrong answer counts when it is paid as much as the gold of its row; junk, a flood and the question count from half of
that on. What is paid less is partial credit, which is no fault. A reward that pays the form of a text rather than its
answer is audited with `form=True`: then only crashes, hangs, differences and code that is run are faults.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agon_judge.auditing.clock import Clock
from agon_judge.auditing.environment import Target
from agon_judge.auditing.findings import Found, judge_crashes, judge_differences, judge_payments
from agon_judge.auditing.probes import Probe, probes, wrap
from agon_judge.auditing.report import Audit, Finding
from agon_judge.auditing.trial import SENT, Call, Trial
from agon_judge.errors import InputError
from agon_judge.workers.system import available_cores


def audit(
    target: str | Callable[..., Any],
    rows: str | Path | Iterable[Mapping[str, Any]] | None = None,
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

    `target` is a reward function, also of a notebook's cell, or a name as the command takes it. `rows` are dicts with a
    question and a reference answer (a list of them, a data set, a DataFrame), or a JSONL, JSON or CSV file; `take` of
    them are tried. `template` says how an answer is written, such as `<answer>{}</answer>`; by default it is found out
    from the golds. `deadline` is in CPU seconds per call, and thirty times as many seconds of a clock.
    """
    given: dict[str, Any] = {}
    if not isinstance(target, str):
        if not callable(target):
            fix = "give a reward function, or a name such as 'reasoning-gym:coin_flip'"
            raise InputError(f"{target!r} is nothing that can be audited"[:200], fix=fix)
        given["function"], name = target, getattr(target, "__name__", type(target).__name__)
    else:
        name = str(Path(target).absolute()) if ".py:" in target else target
    if rows is not None and not isinstance(rows, str | Path):
        given["rows"] = _records(rows)
    if template is not None and "{}" not in template:
        raise InputError(f"the template {template!r} has no place for the answer", fix="write {} where it goes")
    if take < 1 or deadline <= 0:
        raise InputError("take and deadline must be above 0", fix="take=8, deadline=5")
    with tempfile.TemporaryDirectory(prefix="agon-audit-") as folder:
        about = Target(
            name,
            str(Path(rows).absolute()) if isinstance(rows, str | Path) else None,
            take,
            seed,
            gold,
            chat,
            dict(options or {}),
            _pickled(given, name, Path(folder) / "given") if given else None,
        )
        trial = Trial(about, split, Clock(deadline), workers or min(4, available_cores()), Path(folder))
        try:
            return _audit(trial, template, form, bound)
        finally:
            trial.close()


def _records(rows: Any) -> list[dict[str, Any]]:
    """Rows from Python: a DataFrame, a data set, a list of dicts."""
    fix = 'give dicts: [{"prompt": "What is 6 times 7?", "answer": "42"}, ...]'
    if hasattr(rows, "itertuples"):  # a DataFrame
        rows = rows.to_dict("records")
    if not isinstance(rows, Iterable):
        raise InputError(f"rows are {rows!r}, and no list of dicts"[:200], fix=fix)
    records = list(rows)
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"row {number} is {record!r} and no dict"[:200], fix=fix)
    if not records:
        raise InputError("there are no rows", fix=fix)
    return [dict(record) for record in records]


def _pickled(given: Mapping[str, Any], name: str, path: Path) -> str:
    """A file with what the processes that try a reward could not find by a name."""
    import cloudpickle

    try:
        path.write_bytes(cloudpickle.dumps(dict(given)))
    except Exception as error:  # an object may raise anything when it is copied
        raise InputError(
            f"{name} cannot be sent to the processes that try it: {type(error).__name__}: {error}",
            fix="put it into a .py file, and audit FILE.py:function; it may use no open file, lock or running engine",
        ) from error
    return str(path)


def _audit(trial: Trial, template: str | None, form: bool, bound: float) -> Audit:
    rows = trial.rows
    golds = [row["gold"] for row in rows if row["gold"] is not None]
    first = list[Call]()
    if template is None:
        template, first = trial.template()
    tried = [
        probe
        for index, row in enumerate(rows)
        for probe in probes(index, row["question"], row["gold"], golds, template)
    ]
    canary = trial.folder / "was-run"
    tried += [
        Probe(0, "code in an answer", "any", text, code)
        for code in (f"__import__('pathlib').Path({str(canary)!r}).touch()", f"open({str(canary)!r}, 'w')")
        for text in (wrap(template, code), code)
    ]
    # a reward that hangs on its golds ends the audit before the probes: then the first calls are all that there is
    calls = trial.run(dict.fromkeys(tried), "probes") + trial.run_long(template) or first
    found = Found()
    judge_payments(found, calls, [row["gold"] for row in rows], trial.full, form)
    judge_crashes(found, calls, stopped=trial.clock.gives_up)
    if canary.exists():
        code = next(call for call in calls if call.probe.kind == "code in an answer")
        found.fault("runs code that an answer contains", code)
    judge_differences(found, trial, [call for call in calls if len(call.probe.text) <= SENT and not call.crash])
    findings = found.findings(trial)
    times = sorted(call.seconds for call in calls)
    return Audit(
        target=trial.target.name if "/" not in trial.target.name else Path(trial.target.name).name,
        version=trial.version,
        rows=len(rows),
        calls=trial.clock.calls,
        template=template,
        seconds={"median": times[len(times) // 2], "most": times[-1]},
        findings=findings,
        bound=bound,
        hints=tuple(_hints(findings, len(rows) - len(golds), len(rows), trial.there)),
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
