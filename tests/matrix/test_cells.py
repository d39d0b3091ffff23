"""The matrix: cells are runs, what is done is not done again, and budgets are one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agon.config.arms import ARMS
from agon.errors import ConfigError, InputError
from agon.matrix import local
from agon.matrix.cells import MatrixCell, Stage, cells
from agon.matrix.child import last_words
from agon.rundir import RunDir
from agon.rundir.files import locked
from agon.rundir.manifest import SplitFacts
from agon.types import Completion, Request
from tests.report.helpers import make_study
from tests.training.helpers.runs import config, training
from tests.waiting import until

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "tabletop" / "base.yaml"


def plan(out: Path, arms: str = "grpo,agon", seeds: tuple[int, ...] = (0, 1), *overrides: str) -> list[MatrixCell]:
    return cells(CONFIG, overrides, arms.split(","), seeds, out)


def test_every_arm_and_seed_is_a_cell_with_its_own_arm_and_seed(tmp_path: Path) -> None:
    made = plan(tmp_path, ",".join(ARMS), (3, 4))
    assert [cell.name for cell in made] == [f"{arm}-s{seed}" for seed in (3, 4) for arm in ARMS]
    assert [(cell.config.arm, cell.config.train.seed) for cell in made] == [(c.arm, c.seed) for c in made]
    assert made[0].missing() == ["train", "eval"]


def test_rows_without_training_are_evaluations_of_the_base(tmp_path: Path) -> None:
    zero, moa = plan(tmp_path, "zero-shot,moa", (0,))
    assert zero.missing() == ["eval"]
    assert zero.command("eval")[:3] == ["agon", "eval", "agon:tiny"]
    assert (zero.command("eval")[-1], moa.command("eval")[-1]) == ("base", "moa")
    assert zero.result == tmp_path / "zero-shot-s0" / "evals" / "held_out" / "base.json"


def test_grpo_is_evaluated_when_its_second_pass_is_too(tmp_path: Path) -> None:
    (cell,) = plan(tmp_path, "grpo", (0,))
    assert cell.command("eval")[-2:] == ["--system", "a,self-cascade"]
    make_study(tmp_path, {"grpo": 1})
    assert cell.evaluated()
    cell.result.with_name("self-cascade.json").unlink()
    assert not cell.evaluated()


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_cell_whose_last_evaluation_was_interrupted_is_not_trained(tmp_path: Path, interrupted: bool) -> None:
    settings = config(train__max_steps=6)
    run = RunDir.create(tmp_path, "agon-s0", settings, SplitFacts(counts={"train": 12}))
    one = training(run, settings)
    sample = one.machines.sampler.sample

    async def asked(request: Request) -> Completion:
        if interrupted and one.machines.learner.step == one.schedule.total and not one._interrupt.asked:
            os.kill(os.getpid(), signal.SIGTERM)
        return await sample(request)

    one.machines.sampler.sample = asked  # type: ignore[method-assign]
    assert one.go() is not interrupted
    cell = replace(plan(tmp_path, "agon", (0,))[0], config=settings)
    assert cell.missing() == (["train", "eval"] if interrupted else ["eval"])
    assert training(RunDir.open(run.path), settings).go()
    assert cell.missing() == ["eval"]


def test_a_verifier_of_ones_own_is_named_again_for_the_evaluation(tmp_path: Path) -> None:
    math, mine = (plan(tmp_path, "agon", (0,), *words)[0] for words in ((), ("verifier=mine:judge",)))
    assert math.command("eval") == ["agon", "eval", str(math.folder)]
    assert mine.command("eval") == ["agon", "eval", str(mine.folder), "verifier=mine:judge"]


def test_a_config_that_would_bend_an_arm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"game\.stack is written"):
        plan(tmp_path, "coop,agon", (0,), "game.stack=coop")


@pytest.mark.parametrize(
    ("arms", "seeds"), [("grpo,nothing", (0,)), ("agon,agon", (0,)), ("agon", ()), ("agon", (1, 1))]
)
def test_bad_arms_and_seeds_are_refused(tmp_path: Path, arms: str, seeds: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        plan(tmp_path, arms, seeds)


def test_slots_share_out_the_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    shares = [[local._environment(n, slots)["CUDA_VISIBLE_DEVICES"] for n in range(slots)] for slots in (1, 2, 6)]
    assert shares == [["4,5,6,7"], ["4,6", "5,7"], ["4", "5", "6", "7", "4", "5"]]


def test_the_error_of_the_newest_command_is_reported_although_more_is_printed_after_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("$ agon train\nerror: old\n$ agon train\nerror: no luck\nfix: try again\n" + "trace\n" * 40)
    assert last_words(log) == "error: no luck; fix: try again"


class Typed(MatrixCell):
    """A cell whose stages are programs of a test: each leaves a line when it ends."""

    __slots__ = ()

    def missing(self) -> list[Stage]:
        done = (self.folder / "done").read_text().split() if (self.folder / "done").exists() else []
        stages: list[Stage] = ["train", "eval"]
        return stages[len(done) :]


def typed(made: list[MatrixCell]) -> list[MatrixCell]:
    return [Typed(c.arm, c.seed, c.folder, c.source, c.overrides, c.config) for c in made]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands where Python would: a stage writes a line to FOLDER/done, slowly."""
    path = tmp_path / "stub"
    path.write_text(
        f"#!{sys.executable}\nimport sys, time, pathlib\n_, _, word, given, *words = sys.argv[1:]\n"
        "named = dict(zip(words, words[1:]))\n"
        "folder = f'{named[\"--out\"]}/{named[\"--name\"]}' if word == 'train' else given\n"
        "time.sleep(0.2)\nif 'coop' in folder: sys.exit('error: no luck')\n"
        "pathlib.Path(folder).mkdir(exist_ok=True)\nopen(folder + '/done', 'a').write(word + '\\n')\n"
    )
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))
    return path


def test_cells_run_in_slots_and_a_second_start_does_nothing(tmp_path: Path, stub: Path) -> None:
    made, said = typed(plan(tmp_path)), []
    assert asyncio.run(local.run(made, 2, said.append)) == []
    assert [(cell.folder / "done").read_text() for cell in made] == ["train\neval\n"] * 4
    assert asyncio.run(local.run(made, 2, said.append)) == []
    assert [(cell.folder / "done").read_text() for cell in made] == ["train\neval\n"] * 4
    assert said[-1] == "4 cells, 4 done, 0 to do, 2 at a time"


def test_a_failed_cell_stops_no_other_and_is_told(tmp_path: Path, stub: Path) -> None:
    made = typed(plan(tmp_path, "coop,agon", (0,)))
    (failure,) = asyncio.run(local.run(made, 1, lambda _: None))
    assert "coop-s0: agon train ended with code 1; error: no luck" in failure
    assert (tmp_path / "agon-s0" / "done").exists()


def test_a_cell_that_an_orphan_works_on_is_waited_for(
    tmp_path: Path, stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "POLL", 0.05)
    (cell,) = made = typed(plan(tmp_path, "agon", (0,)))
    cell.folder.mkdir()
    said: list[str] = []

    async def scene() -> None:
        with locked(cell.folder / ".lock"):
            work = asyncio.ensure_future(local.run(made, 1, said.append))
            await until(lambda: any("waiting" in sentence for sentence in said))
            await asyncio.sleep(0.3)
            assert not work.done()
            assert cell.missing()[0] == "train"
        assert await work == []

    asyncio.run(scene())
    assert "agon-s0: another process is at work on it, waiting" in said
