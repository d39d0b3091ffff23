"""The smallest form of every evidence script runs here, if it is short, or in `scripts/prove --weekly`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))
import _lib

ROOT = _lib.ROOT
HERE = {
    "adapter_isolation": 13,
    "competition": 6,
    "crash_points": 8,
    "cross_family": 18,
    "fleet": 12,
    "hard_golds": 5,
    "math_forms": 11,
    "memory_ratio": 9,
    "packed_ratio": 17,
    "quickstart": 3,
    "reward_hacks": 11,
    "reward_poison": 12,
    "sandbox_cost": 14,
    "sandbox_hostile": 20,
    "simulator": 6,
    "staleness": 18,
    "stat_coverage": 16,
    "tabletop": 5,
    "tiny_code_base": 16,
    "trl_parity": 15,
    "wheel_install": 11,
}
"""Seconds of one core on a machine with two, niced beside other work; those that wait count as they were waited for."""
WEEKLY = {
    **{"all_bases": 162, "engine_faults": 73, "four_bit": 390, "smollm2_run": 83, "stale_adapter": 79},  # real engines
    **{"canary_for_all": 150, "duel": 180},  # start a real server; the second installs verifiers too
    **{"demo_learns": 214, "kill_resume": 42, "matrix_budget": 64, "process_faults": 33, "two_processes": 25},  # train
    **{"shard_base": 0},  # trains
    **{"notebook_trains": 60},  # trains
    **{"learner_shape": 19, "tiny_base": 19},  # train
    **{"large_log": 40, "watch_cost": 40},  # writes and reads 100 MB; trains with TRL
    **{"game_mutations": 75, "engine_mutations": 17},  # run tests that run here anyway
    **{"hostile_inputs": 27, "math_gold": 21, "math_poison": 24, "peek_fuzz": 30, "splits": 22},  # many inputs
    **{"serve_faults": 40, "serve_fuzz": 30, "serve_parity": 25},  # start gateways and servers
    **{"audit_recall": 40, "verifiers_files": 60, "verifiers_rewards": 60},  # many processes, or install verifiers
    **{"cli_start": 3, "peer_ratio": 63, "publish_ratio": 11, "sampler_ratio": 50},  # time what busy cores upset
    **{"serve_overhead": 35, "step_ratio": 18, "streaming_ratio": 121},  # likewise
    **{"frontend": 30, "gpu_paths": 22, "newest_transformers": 40},  # keeps a core busy, interprets kernels, installs
    **{"ray_cluster": 0, "slurm_job": 0, "tinker_contract": 0, "viewer": 0},  # need Ray, Slurm, SkyRL or Chromium
    **{"trl_push": 0},  # needs two GPUs
}
"""Seconds likewise; 0 where it has not been measured."""
SCRIPTS = {path.stem for path in (ROOT / "evidence").glob("[!_]*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_the_smallest_form_holds(name: str) -> None:
    command = [sys.executable, f"evidence/{name}.py", "--quick"]
    quiet = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=600)
    if done.returncode == _lib.CANNOT_RUN:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert json.loads(done.stdout.splitlines()[-1])["holds"] is True


def test_every_script_has_a_place_where_its_smallest_form_runs() -> None:
    assert HERE.keys() | WEEKLY.keys() == SCRIPTS
    assert not HERE.keys() & WEEKLY.keys()


def test_what_runs_here_takes_minutes_in_all() -> None:
    assert max(HERE.values()) <= 20
    assert sum(HERE.values()) <= 300
