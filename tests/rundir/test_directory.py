"""A run directory is made once, resumed only as what it was, and taken back to its newest checkpoint."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from agon.config import Config, resolved
from agon.errors import AgonError, CheckpointError, RunDirError, RunError
from agon.rundir import RunDir, directory, read_bouts
from agon.rundir.files import weights_hash
from agon.rundir.log import Log
from agon.rundir.manifest import Seeds, SplitFacts, Start, config_hash
from agon.rundir.pair import read_pair
from agon.rundir.records import RunState
from agon.types import Policy
from tests.rundir.helpers import runs
from tests.rundir.helpers.runs import CONFIG


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    run = runs.new_run(tmp_path_factory.mktemp("played"))
    runs.play(run, 1, runs.STEPS)
    return run


@pytest.fixture
def run(played: RunDir, tmp_path: Path) -> RunDir:
    return RunDir(Path(shutil.copytree(played.path, tmp_path / "run")))


def changed(**values: Any) -> Config:
    """The config with some values set, such as train__seed=1."""
    raw = resolved(CONFIG)
    for name, value in values.items():
        *sections, key = name.split("__")
        (raw[sections[0]] if sections else raw)[key] = value
    return Config.model_validate(raw)


def test_a_new_run_says_where_it_comes_from(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "runs", "first", changed(train__seed=7), SplitFacts(hashes={"train": "ab"}))
    assert run.config == changed(train__seed=7)
    assert run.manifest.seeds == Seeds(train=7, split=0)
    assert run.manifest.data.hashes == {"train": "ab"}
    assert run.manifest.packages["python"] == platform.python_version()
    assert RunDir.open(run.path) == run
    assert [path.name for path in run.path.parent.iterdir()] == ["first"]


def test_a_path_may_be_text(run: RunDir) -> None:
    assert RunDir(str(run.path)).steps.records() == run.steps.records()  # type: ignore[arg-type]


def test_a_run_does_not_tell_the_name_of_the_machine(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "quiet", CONFIG)
    text = (run.path / "manifest.json").read_text()
    assert platform.node() not in text
    assert str(Path.home()) not in text


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o750), (0o002, 0o770), (0o077, 0o700), (0o000, 0o770)])
def test_a_new_run_is_closed_to_other_users_and_open_to_a_group_as_the_umask_says(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        run = RunDir.create(tmp_path, "run", CONFIG)
    finally:
        os.umask(before)
    assert stat.S_IMODE(run.path.stat().st_mode) == mode


def test_a_run_is_never_overwritten(run: RunDir) -> None:
    before = runs.contents(run.path)
    with pytest.raises(RunDirError, match="already exists") as refused:
        RunDir.create(run.path.parent, "run", CONFIG)
    assert "--resume" in refused.value.fix
    assert runs.contents(run.path) == before
    assert [path.name for path in run.path.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", ".hidden", "a b", "a\n", "-x", "é", "x" * 200])
def test_a_name_cannot_lead_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="not a valid run name"):
        RunDir.create(tmp_path, name, CONFIG)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match=r"no config\.yaml and no manifest\.json"):
        RunDir.open(tmp_path)


@pytest.mark.parametrize("read", [RunDir.open, read_pair])
def test_a_folder_of_runs_is_answered_with_their_names(read: Callable[[Path], object], tmp_path: Path) -> None:
    names = [f"r{n}" for n in range(9)]
    made = [RunDir.create(tmp_path / "runs", name, CONFIG).path for name in names]
    with pytest.raises(RunDirError, match="runs is a folder of runs, not a run") as caught:
        read(tmp_path / "runs")
    assert caught.value.fix == f"name one of: {', '.join(map(str, made[:8]))}"


@pytest.mark.parametrize("text", ["", "[]", "{", "3", "\x00", '{"schema": 2}'])
def test_a_damaged_manifest_is_told(text: str, run: RunDir) -> None:
    (run.path / "manifest.json").write_text(text)
    with pytest.raises(RunDirError):
        RunDir.open(run.path)


@pytest.mark.parametrize("name", [".lock", "steps.jsonl", "bouts", "checkpoints", "evals", "pair"])
def test_a_run_with_links_is_refused_and_nothing_is_written_through_them(
    name: str, run: RunDir, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".tmp-mine").write_text("precious")
    (elsewhere / "file").write_text("precious")
    shutil.rmtree(run.path / name, ignore_errors=True)
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(elsewhere if "." not in name else elsewhere / "file")
    with pytest.raises(RunDirError, match=f"{name} is a link"):
        RunDir.open(run.path)
    for attempt in (run.resume, lambda: run.lock().__enter__(), lambda: run.steps.append(runs.record(1))):
        with suppress(OSError, AgonError):
            attempt()
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == dict.fromkeys(
        (".tmp-mine", "file"), "precious"
    )


@pytest.mark.parametrize("name", ["steps.jsonl", "manifest.json", "odd", "\udcff\n"])
def test_a_pipe_in_a_run_is_refused_and_never_waited_for(name: str, run: RunDir) -> None:
    (run.path / name).unlink(missing_ok=True)
    os.mkfifo(run.path / name)
    with pytest.raises(RunDirError, match=r"neither a file nor a folder|no manifest\.json"):
        RunDir.open(run.path)


def test_pipes_below_a_run_are_never_waited_for(run: RunDir) -> None:
    run.bouts.mkdir(exist_ok=True)
    os.mkfifo(run.bouts / "step_000009.parquet")
    os.mkfifo(run.path / "pipe.jsonl")
    for attempt in (lambda: read_bouts(run), lambda: Log(run.path / "pipe.jsonl").lines()):
        with pytest.raises(RunDirError, match="neither a file nor a folder"):
            attempt()
    (run.checkpoints / "step_000004" / "MANIFEST.json").unlink()
    os.mkfifo(run.checkpoints / "step_000004" / "MANIFEST.json")
    assert run.checkpoint(4) is None


def test_points_that_find_no_room_are_an_error_with_a_fix(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(directory, "write_json", full)
    with pytest.raises(RunError, match=r"points\.json was not written.*No space") as failed:
        run.write_points(())
    assert "--resume" in failed.value.fix


def test_a_config_runs_no_code(run: RunDir) -> None:
    (run.path / "config.yaml").write_text("x: !!python/object/apply:os.mkdir [made]")
    with pytest.raises(RunDirError, match=r"cannot read .*config\.yaml"):
        _ = run.config


def test_a_config_that_would_grow_without_bound_is_refused_at_once(run: RunDir) -> None:
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    for text in ("\n".join(bomb), "# " + "x" * directory.LARGEST, "", "[1, 2]", "arm: [" * 5000):
        (run.path / "config.yaml").write_text(text)
        with pytest.raises(RunDirError, match=r"cannot read .*config\.yaml") as refused:
            _ = run.config
        assert len(str(refused.value)) < 1000


def test_the_same_config_is_accepted(run: RunDir) -> None:
    assert run.change_config(CONFIG) == []
    assert run.change_config(Config.model_validate(json.loads(json.dumps(resolved(CONFIG))))) == []
    assert run.manifest.changed == ()


def test_a_changed_config_is_refused_with_every_key_named(run: RunDir) -> None:
    with pytest.raises(RunDirError) as refused:
        run.change_config(changed(arm="coop", train__seed=1, train__beta=0.1, train__tokens_per_pass=1))
    message = refused.value.message
    assert 'arm: "agon" -> "coop"' in message
    assert "train.seed: 0 -> 1" in message
    assert "train.beta: 0.0 -> 0.1" in message
    assert "learning_rate" not in message
    assert "tokens_per_pass" not in message
    assert run.config == CONFIG, "nothing is taken over from a config that is refused"


def test_what_costs_memory_disk_or_time_may_change_and_is_written_down(run: RunDir) -> None:
    other = changed(report_to=["trackio"], save__keep=9, save__every=3, train__tokens_per_pass=1, sampler__sleep=True)
    made = run.change_config(other)
    assert config_hash(other) == config_hash(CONFIG)
    assert {change.key for change in made} == {
        "report_to", "save.keep", "save.every", "train.tokens_per_pass", "sampler.sleep",
    }  # fmt: skip
    assert run.config == other, "the next resume goes on with the new values"
    assert run.manifest.changed == tuple(made)
    again = run.change_config(changed(train__tokens_per_pass=40))
    assert run.manifest.changed == (*made, *again)
    assert next(change for change in again if change.key == "train.tokens_per_pass").old == "1"
    assert config_hash(changed(arm="coop")) != config_hash(CONFIG)


def test_another_base_in_the_folder_of_the_first_is_refused(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    assert weights_hash(base) is None
    (base / "model.safetensors").write_bytes(b"first")
    run = runs.new_run(tmp_path, weights_hash(base))
    run.check_manifest(run.manifest)
    (base / "model.safetensors").write_bytes(b"other")
    with pytest.raises(RunDirError, match="base_hash changed"):
        run.check_manifest(run.manifest.model_copy(update={"base_hash": weights_hash(base)}))


def test_adapters_other_than_those_it_started_from_are_refused(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "run", CONFIG, start=Start(init={Policy.A: "5f"}))
    assert run.manifest.init_hashes == {Policy.A: "5f"}
    assert run.check_manifest(run.manifest) == []
    for hashes in ({}, {Policy.A: "2f"}):
        with pytest.raises(RunDirError, match="init_hashes"):
            run.check_manifest(run.manifest.model_copy(update={"init_hashes": hashes}))


def test_other_data_or_seeds_are_refused_by_name(run: RunDir) -> None:
    other = {"data": SplitFacts(hashes={"train": "2f"}), "seeds": Seeds(train=1, split=0)}
    with pytest.raises(RunDirError, match=r"data\.hashes\.train, seeds\.train changed"):
        run.check_manifest(run.manifest.model_copy(update=other))


def test_a_different_library_version_is_reported_and_not_refused(run: RunDir) -> None:
    assert run.check_manifest(run.manifest) == []
    [sentence] = run.check_manifest(run.manifest.model_copy(update={"packages": {"torch": "2.14.0"}}))
    assert sentence == "changed since the start, so the last bits may differ: packages.torch"


def test_a_run_without_checkpoints_begins_again(tmp_path: Path) -> None:
    run = runs.new_run(tmp_path)
    run.steps.append(runs.record(1))
    found = run.resume()
    assert (found.folder, found.state, list(found.skipped)) == (None, RunState(), [])
    assert run.steps.records() == []


def test_resume_goes_back_to_the_newest_that_verifies_and_says_what_it_skipped(run: RunDir) -> None:
    for step in (5, 6):
        run.steps.append(runs.record(step))
        (run.bouts).mkdir(exist_ok=True)
        (run.bouts / f"step_{step:06d}.parquet").write_bytes(b"")
    (run.bouts / "step_000003.parquet").write_bytes(b"")
    (run.checkpoints / "step_000004" / "a" / "adapter_config.json").unlink()
    found = run.resume()
    assert found.folder == run.checkpoints / "step_000003"
    assert list(found.skipped) == [(run.checkpoints / "step_000004", "a/adapter_config.json is missing")]
    assert [entry.step for entry in run.steps.records()] == [1, 2, 3]
    assert [path.name for path in run.bouts.iterdir()] == ["step_000003.parquet"]


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(run: RunDir) -> None:
    for folder in run.checkpoints.iterdir():
        (folder / "MANIFEST.json").unlink()
    before = run.steps.records()
    with pytest.raises(CheckpointError, match=r"step_000004: MANIFEST\.json is missing; step_000003"):
        run.resume()
    assert run.steps.records() == before


def test_a_run_that_kept_adapters_alone_is_refused_instead_of_begun_again(run: RunDir) -> None:
    run.prune(2, pinned=(2,))
    for step in run.checkpoints.iterdir():
        if step.name > "step_000002":
            shutil.rmtree(step)
    before = run.steps.records()
    with pytest.raises(CheckpointError, match="step_000002: only its adapters were kept"):
        run.resume()
    assert run.steps.records() == before != []


def test_a_config_swapped_under_a_run_is_noticed(run: RunDir) -> None:
    (run.path / "config.yaml").write_text(yaml.safe_dump(resolved(changed(arm="coop"))))
    with pytest.raises(RunDirError, match="saved under a different config"):
        run.resume()


def test_a_checkpoint_is_given_by_step_if_it_verifies(run: RunDir) -> None:
    assert run.checkpoint(4) == run.checkpoints / "step_000004"
    assert run.checkpoint(2) == run.checkpoints / "step_000002"
    assert run.checkpoint(9) is None
    (run.checkpoints / "step_000004" / "b" / "adapter_model.safetensors").write_bytes(b"")
    assert run.checkpoint(4) is None


def test_a_copied_run_is_a_run(run: RunDir, tmp_path: Path) -> None:
    copy = RunDir.open(Path(shutil.copytree(run.path, tmp_path / "copy")))
    assert copy.resume().folder == copy.checkpoints / "step_000004"


def test_what_an_engine_needs_to_start_may_change(run: RunDir) -> None:
    """A first start that failed is repaired in the same run: a smaller cache, no graphs, a different attention."""
    before = config_hash(CONFIG)
    other = changed(sampler__options={"kv_cache_dtype": "fp8"}, sampler__max_model_len=20_000, model__attention="rows")
    keys = {change.key for change in run.change_config(other)}
    assert keys == {"sampler.options.kv_cache_dtype", "sampler.max_model_len", "model.attention"}
    assert run.config == other
    assert config_hash(other) == before
    assert run.resume().folder == run.checkpoints / "step_000004", "its checkpoints are still its own"
    [back] = run.change_config(changed(sampler__max_model_len=20_000, model__attention="rows"))
    assert (back.key, back.old, back.new) == ("sampler.options.kv_cache_dtype", '"fp8"', "null")


def test_layers_belong_to_the_run() -> None:
    some = CONFIG.model.model_copy(update={"lora": CONFIG.model.lora.model_copy(update={"layers": 2})})
    assert config_hash(CONFIG.model_copy(update={"model": some})) != config_hash(CONFIG)
