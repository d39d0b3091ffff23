"""A whole run on a fake service: CI has no server; `evidence/tinker_contract.py` runs a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agon.config import Config
from agon.engine.backend import backend_of
from agon.engine.shipped import folder_of
from agon.errors import ConfigError, EngineError
from agon.rundir import RunDir
from agon.rundir.adapter import check_adapter
from agon.training.run import train
from agon.types import Policy

from .helpers import FakeService

JUDGE = '''
def judge(problem, completion):
    """Pay about half of the completions, so that groups are live."""
    return len(completion.text) % 2 == 0
'''
STEPS = 4


def config(folder: Path, **sections: Any) -> Config:
    (folder / "judge.py").write_text(JUDGE)
    source = {"preset": "tabletop", "options": {"family": "chain", "difficulty": 5}}
    settings: dict[str, Any] = {
        "arm": "agon",
        "model": {"name": "agon:tiny", "dtype": "float32", "lora": {"rank": 4}},
        "data": {name: source | {"take": take} for name, take in (("train", 16), ("dev", 2), ("held_out", 2))},
        "verifier": f"{folder / 'judge.py'}:judge",
        "game": {"group_size": 4},
        "train": {"problems_per_step": 2, "max_steps": STEPS, "max_completion_tokens": 8, "max_peek_tokens": 8},
        "sampler": {"engine": "tinker", "urls": ["http://127.0.0.1:1"]},
        "eval": {"points": 1, "max_completion_tokens": 8},
        "save": {"every": 1},
    }
    return Config.model_validate(settings | sections)


@pytest.fixture
def service(serve: Any) -> FakeService:
    made: FakeService = serve(768, one_slot=True, over_positions=True, over_rows=True, clips=False)
    made.base = str(folder_of("agon:tiny"))
    return made


def test_a_run_that_a_service_failed_resumes_and_ends_with_a_pair(
    service: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.fails_at = 19
    with pytest.raises(EngineError, match="failed to compute gradients: RuntimeError: 503"):
        train(config(tmp_path), name="run", out=tmp_path, resume=True)  # there is no run yet
    error = capsys.readouterr().err
    assert error.index("this server ignores gradient clipping") < error.index("step 1/4")
    lost = RunDir.open(tmp_path / "run").steps.records()
    assert 0 < len(lost) < STEPS
    run = train(config(tmp_path), name="run", out=tmp_path, resume=True)
    records = run.steps.records()
    assert [record.step for record in records] == list(range(STEPS))
    assert all(metrics["logp_diff_max"] < 1e-6 for r in records for metrics in r.update.values() if metrics["updated"])
    for policy in Policy:
        assert check_adapter(run.path / "pair" / policy.value).r == 4
    points = json.loads((run.path / "points.json").read_text())
    assert "first-" in json.dumps(points), "first versions were pinned and played against"


def test_a_base_that_the_service_does_not_train_is_bad_input(service: FakeService, tmp_path: Path) -> None:
    service.base = "other/base"
    with pytest.raises(ConfigError, match="does not train") as caught:
        backend_of(config(tmp_path)).learner(STEPS)
    assert "other/base" in caught.value.fix


def test_adapters_on_disk_are_not_for_a_service(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot load adapters from disk"):
        backend_of(config(tmp_path)).sampler(100)
