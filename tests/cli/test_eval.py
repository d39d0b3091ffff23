"""`agon eval` on a run as it stands on disk: in this process, over a URL, twice, and on what must be refused."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from agon.cli import main
from agon.config import load_config
from agon.data import splits
from agon.engine.base import PROMPT_ROOM
from agon.engine.render import Renderer
from agon.engine.shipped import folder_of
from agon.errors import InputError
from agon.eval.target import find
from agon.game.prompts import PROMPTS_HASH
from agon.rundir import RunDir
from agon.rundir.files import weights_hash
from agon.rundir.manifest import SplitFacts
from agon.rundir.pair import PairInfo
from agon.rundir.records import Point, RunState
from agon.types import Direction, Policy, Version
from tests.engine.helpers.servers import VERSIONS, adapters, serving

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CONFIG = CONFIGS / "tabletop" / "agon.yaml"
SIZES = ["data.train.take=8", "data.dev.take=4", "data.held_out.take=6", "eval.temperature=0.0", "eval.top_p=1.0"]
SIZES += ["eval.max_completion_tokens=64", "train.max_peek_tokens=64"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has a pair."""
    root = tmp_path_factory.mktemp("runs")
    config = load_config(CONFIG, SIZES)
    run = RunDir.create(root, "tiny", config, SplitFacts(hashes=splits(config.data).hashes))
    folders = adapters(tmp_path_factory.mktemp("adapters"))
    template = Renderer.load(str(folder_of("agon:tiny"))).hash
    info = PairInfo(
        versions=VERSIONS,
        base="agon:tiny",
        base_hash=weights_hash(folder_of("agon:tiny")),
        prompts_hash=PROMPTS_HASH,
        chat_template_hash=template,
        direction=Direction.BA,
        arm="agon",
    )
    run.write_pair(folders[Policy.A], folders[Policy.B], info)
    return run.path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def evaluated(run: Path, *words: str) -> dict[str, Any]:
    assert main(["eval", str(run), *words]) == 0
    folder = run / "evals" / "held_out"
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


@pytest.mark.slow
def test_a_run_is_evaluated_as_it_deploys_and_over_a_url_alike(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from agon.engine.hf.sampler import HFSampler

    here = evaluated(run)
    told = capsys.readouterr()
    assert here.keys() == {"ab", "ba", "a", "b", "cascade", "pair"}
    assert here["cascade"]["measures"] == here["ba"]["measures"]
    assert here["cascade"]["direction"]["chosen"] == "ba"
    assert "A drafts, B answers" in told.out
    assert "B drafts, A answers" in told.out
    assert "24 of 24 bouts" in told.err
    assert 0 < abs(here["pair"]["weights"]["cosine"]) < 1

    engine = HFSampler(str(folder_of("agon:tiny")))
    for policy in Policy:
        engine.publish(VERSIONS[policy], run / "pair" / policy.value)
    shutil.rmtree(run / "evals")
    with serving(engine) as url:
        over = evaluated(run, "--url", url, "--names", "base=tiny")
    engine.close()
    assert {n: r["measures"]["outcomes"] for n, r in over.items() if n != "pair"} == {
        n: r["measures"]["outcomes"] for n, r in here.items() if n != "pair"
    }
    capsys.readouterr()

    again = evaluated(run, "--url", "http://127.0.0.1:9/v1")
    assert again == over, "nothing is missing, so nobody is asked"


@pytest.fixture
def trained(run: Path) -> Path:
    """The run with checkpoints of steps 2 (A and B swapped) and 4 (as in `pair/`); dev was best at step 2."""
    opened, earlier = RunDir.open(run), {policy: Version.of(policy, 2, "0" * 8) for policy in Policy}

    def save(folder: Path, *, swapped: bool) -> None:
        for policy in Policy:
            shutil.copytree(run / "pair" / (policy.rival if swapped else policy).value, folder / policy.value)

    opened.save(2, partial(save, swapped=True), RunState(versions=earlier))
    opened.save(4, partial(save, swapped=False), RunState(versions=VERSIONS))
    opened.write_points([_point(2, 0.5), _point(4, 0.25)])
    facts = run / "pair" / "agon.json"
    facts.write_text(facts.read_text().replace('"step": null', '"step": 4'))
    return run


NAMES = ("held_out-2", "held_out-2@2")


def _point(step: int, score: float) -> Point:
    return Point(step=step, direction=Direction.AB, score=score, systems={})


@pytest.mark.slow
def test_an_earlier_step_is_evaluated_in_a_folder_of_its_own(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(trained), "--step", "best", "--limit", "2"]) == 0
    assert "run at step 2 on held_out-2@2: 2 problems" in capsys.readouterr().out
    result = json.loads((trained / "evals" / "held_out-2@2" / "cascade.json").read_text())
    assert (result["run"]["step"], result["direction"]["chosen"]) == (2, "ab")
    assert result["settings"]["versions"] == {"a": "a@000002-00000000", "b": "b@000002-00000000"}
    assert main(["eval", str(trained), "--step", "last", "--limit", "2"]) == 0
    assert "run at step 4 on held_out-2: 2 problems" in capsys.readouterr().out
    last, best = (json.loads((trained / "evals" / name / "pair.json").read_text()) for name in NAMES)
    norms = [(pair["weights"]["norm_a"], pair["weights"]["norm_b"]) for pair in (last, best)]
    assert norms[0] == norms[1][::-1], "the checkpoint's own adapters, which are swapped"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("3", "choose from: 2 (best), 4 (last)"),
        ("first", "write --step last, --step best, or a number"),
        ("+4", "write --step last, --step best, or a number"),
        ("99999999999999999999", "no checkpoint of step"),
    ],
)
def test_a_step_that_is_not_there_is_answered_with_those_that_are(
    trained: Path, capsys: pytest.CaptureFixture[str], step: str, told: str
) -> None:
    assert told in refused(capsys, str(trained), "--step", step)


def test_only_a_run_has_steps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "it has no steps" in refused(capsys, str(run / "pair"), "--config", str(CONFIG), "--step", "last")


@pytest.mark.parametrize(("system", "peeks"), [("base", 1), ("cascade", 1), ("moa", 2)])
def test_the_engine_has_room_for_what_the_systems_read(
    run: Path, monkeypatch: pytest.MonkeyPatch, system: str, peeks: int
) -> None:
    contexts: list[int] = []

    def opened(backend: object, context: int) -> None:
        contexts.append(context)
        raise InputError("enough")

    monkeypatch.setattr("agon.engine.backend.Backend.sampler", opened)
    assert main(["eval", str(run), "--system", system]) == 2
    assert contexts == [PROMPT_ROOM + 64 * peeks + 96], "64 tokens of a peek, 96 of a completion"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["eval", *words]) == 2
    told = capsys.readouterr().err
    assert len([line for line in told.splitlines() if line.startswith(("error:", "fix:"))]) == 2
    return told


def test_code_that_a_run_names_is_not_imported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("verifier: math", "verifier: os:system"))
    assert "name it yourself: agon eval" in refused(capsys, str(run))


@pytest.fixture
def secret(run: Path, tmp_path: Path) -> Path:
    """A stranger's run that wants a local file sent to a host of theirs."""
    file = tmp_path / "secret.csv"
    file.write_text("question,answer\n" + "".join(f"my key {n},{n}\n" for n in range(18)))
    config = yaml.safe_load((run / "config.yaml").read_text())
    for part in config["data"].values():
        if isinstance(part, dict):
            part.update(preset=None, path=str(file), options={}, take=3)
    config["sampler"] |= {"urls": ["http://203.0.113.5:8000"], "network": "0.0.0.0/0", "engine": "vllm"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["data"]["hashes"] = {}
    (run / "manifest.json").write_text(json.dumps(manifest))
    return file


def test_a_run_of_a_stranger_reads_no_file_and_asks_no_server_unasked(
    run: Path, secret: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    for part in ("agon.eval.target.splits", "agon.engine.vllm.server.HTTPClient"):
        monkeypatch.setattr(part, lambda *words, **more: opened.append("opened"))
    url, paths = (
        "sampler.urls=[http://203.0.113.5:8000]",
        [f"data.{p}.path={secret}" for p in ("held_out", "dev", "train")],
    )
    assert url in refused(capsys, str(run))
    assert "is a file" in refused(capsys, str(run), url)
    assert "would be sent problems" in refused(capsys, str(run), *paths)
    assert "cannot be set" in refused(capsys, str(run), url, "data.held_out.path=elsewhere.csv")
    assert opened == []


def test_a_file_that_is_named_again_is_read(run: Path, secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [f"data.{part}.path={secret}" for part in ("held_out", "dev", "train")]
    asked = ["--url", "http://127.0.0.1:9/v1", "--limit", "1"]
    code, told = main(["eval", str(run), *paths, *asked]), capsys.readouterr().err
    assert (code, "my key" in told) == (1, False)
    assert "drawing 4 bouts on held_out-1" in told
    assert not (run / "evals").exists(), "nothing was drawn"


@pytest.mark.parametrize("where", ["held_out-1", "held_out-1/a.jsonl", "held_out-1/a.json"])
def test_nothing_is_written_through_links_below_a_run(
    run: Path, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("no end of line")
    link = run / "evals" / where
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "mine" / ("file" if "." in where else ""))
    assert "is a link" in refused(capsys, str(run), "--limit", "1", "--system", "a", "--fresh")
    assert [(path.name, path.read_text()) for path in (tmp_path / "mine").iterdir()] == [("file", "no end of line")]


def test_a_runs_config_reads_no_other_config(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("verifier: math\n")
    path = run / "config.yaml"
    path.write_text(path.read_text() + f"extends: {tmp_path / 'other.yaml'}\n")
    assert "extends" in refused(capsys, str(run))


def test_data_that_is_not_the_runs_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["data"]["hashes"]["held_out"] = "0" * 16
    path.write_text(json.dumps(manifest))
    assert "held_out is not what it was" in refused(capsys, str(run))


def test_a_pair_of_other_prompts_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "pair" / "agon.json"
    path.write_text(path.read_text().replace(PROMPTS_HASH, "0" * 16))
    assert "different prompts" in refused(capsys, str(run))


def test_a_pair_of_another_base_under_the_same_name_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "pair" / "agon.json"
    held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"base_hash": "0" * 64}))
    assert "are not those" in refused(capsys, str(run))
    path.write_text(json.dumps(held | {"base_hash": None}))
    assert "no hash of its weights" in refused(capsys, str(run))


def test_a_place_that_cannot_be_written_to_is_answered_in_two_lines(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "evals").write_text("no folder")
    told = refused(capsys, str(run))
    assert "cannot write results" in told
    assert "--out DIR" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train.seed=1"], "was trained as it was"),
        (["--system", "self-refine"], "self-cascade"),
        (["--system", "nothing"], "there is no system"),
        (["--samples", "0"], "--samples must be at least 1"),
        (["--names", "a=x"], "add --url"),
        (["--config", "x.yaml"], "brings its own config"),
        (["--data", "nothing"], "nothing"),
    ],
)
def test_mistakes_are_answered_in_two_lines(
    run: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert told in refused(capsys, str(run), *words)


def test_a_pair_or_model_needs_a_config(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--config" in refused(capsys, str(run / "pair"))
    assert "--config" in refused(capsys, "agon:tiny")


@pytest.mark.parametrize("word", ["eval.direction=both", "rival.kind=frozen", "game.wait_for_all_drafts=true"])
def test_a_pair_is_read_by_its_own_rules_whatever_the_config_trains(run: Path, word: str) -> None:
    path = run / "pair" / "agon.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"arm": "grpo", "show_code": True}))
    target = find(str(run / "pair"), CONFIG, [*SIZES, word])
    assert target.game is not None
    assert (target.config.arm, target.game.opponent, target.game.show_code) == ("grpo", "none", True)


@pytest.mark.parametrize("code", [True, False])
def test_a_pair_shows_programs_as_in_training(run: Path, code: bool) -> None:
    path = run / "pair" / "agon.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"show_code": code}))
    target = find(str(run / "pair"), CONFIG, [*SIZES, f"game.show_code={str(not code).lower()}"])
    assert target.config.game.show_code is code


def test_a_bare_model_is_that_of_the_config_at_its_revision() -> None:
    paper, commit = CONFIGS / "paper" / "base.yaml", "a" * 40
    paper_commit = load_config(paper, ["arm=grpo"]).model.revision

    def revision(name: str, file: Path, *words: str) -> str | None:
        return find(name, file, words).config.model.revision

    assert revision("Qwen/Qwen3-0.6B", paper, "arm=grpo") == paper_commit is not None
    assert revision("Qwen/Qwen3-0.6B", paper, "arm=grpo", f"model.revision={commit}") == commit
    assert revision("Qwen/Qwen3-4B", paper, "arm=grpo") is None
    assert revision("Qwen/Qwen3-4B", paper, "arm=grpo", f"model.revision={commit}") == commit


def test_help_names_every_system() -> None:
    from agon.cli.eval import SYSTEM
    from agon.eval.systems import NAMES

    assert tuple(SYSTEM.split(";")[0].split(", ")) == NAMES
