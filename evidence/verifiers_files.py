"""Files that real verifiers writes are read, diagnosed and drawn by agon-lens.

verifiers runs in an environment of its own (`_verifiers.py`). Its command `vf-eval` evaluates a taskset of two rewards
against a scripted server, and `packages/lens/tests/writers/verifiers_run.py` writes episodes of two seats with a tool
as a trainer does. What agon-lens reads must be what the server answered: groups, rows, rewards by name and texts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from _lib import ROOT, arguments, verdict
from _verifiers import VERIFIERS, bare_environment, python_with_verifiers
from agon_lens import diagnose, read, view
from agon_lens.logs import read_rollouts
from agon_lens.results import read_scores

EXTRA_SOURCES = ("packages/lens/src", "packages/lens/tests/writers/verifiers_run.py", "evidence/_verifiers.py")
WRITER = ROOT / "packages" / "lens" / "tests" / "writers" / "verifiers_run.py"
TASKSET = """
import verifiers.v1 as vf

__all__ = ["Sums"]

class Data(vf.TaskData):
    answer: str

class Task(vf.Task[Data]):
    @vf.reward
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.split()[-1] == self.data.answer)

    @vf.reward(weight=0.1)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 10)

class Config(vf.TasksetConfig):
    pass

class Sums(vf.Taskset[Task, Config]):
    def load(self):
        for n in (2, 3, 4):
            yield Task(Data(idx=n, prompt=f"What is {n} + {n}?", answer=str(2 * n)), self.config.task)
"""
REPLIES = ("{right}", "I think that it is {right}", "7", "7")
"""What the server answers to one question, in turn: right and short, right and long, wrong twice."""
PAID = {(1.0, 0.1): 1, (1.0, 0.0): 1, (0.0, 0.1): 2}
"""What these earn by `exact` and `short`, and how often in every group."""


class Scripted(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that answers questions such as "What is 2 + 2?"."""

    asked: Counter[str] = Counter()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][-1]["content"]
        question = content if isinstance(content, str) else content[0]["text"]
        text = REPLIES[self.asked[question] % len(REPLIES)].format(right=2 * int(question.split()[2]))
        self.asked[question] += 1
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        streams = bool(body.get("stream"))
        kind = "chat.completion.chunk" if streams else "chat.completion"
        choice = {"index": 0, "finish_reason": "stop", "delta" if streams else "message": message}
        head = {"id": "x", "object": kind, "created": 0, "model": "scripted"}
        reply = json.dumps({**head, "choices": [choice], "usage": usage})
        data = (f"data: {reply}\n\ndata: [DONE]\n\n" if streams else reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


def evaluate(python: Path, folder: Path, tasks: int) -> Path:
    """Run `vf-eval` on the taskset; the file that it wrote."""
    (folder / "sums.py").write_text(TASKSET)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    words = ["sums", "--model", "scripted", "--no-push", "--no-rich", "-n", str(tasks), "-r", str(len(REPLIES))]
    words += ["--client.base-url", f"http://127.0.0.1:{server.server_port}/v1", "--client.api-key-var", "NONE"]
    words += ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    words += ["--output-dir", str(folder / "out"), "--run.name", "run"]
    command = [str(python), "-c", "from verifiers.v1.cli.eval.main import main; main()", *words]
    environment = bare_environment(folder) | {"NONE": "none"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    server.shutdown()
    written = folder / "out" / "run" / "traces.jsonl"
    if done.returncode or not written.exists():
        print(done.stdout[-2000:], done.stderr[-3000:], file=sys.stderr)
        raise SystemExit("vf-eval failed")
    return written


def evaluated(python: Path, folder: Path, tasks: int) -> dict[str, object]:
    """What agon-lens reads of an evaluation."""
    written = evaluate(python, folder, tasks)
    (log,) = read(written)
    rollouts = read_rollouts([written])
    page = view(written, folder / "page.html")
    return {
        "groups": len(log.groups),
        "terms": list(log.terms),
        "paid as scripted": all(Counter(row.terms for row in group) == Counter(PAID) for group in log.groups),
        "texts as scripted": all("7" in texts.completions and texts.prompt for texts in rollouts.texts),
        "problems to compare": len(next(iter(read_scores(written, "exact").by_seed.values()))),
        "dead": diagnose(log).dead_groups,
        "drawn": page.stat().st_size > 10_000,
    }


def trained(python: Path, folder: Path) -> dict[str, object]:
    """What agon-lens reads of episodes as a trainer writes them."""
    subprocess.run([str(python), str(WRITER)], cwd=folder, env=bare_environment(), check=True)
    (log,) = read(folder / "traces.jsonl")
    found = diagnose(log)
    turns = read_rollouts([folder / "traces.jsonl"]).texts[0].completions[0]
    return {
        "groups": found.groups,
        "rows": found.rows,
        "terms": list(log.terms),
        "advantages agree": found.advantages_agree,
        "ungraded": found.ungraded_rows,
        "turns": [role for role, _ in turns],
    }


def main() -> None:
    args = arguments(__doc__ or "")
    tasks = 1 if args.quick else 3
    python = python_with_verifiers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        value = {"vf-eval": evaluated(python, folder, tasks), "training": trained(python, folder)}
    terms = ["reward.exact", "reward.short"]
    evaluation = {"groups": tasks, "terms": terms, "paid as scripted": True, "texts as scripted": True}
    training = {"groups": 8, "rows": 32, "terms": terms, "advantages agree": True, "ungraded": 1}
    goal = {
        "vf-eval": {**evaluation, "problems to compare": tasks, "dead": 0, "drawn": True},
        "training": {**training, "turns": ["assistant", "tool", "assistant"]},
    }
    print(json.dumps(value, indent=1))
    verdict("agon-lens reads what real verifiers writes", value, goal, value == goal, verifiers=VERIFIERS)


if __name__ == "__main__":
    main()
