"""`agon config`: what each action prints, to the letter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agon.cli import main
from agon.config import Config, json_schema, load_config, resolved

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "configs" / "paper"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["config", *words]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_show_prints_a_config_that_loads_again(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "show", "configs/paper/main/grpo.yaml", "train.seed=4")
    config = Config.model_validate(yaml.safe_load(text))
    assert config == load_config(PAPER / "main/grpo.yaml", ["train.seed=4"])


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "show", "configs/paper/main/agon.yaml", "--json")
    assert json.loads(text) == resolved(load_config(PAPER / "main/agon.yaml"))


def test_show_says_where_values_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("show", "configs/paper/main/coop.yaml", "--origin", "train.seed=4")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in printed(capsys, *words).splitlines()}
    assert rows["arm"] == ['"coop"', "configs/paper/main/coop.yaml:3"]
    rank = Path("configs/paper/base.yaml").read_text().splitlines().index("    rank: 16") + 1
    assert rows["model.lora.rank"] == ["16", f"configs/paper/base.yaml:{rank}"]
    assert rows["game.stack"] == ['"coop"', "arm coop"]
    assert rows["train.seed"] == ["4", "command line"]
    assert rows["report_to"] == ["[]", "default"]


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "schema")) == json_schema()


DIFF = """\
            configs/paper/main/agon.yaml  configs/paper/with-kl.yaml
train.beta  0.0                           0.04
"""


def test_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "diff", "configs/paper/main/agon.yaml", "configs/paper/with-kl.yaml") == DIFF


def test_diff_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "diff", "configs/paper/main/agon.yaml", "configs/paper/with-kl.yaml", "--json")
    assert json.loads(text) == {"train.beta": {"old": 0.0, "new": 0.04}}


def test_diff_of_equals(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "diff", "configs/paper/main/agon.yaml", "configs/paper/density/agon.yaml")
    assert told == "the two configs are equal\n"


def test_a_bad_config_lists_its_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("arm: agon\nmodel: {name: x, sise: 3}\nverifier: math\ndata: {}\n")
    assert printed(capsys, "show", str(path), code=2).replace(f"{tmp_path}/", "") == (
        "error: bad.yaml: 4 mistakes, nothing was started\n"
        "  bad.yaml:2: model.sise: unknown key\n"
        "  bad.yaml:4: data.dev: is required\n"
        "  bad.yaml:4: data.held_out: is required\n"
        "  bad.yaml:4: data.train: is required\n"
        "fix: correct the lines above; `agon explain KEY` explains a key and the values it takes\n"
    )
