"""The quick version of every evidence script runs and holds, except those that CI cannot run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))
import _lib

ROOT = _lib.ROOT
LEFT_OUT = {
    **({} if which("chromium") else {"viewer": "needs chromium, which is not installed here"}),
    **dict.fromkeys(
        (
            *("cli_start", "sampler_ratio", "streaming_ratio", "publish_ratio", "step_ratio", "peer_ratio"),
            "serve_overhead",
        ),
        "a few timings, which other work here upsets",
    ),
    **(
        {}
        if which("bwrap")
        else dict.fromkeys(
            ("sandbox_hostile", "reward_hacks", "sandbox_cost", "tiny_code_base"), "needs bubblewrap, which is not here"
        )
    ),
    "ray_cluster": "starts raylets, and Ray is not installed here; scripts/prove runs it where it is",
    "engine_faults": "starts several engines, a minute each",
    "all_bases": "a training on a real engine; tests/engine/vllm/test_composite.py starts one over a composite base",
    "smollm2_run": "a training on a real engine, minutes on busy cores; tests/engine/vllm starts one already",
    "demo_learns": "a whole training, minutes on busy cores; tests/cli/test_demo.py runs the demo for two steps",
    "tinker_contract": "needs a Tinker server, whose environment takes 6.6 GB; tests/engine/tinker fakes the SDK",
    "game_mutations": "runs the tests of the game once for every mutation, and they run here anyway",
    "slurm_job": "needs root and a Slurm, and two minutes",
    "engine_mutations": "runs tests that run here anyway, once for every mutation",
}
"""Scripts that only `scripts/prove --quick` runs, with the reason."""

NEED_DATA = ("math_forms", "math_gold", "math_poison")
"""Scripts that read real data sets; see CONTRIBUTING.md for where they look."""

SCRIPTS = sorted(path.stem for path in (ROOT / "evidence").glob("[!_]*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in LEFT_OUT])
def test_the_quick_version_holds(name: str) -> None:
    if name in NEED_DATA and _lib.data_dir() is None:
        pytest.skip("needs the data sets that AGON_DATA names")
    command = [sys.executable, f"evidence/{name}.py", "--quick"]
    quiet = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert json.loads(done.stdout.splitlines()[-1])["holds"] is True


def test_what_is_left_out_exists() -> None:
    assert set(LEFT_OUT) <= {*SCRIPTS, "viewer"}
