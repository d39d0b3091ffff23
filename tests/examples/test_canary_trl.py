"""The callback for TRL, against a fake engine: TRL's own push of weights to vLLM needs a GPU."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "packages" / "lens" / "tests"))

from lens_servers import Engine, adapter, serving  # noqa: E402


class Model:
    """Saves the adapter of a step as PEFT does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save_pretrained(self, folder: Path) -> None:
        shutil.copytree(self.folder, folder)


def callback() -> Any:
    spec = importlib.util.spec_from_file_location("canary_trl", ROOT / "examples" / "canary_trl.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EngineCanary


def test_the_callback_asks_every_few_steps_and_stops_at_an_engine_that_is_late(tmp_path: Path) -> None:
    one, two = adapter(tmp_path / "one", 1.0), adapter(tmp_path / "two", 2.0)
    engine = Engine({"policy": one})
    with serving(engine) as url:
        canary = callback()(url, "policy", every=2, probe=False)

        def begin(step: int, folder: Path) -> None:
            state = SimpleNamespace(global_step=step, is_world_process_zero=True)
            canary.on_step_begin(None, state, None, model=Model(folder))

        for step in range(4):
            begin(step, one)
        assert [report.good for report in canary.reports] == [True]
        with pytest.raises(RuntimeError, match="step 4: the engine does not hold policy as step-4 has it"):
            begin(4, two)
        engine.held["policy"] = two
        begin(6, two)
