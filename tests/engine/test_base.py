"""The base that a run reads: one revision for its tokenizer, its template, its learner and its engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agon.config import Config, Model
from agon.engine.base import PROMPT_ROOM, base_files, context_of
from agon.engine.shipped import folder_of
from agon.errors import ConfigError

OLD, NEW = "1" * 40, "2" * 40


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A cache of the Hub's own layout with two revisions of one base; `main` is the newer."""
    repository = tmp_path / "hub" / "models--some--base"
    for revision, template in ((OLD, "old"), (NEW, "new")):
        folder = repository / "snapshots" / revision
        shutil.copytree(folder_of("agon:tiny"), folder)
        (folder / "chat_template.jinja").write_text(template)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(NEW)
    (repository / "refs" / "v1").write_text(OLD)
    return tmp_path / "hub"


SCRIPT = """
import sys
from transformers import AutoTokenizer
from agon.config import Model
from agon.engine.base import base_files
for revision in sys.argv[1:]:
    path = base_files(Model(name="some/base", revision=revision if revision != "none" else None))
    print(AutoTokenizer.from_pretrained(path).chat_template)
"""


@pytest.mark.slow
def test_everything_reads_the_revision_that_the_config_names(hub: Path) -> None:
    """In a process of its own: the libraries read where the cache is when they are imported."""
    offline = os.environ | {"HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", SCRIPT, "none", "v1", OLD, NEW]
    done = subprocess.run(command, env=offline, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["new", "old", "old", "new"]


def test_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    assert base_files(Model(name=str(tmp_path), revision="v1")) == str(tmp_path)


def test_a_revision_that_is_not_available_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="nobody/nothing is not available at revision v9") as caught:
        base_files(Model(name="nobody/nothing", revision="v9"))
    assert "model.revision" in caught.value.fix


def lengths(**sampler: object) -> Config:
    source = {"path": "unused.jsonl"}
    raw = {"arm": "agon", "model": {"name": "x"}, "verifier": "math", "sampler": sampler}
    return Config.model_validate({**raw, "data": dict.fromkeys(("train", "dev", "held_out"), source)})


def test_the_context_holds_every_peek_of_a_prompt_and_a_whole_completion() -> None:
    assert context_of(lengths()) == PROMPT_ROOM + 2048 + 15_000
    assert context_of(lengths(), peeks=2) == PROMPT_ROOM + 2 * 2048 + 15_000
    assert context_of(lengths(max_model_len=20_000), peeks=2) == 20_000
    with pytest.raises(ConfigError, match="does not hold 2 peeks and a completion: 19096 tokens"):
        context_of(lengths(max_model_len=19_096), peeks=2)


RESUMED = """
import os, sys
from pathlib import Path
import agon
refs, new, old, out = Path(sys.argv[1]) / "models--some--base" / "refs" / "main", *sys.argv[2:]
words = ["model.name=some/base", "train.max_steps=1", "train.problems_per_step=1", "game.group_size=2", "eval.points=0"]
words += ["data.train.take=2", "data.dev.take=1", "data.held_out.take=1", "train.max_completion_tokens=8"]
run = agon.train("configs/tabletop/agon.yaml", *words, out=out, name="x", show="nothing")
refs.write_text(old)  # the Hub moves on
for source in (run.path, "configs/tabletop/agon.yaml"):
    again = agon.train(source, *(words if source != run.path else ()), out=out, name="x", resume=True, show="nothing")
    assert again.config.model.revision == new, again.config.model.revision
print((run.path / "pair" / "agon.json").read_text().count(new))
"""


@pytest.mark.slow
def test_a_run_records_the_commit_of_its_base_and_is_resumed_at_it(hub: Path, tmp_path: Path) -> None:
    for revision in (OLD, NEW):  # a template that a run can render
        folder = hub / "models--some--base" / "snapshots" / revision
        shutil.copy(folder_of("agon:tiny") / "chat_template.jinja", folder)
    offline = os.environ | {"HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", RESUMED, str(hub), NEW, OLD, str(tmp_path / "runs")]
    done = subprocess.run(command, env=offline, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "1"
