"""The callback for TRL with an adapter by its name, against a fake engine; test_learner_scores.py has merged weights.

TRL's own push of weights to vLLM needs GPUs, and was never tried.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "packages" / "lens" / "tests"), str(ROOT / "examples")]

from canary_trl import EngineCanary  # noqa: E402

from lens_servers import Engine, adapter, serving  # noqa: E402


class Model:
    """Saves the adapter of a step as PEFT does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save_pretrained(self, folder: Path) -> None:
        shutil.copytree(self.folder, folder)


def test_the_callback_asks_every_few_steps_and_stops_at_an_engine_that_is_late(tmp_path: Path) -> None:
    one, two = adapter(tmp_path / "one", 1.0), adapter(tmp_path / "two", 2.0)
    engine = Engine({"policy": one})
    with serving(engine) as url:
        canary = EngineCanary(url, "policy", every=2, probe=False)

        def begin(step: int, folder: Path) -> None:
            state = SimpleNamespace(global_step=step, is_world_process_zero=True)
            canary.on_pre_optimizer_step(None, state, None, model=Model(folder), processing_class=None)

        for step in range(4):
            begin(step, one)
        assert [report.good for report in canary.reports] == [True, True], "steps 0 and 2"
        with pytest.raises(RuntimeError, match="step 4: the engine does not hold policy as step-4 has it"):
            begin(4, two)
        engine.held["policy"] = two
        begin(6, two)
