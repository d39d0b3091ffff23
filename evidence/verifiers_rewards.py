"""Real verifiers: its tasksets are audited, and `agon_judge.math_score` is a reward of one.

verifiers runs in an environment of its own (`_verifiers.py`), with the wheel of agon-judge. Shown there: a taskset
whose reward is `math_score` pays right answers, not wrong ones, gives no verdict as an error, and passes the audit; a
taskset whose reward is a substring fails it; and `verify_boxed_math_answer` of verifiers fails it in a thread.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import zipfile
from pathlib import Path

from _lib import arguments, verdict
from _verifiers import bare_environment, python_with_verifiers
from wheel_install import build

EXTRA_SOURCES = ("packages/judge/src", "evidence/wheel_install.py")
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
    print(json.dumps(found))

if __name__ == "__main__":
    main()
"""


def main() -> None:
    arguments(str(__doc__))
    python = python_with_verifiers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for module, (imports, reward) in REWARDS.items():
            (folder / f"{module}.py").write_text(TASKSET.format(imports=imports, reward=reward))
        (folder / "job.py").write_text(JOB)
        zipfile.ZipFile(build(folder)["agon_judge"]).extractall(folder / "judge")
        variables = bare_environment(folder / "judge", folder)
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
    }
    goal = {"paid": [1.0, 0.0], "no verdict": "NoVerdict", "judged": [], "substring found": True, "thread found": True}
    verdict(
        "real verifiers: our reward works in a taskset, and audits of tasksets find faults",
        value,
        goal,
        value == goal,
        verifiers=found["judged"]["version"],
    )


if __name__ == "__main__":
    main()
