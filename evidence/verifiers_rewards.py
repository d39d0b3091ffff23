"""Real verifiers: its tasksets are audited and give problems, and `agon_judge.math_score` is a reward of one.

verifiers runs in an environment of its own (`_verifiers.py`), with the wheel of agon-judge. Shown there: a taskset
whose reward is `math_score` pays right answers, not wrong ones, gives no verdict as an error, and passes the audit; a
taskset whose reward is a substring fails it; and `verify_boxed_math_answer` of verifiers fails it in a thread.
As a source of problems (`env: verifiers:MODULE`), a taskset is right where its own score is 1; one that raises, sleeps,
loops or returns NaN gives no verdict; one that needs a runtime is refused; and the template that a taskset wants is
found. `--quick` is the same: it takes a minute.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import zipfile
from pathlib import Path

from _lib import ROOT, arguments, verdict
from _verifiers import bare_environment, python_with_verifiers
from wheel_install import build

EXTRA_SOURCES = (
    "packages/judge/src", "evidence/wheel_install.py", "src/agon/verify/environment.py", "src/agon/data/environments.py"
)  # fmt: skip
POISON = """
import time

def paid(reply, gold):
    if reply == "raise":
        raise ValueError(reply)
    if reply == "sleep":
        time.sleep(3600)
    while reply == "spin":
        pass
    return {"nan": float("nan"), "half": 0.5, gold: 1.0}.get(reply, 0.0)
"""
TASKSET = """
import verifiers.v1 as vf
from agon_judge.rewards import math_score
{imports}

class Data(vf.TaskData):
    answer: str

class Task(vf.Task[Data]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return {reward}

class Config(vf.TasksetConfig):
    pass

class Sums(vf.Taskset[Task, Config]):
    def load(self):
        for a, b in ((14, 3), (9, 8), (25, 5), (7, 11)):
            question = f"Mia has {{a}} boxes of {{b}} pens. How many pens?"
            yield Task(Data(idx=a, prompt=question, answer=str(a * b)), self.config.task)
"""
REWARDS = {
    "judged": ("", "await math_score(trace.last_reply, self.data.answer)"),
    "substring": ("", "float(self.data.answer in trace.last_reply)"),
    "boxed": (
        "from verifiers.v1 import verify_boxed_math_answer",
        "verify_boxed_math_answer(trace.last_reply, self.data.answer)",
    ),
    "poison": (POISON, "paid(trace.last_reply, self.data.answer)"),
    "runs": ("", "1.0"),
}
JOB = """
import json
import agon_judge

def main():
    found = {}
    for name in ("judged", "substring", "boxed"):
        audit = agon_judge.audit(f"verifiers:{name}", take=4, workers=1)
        found[name] = {"version": audit.version, "faults": [finding.kind for finding in audit.faults]}
    from agon_judge.auditing.environment import Row, Target
    from agon_judge.auditing.tasksets import VerifiersTaskset
    env = VerifiersTaskset(Target("verifiers:judged", take=2), "judged")
    row = env.rows("train")[0]
    found["paid"] = [env.score(row, text).reward for text in ("\\\\boxed{42}", "\\\\boxed{41}")]
    broken = row.payload.with_data(answer="\\\\aleph_0")
    try:
        env.score(Row("", "", broken), "\\\\boxed{41}")
        found["no verdict"] = "no error"
    except Exception as error:
        found["no verdict"] = "NoVerdict" if "no verdict" in repr(error) + repr(error.__cause__) else repr(error)
    found |= as_problems()
    print(json.dumps(found))

def as_problems():
    from agon.config import Source
    from agon.data import load
    from agon.data.check import accepted_template
    from agon.errors import DataError
    from agon.types import BASE, Completion
    from agon.verify.environment import EnvironmentVerifier
    from agon_judge.auditing.environment import Target
    from agon_judge.auditing.tasksets import VerifiersTaskset

    env = VerifiersTaskset(Target("verifiers:poison", take=4), "poison")
    rows = {row.question: row for row in env.rows("train")}
    problems = load(Source(env="verifiers:poison"))
    asked = [(problem, text) for problem in problems for text in ("half", "no", "", problem.answer)]
    bad = [(problems[0], text) for text in ("raise", "sleep", "spin", "nan")]
    with EnvironmentVerifier(workers=1, deadline=2, patience=30) as verifier:
        verdicts = verifier.verify_many(
            (problem, Completion(f"<think>\\n</think>\\n<answer>{text or 'none'}</answer>", BASE, 0, 0))
            for problem, text in [*bad, *asked]
        )
        template = accepted_template(load(Source(env="verifiers:boxed")), verifier)
    own = [env.score(rows[problem.question], text or "none").reward for problem, text in asked]
    try:
        load(Source(env="verifiers:runs"))
        refused = ""
    except DataError as error:
        refused = error.message
    return {
        "no verdicts": [verdict.reason.value for verdict in verdicts[:4]],
        "as the framework": [verdict.correct for verdict in verdicts[4:]] == [score >= 1 for score in own],
        "half is partial": verdicts[4].detail,
        "template": template,
        "refused": refused,
    }

if __name__ == "__main__":
    main()
"""


def main() -> None:
    arguments(str(__doc__))
    python = python_with_verifiers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for module, (imports, reward) in REWARDS.items():
            text = TASKSET.format(imports=imports, reward=reward)
            signature = "trace: vf.Trace, runtime)" if module == "runs" else "trace: vf.Trace)"
            (folder / f"{module}.py").write_text(text.replace("trace: vf.Trace)", signature))
        (folder / "job.py").write_text(JOB)
        zipfile.ZipFile(build(folder)["agon_judge"]).extractall(folder / "judge")
        variables = bare_environment(folder / "judge", folder, ROOT / "src")
        done = subprocess.run([python, "job.py"], cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-3000:])
        verdict("agon-judge works with verifiers", {"exit": done.returncode}, {"exit": 0}, False)
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found, indent=1))
    value = {
        "paid": found["paid"],
        "no verdict": found["no verdict"],
        "judged": found["judged"]["faults"],
        "substring found": "pays several answers at once" in found["substring"]["faults"],
        "thread found": "gives a different reward in a thread" in found["boxed"]["faults"],
        "poison": found["no verdicts"],
        "right as the framework says": found["as the framework"],
        "half": found["half is partial"],
        "template found": found["template"],
        "runtime refused": "needs a runtime" in found["refused"],
    }
    goal = {
        "paid": [1.0, 0.0],
        "no verdict": "NoVerdict",
        "judged": [],
        "substring found": True,
        "thread found": True,
        "poison": ["infra"] * 4,
        "right as the framework says": True,
        "half": "partial credit 0.5",
        "template found": "\\boxed{{}}",
        "runtime refused": True,
    }
    verdict(
        "real verifiers: our reward works in a taskset, audits find faults, and a taskset scores problems of a run",
        value,
        goal,
        value == goal,
        verifiers=found["judged"]["version"],
    )


if __name__ == "__main__":
    main()
