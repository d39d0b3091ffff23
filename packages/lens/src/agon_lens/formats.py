"""Files whose lines are not rows: verifiers and prime-rl, inspect, lm-eval, Agon. Each line becomes rows.

A row has `problem`, `prompt`, `completion`, its rewards by name and, where the file says them, `step`, `seat`, `gold`,
`truncated`, `advantage` and `tokens`. A rollout that failed has no reward: a failure is not a wrong answer. Nothing is
checked here: a line of other types raises, and `Place` says where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

LogLine = Mapping[str, Any]
"""A line or row of a log: a value by column."""
LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Values of inspect's scorers that are not numbers: correct, incorrect, partial, no answer."""
STAMP = re.compile(r"_\d{4}-\d{2}-\d{2}T[\d.-]+$")
"""What lm-eval adds to the name of a file: when it was written."""
CUT = {"length", "max_tokens", "model_length"}
"""Why a completion ended when it was truncated."""
AGON = {"problem_id", "rival", "draft_reward_correctness", "challenge_reward_correctness"}
"""Columns by which a line is one of Agon's own bouts."""
LONG = ("_text", "_detail", "_prompt", "peek", "question")
"""Endings of the columns of a bout that hold texts."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: how its lines are known, what rows they hold, and which columns are what."""

    name: str
    keys: frozenset[str]
    rows: Callable[[LogLine, str], Iterator[dict[str, Any]]]
    """The rows of a line; the second argument is the name of its file."""
    columns: Mapping[str, Any]
    note: str = ""
    """What a reader should know about the numbers."""


def format_of(line: LogLine) -> Format | None:
    """What wrote a line; None for rows that are read as they are."""
    return next((known for known in FORMATS if known.keys <= line.keys()), None)


# -- verifiers v1 and prime-rl: an episode per line, with one trace for every agent ------------------------------------


def _episode(line: LogLine, file: str) -> Iterator[dict[str, Any]]:
    run, task = line.get("run") or {}, line.get("task") or {}
    group, step = (line.get("group") or {}).get("id"), (run.get("work") or {}).get("step")
    for trace in line["traces"]:  # an evaluation has no steps
        yield {**({} if step is None else {"step": step}), **_trace_row(trace), "problem": group or _task_name(task)}


def _trace(line: LogLine, file: str) -> Iterator[dict[str, Any]]:
    yield {**_trace_row(line), "problem": _task_name(line.get("task") or {})}


def _task_name(task: LogLine) -> Any:
    """Its key; tasks that nobody dispatched have none."""
    return task.get("key") or (task.get("data") or {}).get("prompt")


def _trace_row(trace: LogLine) -> dict[str, Any]:
    """A trace is a graph of messages: the path to the last sampled one is shown."""
    nodes = trace.get("nodes") or []
    at = next((k for k in range(len(nodes) - 1, -1, -1) if nodes[k].get("sampled")), len(nodes) - 1)
    path = list[LogLine]()
    while at is not None and 0 <= at < len(nodes) and len(path) < len(nodes):
        path.insert(0, nodes[at])
        at = nodes[at].get("parent")
    first = next((k for k, node in enumerate(path) if node.get("sampled")), len(path))
    messages = [node.get("message") or {} for node in path]
    rewards = trace.get("rewards") or {}
    known = [paid["score"] * paid.get("weight", 1.0) for paid in rewards.values() if paid]
    data, calls = (trace.get("task") or {}).get("data") or {}, trace.get("calls") or []
    credit = [value for node in path if node.get("sampled") for value in node.get("advantages") or ()]
    return {
        "seat": (trace.get("agent") or {}).get("name"),
        "prompt": messages[:first],
        "completion": messages[first:],
        "gold": data.get("answer"),
        "reward": sum(known) if trace.get("ok", True) and known else None,
        **{f"reward.{name}": paid and paid["score"] * paid.get("weight", 1.0) for name, paid in rewards.items()},
        "truncated": calls[-1].get("finish_reason") in CUT if calls else None,
        "advantage": fmean(credit) if credit else None,
        "tokens": trace.get("num_output_tokens"),
    }


# -- verifiers v0: a rollout per line ----------------------------------------------------------------------------------


def _result(line: LogLine, file: str) -> Iterator[dict[str, Any]]:
    usage = line.get("token_usage") or {}
    yield {
        **(line.get("metrics") or {}),
        "problem": line["example_id"],
        "prompt": line.get("prompt"),
        "completion": line.get("completion"),
        "gold": line.get("answer"),
        "reward": None if line.get("error") else line.get("reward"),
        "truncated": line.get("is_truncated"),
        "tokens": usage.get("output_tokens"),
    }


# -- inspect: a sample per file of an archive, once for every epoch ----------------------------------------------------


def _sample(line: LogLine, file: str) -> Iterator[dict[str, Any]]:
    attached, messages = line.get("attachments") or {}, line.get("messages") or []
    messages = [{**each, "content": _attached(each.get("content"), attached)} for each in messages]
    first = next((k for k, each in enumerate(messages) if each.get("source") == "generate"), len(messages))
    choices = (line.get("output") or {}).get("choices") or [{}]
    scores = dict(_scores(line.get("scores") or {}))
    letters = [score.get("value") for score in (line.get("scores") or {}).values()][:1]
    yield {
        "problem": line["id"],
        "prompt": messages[:first] or line.get("input"),
        "completion": messages[first:],
        "gold": line.get("target"),
        **({} if line.get("error") else scores),
        "correct": letters[0] == "C" if letters and letters[0] in ("C", "I") else None,
        "truncated": choices[0].get("stop_reason") in CUT,
        "tokens": sum(used.get("output_tokens", 0) for used in (line.get("model_usage") or {}).values()) or None,
    }


def _scores(scores: LogLine) -> Iterator[tuple[str, float | None]]:
    for name, score in scores.items():
        value = score.get("value")
        parts = {f"score.{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else None
        for column, part in (parts or {f"score.{name}": value}).items():
            number = LETTERS.get(part, part) if isinstance(part, str) else part
            if number is None or isinstance(number, int | float):
                yield column, number


def _attached(content: Any, attached: LogLine) -> Any:
    """Long texts are kept once in a sample, and named where they are used."""
    if isinstance(content, str) and content.startswith("attachment://"):
        return attached.get(content.removeprefix("attachment://"), content)
    return content


# -- lm-eval: a document per line, once for every filter ---------------------------------------------------------------


def _document(line: LogLine, file: str) -> Iterator[dict[str, Any]]:
    asked, resps = line.get("arguments") or {}, line.get("resps") or []
    first: Any = next(iter(asked.values()), None) if isinstance(asked, dict) else None
    drawn = resps[0] if len(resps) == 1 and isinstance(resps[0], list) else resps
    named = line.get("metrics") or []
    options = first.get("arg_1") if isinstance(first, dict) else None
    yield {
        "file": STAMP.sub("", file),
        "problem": line["doc_id"],
        "filter": line.get("filter"),
        "prompt": first.get("arg_0") if isinstance(first, dict) else None,
        "completion": "\n\n---\n\n".join(drawn) if all(isinstance(text, str) for text in drawn) else drawn,
        "gold": line.get("target"),
        **{f"score.{name}": line[name] for name in named if isinstance(line.get(name), int | float)},
        **({"limit": options["max_gen_toks"]} if isinstance(options, dict) and "max_gen_toks" in options else {}),
    }


# -- Agon: a bout per line ---------------------------------------------------------------------------------------------


def _bout(line: LogLine, file: str) -> Iterator[dict[str, Any]]:
    """A bout without its texts."""
    yield {name: value for name, value in line.items() if not name.endswith(LONG)}


TEXTS = {"prompt": "prompt", "completion": "completion", "gold": "gold"}
TRACE = TEXTS | {"total": "reward", "truncated": "truncated", "advantage": "advantage"}
FORMATS = (
    Format("Agon", frozenset(AGON), _bout, {}),
    Format("verifiers", frozenset({"traces", "task"}), _episode, TRACE | {"group": ("step", "problem", "seat")}),
    Format("verifiers", frozenset({"nodes", "rewards"}), _trace, TRACE | {"group": ("step", "problem", "seat")}),
    Format(
        "verifiers v0",
        frozenset({"example_id", "reward", "metrics"}),
        _result,
        TEXTS | {"group": ("problem",), "terms": ("reward",), "truncated": "truncated"},
        "verifiers v0 logs its metrics without weights: name those that were paid with --terms and --weights",
    ),
    Format(
        "inspect",
        frozenset({"id", "epoch", "scores"}),
        _sample,
        TEXTS | {"group": ("problem",), "correct": "correct", "truncated": "truncated"},
    ),
    Format("lm-eval", frozenset({"doc_id", "resps"}), _document, TEXTS | {"group": ("file", "problem", "filter")}),
)
