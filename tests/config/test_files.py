"""The config files of the repository and the recipes of the package: all parse, and say what they claim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agon.cli.init import recipes
from agon.config import diff, load_config
from agon.config.arms import ARMS
from agon.config.keys import names
from agon.config.read import read

from .helpers import description

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "configs" / "paper"
FILES = sorted([*(ROOT / "configs").rglob("*.yaml"), *(ROOT / "src" / "agon" / "recipes").glob("*.yaml")])

# table row -> (file, arm, base)
ROWS = {
    "main: vanilla GRPO": ("main/grpo", "grpo", "Qwen/Qwen3-0.6B"),
    "main: self-refinement": ("main/self-refine", "self-refine", "Qwen/Qwen3-0.6B"),
    "main: shared opponent": ("main/shared-opponent", "shared-opponent", "Qwen/Qwen3-0.6B"),
    "main: cooperative": ("main/coop", "coop", "Qwen/Qwen3-0.6B"),
    "main: Agon": ("main/agon", "agon", "Qwen/Qwen3-0.6B"),
    "scaling: 0.6B GRPO": ("scaling/qwen3-0.6b-grpo", "grpo", "Qwen/Qwen3-0.6B"),
    "scaling: 0.6B Agon": ("scaling/qwen3-0.6b-agon", "agon", "Qwen/Qwen3-0.6B"),
    "scaling: 1.7B GRPO": ("scaling/qwen3-1.7b-grpo", "grpo", "Qwen/Qwen3-1.7B"),
    "scaling: 1.7B Agon": ("scaling/qwen3-1.7b-agon", "agon", "Qwen/Qwen3-1.7B"),
    "scaling: 4B GRPO": ("scaling/qwen3-4b-grpo", "grpo", "Qwen/Qwen3-4B"),
    "scaling: 4B Agon": ("scaling/qwen3-4b-agon", "agon", "Qwen/Qwen3-4B"),
    "scaling: Qwen3.5 GRPO": ("scaling/qwen3.5-2b-grpo", "grpo", "Qwen/Qwen3.5-2B"),
    "scaling: Qwen3.5 Agon": ("scaling/qwen3.5-2b-agon", "agon", "Qwen/Qwen3.5-2B"),
    "scaling: Gemma GRPO": ("scaling/gemma-4-e4b-grpo", "grpo", "google/gemma-4-E4B-it"),
    "scaling: Gemma Agon": ("scaling/gemma-4-e4b-agon", "agon", "google/gemma-4-E4B-it"),
    "code: GRPO": ("code/grpo", "grpo", "Qwen/Qwen3-1.7B"),
    "code: cooperative": ("code/coop", "coop", "Qwen/Qwen3-1.7B"),
    "code: Agon": ("code/agon", "agon", "Qwen/Qwen3-1.7B"),
    "ablations: cooperative": ("ablations/cooperative", "coop", "Qwen/Qwen3-0.6B"),
    "ablations: shared opponent": ("ablations/shared-opponent", "shared-opponent", "Qwen/Qwen3-0.6B"),
    "ablations: margin": ("ablations/margin", "margin", "Qwen/Qwen3-0.6B"),
    "ablations: fixed roles": ("ablations/fixed-roles", "fixed-roles", "Qwen/Qwen3-0.6B"),
    "ablations: Agon": ("ablations/agon", "agon", "Qwen/Qwen3-0.6B"),
    "density: length-free": ("density/agon", "agon", "Qwen/Qwen3-0.6B"),
    "density: tiebreak": ("density/tiebreak", "tiebreak", "Qwen/Qwen3-0.6B"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_config_file_is_a_config(path: Path) -> None:
    load_config(path)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_paper_has_its_file(row: str) -> None:
    file, arm, base = ROWS[row]
    config = load_config(PAPER / f"{file}.yaml")
    assert (config.arm, config.model.name) == (arm, base)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_differs_from_the_headline_run_in_what_it_is_about_only(row: str) -> None:
    config = load_config(PAPER / f"{ROWS[row][0]}.yaml")
    allowed = {
        "arm",
        "model.name",
        "model.revision",
        *(f"game.{field}" for arm in ARMS.values() for field in arm.change),
    }
    if row.startswith("code"):
        allowed |= {"verifier", "data.train.preset", "data.dev.preset", "data.held_out.preset"}
        allowed |= {"data.train.take", "data.dev.take"}
    assert set(diff(load_config(PAPER / "base.yaml"), config)) <= allowed


def test_the_paper_has_no_other_files() -> None:
    files = {str(path.relative_to(PAPER).with_suffix("")) for path in PAPER.rglob("*.yaml")}
    assert files == {file for file, _, _ in ROWS.values()} | {"base", "code/base", "with-kl"}


def test_the_numbers_of_the_paper_stand_in_the_recipe() -> None:
    config = load_config(PAPER / "main" / "agon.yaml")
    assert (config.game.group_size, config.game.format_weight, config.model.lora.rank) == (8, 0.5, 16)
    assert (config.train.learning_rate, config.train.schedule, config.train.warmup) == (5e-5, "linear", 0.1)
    assert (config.train.epochs, config.data.train.take, config.data.held_out.take) == (1, 3000, 300)
    assert config.train.max_completion_tokens == config.eval.max_completion_tokens == 15_000
    assert (config.eval.temperature, config.eval.top_p, config.eval.samples) == (0.6, 0.95, 1)
    assert config.save.pair == "last", "the paper's tables are the ends of its curves"
    assert load_config(PAPER / "density" / "tiebreak.yaml").game.tiebreak_weight == 0.5


def test_one_recipe_has_a_kl_term() -> None:
    config = load_config(PAPER / "with-kl.yaml")
    assert config.train.beta > 0
    assert diff(load_config(PAPER / "main" / "agon.yaml"), config) == ["train.beta"]


def own_keys(path: Path) -> dict[str, int]:
    """The keys that a file itself writes, with their lines."""
    name = str(path)
    return {".".join(key): place.line for key, place in read(name).places.items() if place.file == name}


@pytest.mark.parametrize("path", sorted(PAPER.rglob("*.yaml")), ids=lambda path: str(path.relative_to(PAPER)))
def test_what_the_paper_does_not_give_is_marked_ours(path: Path) -> None:
    lines = path.read_text().splitlines()
    keys = {key: line for key, line in own_keys(path).items() if key != "extends"}
    ours = {key for key in keys if description(key).startswith("Our choice:")}
    unmarked = [key for key in ours if "# ours" not in lines[keys[key] - 1]]
    assert not unmarked


def test_the_base_recipe_writes_every_choice_of_ours_that_moves_a_result() -> None:
    mechanical = {"model.revision", "train.max_steps", "train.gpus", "game.wait_for_all_drafts"}
    moving = ("model", "model.lora", "model.init", "data", "game", "train", "eval", "save")
    keys = [key for key in names() if key.rpartition(".")[0] in moving]
    wanted = {key for key in keys if description(key).startswith("Our choice:")}
    assert wanted - mechanical <= set(own_keys(PAPER / "base.yaml"))


def test_the_readme_names_every_row() -> None:
    text = (PAPER / "README.md").read_text()
    named = set()
    for name in re.findall(r"`([\w./{},-]+\.yaml)`", text):
        stem, _, rest = name.partition("{")
        options, _, end = rest.partition("}")
        named |= {stem + option + end for option in options.split(",")} if rest else {name}
    assert {f"{file}.yaml" for file, _, _ in ROWS.values()} <= named
    assert all((PAPER / name).is_file() for name in named)
    assert all(f"--system {system}" in text for system in ("base", "moa", "self-cascade"))


def test_the_package_ships_the_recipes_that_init_offers() -> None:
    assert sorted(recipes()) == [
        *("codecontests-easy", "custom", "deepmath-day", "deepmath-hard", "gsm8k"),
        *("qwen3-8b-24gb", "smoke", "tabletop"),
    ]


def test_the_recipe_of_the_paper_is_the_config_of_the_paper() -> None:
    recipe = load_config(ROOT / "src" / "agon" / "recipes" / "deepmath-hard.yaml")
    assert diff(load_config(PAPER / "main" / "agon.yaml"), recipe) == []


def test_the_tabletop_recipe_is_the_tabletop_config() -> None:
    recipe = load_config(ROOT / "src" / "agon" / "recipes" / "tabletop.yaml")
    assert diff(load_config(ROOT / "configs" / "tabletop" / "agon.yaml"), recipe) == []


@pytest.mark.parametrize(
    ("words", "kept"),
    [([], True), (["model.name=Qwen/Qwen3-0.6B"], True), (["model.name=some/other"], False)],
)
def test_a_revision_goes_with_its_base(words: list[str], kept: bool, tmp_path: Path) -> None:
    """A commit of one repository is none of another."""
    assert (load_config(PAPER / "main" / "agon.yaml", words).model.revision is not None) is kept
    child = tmp_path / "child.yaml"
    child.write_text(f"extends: {PAPER / 'main' / 'agon.yaml'}\nmodel: {{name: some/other}}\n")
    assert load_config(child).model.revision is None
    both = ["model.revision=v1", "model.name=some/other"]
    assert load_config(PAPER / "main" / "agon.yaml", both).model.revision == "v1"


def test_every_base_of_the_paper_with_a_revision_has_one_revision() -> None:
    configs = [load_config(path) for path in PAPER.rglob("*.yaml")]
    pairs = {(config.model.name, config.model.revision) for config in configs}
    assert len({name for name, _ in pairs}) == len(pairs)
    commits = [revision for _, revision in pairs if revision]
    assert commits
    assert all(re.fullmatch("[0-9a-f]{40}", revision) for revision in commits)
