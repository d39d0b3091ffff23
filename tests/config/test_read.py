"""YAML as we read it: values, places, and what is refused."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.config import load_config
from agon.config.read import Place, Written, merge, parse
from agon.errors import ConfigError, InputError

from .helpers import MINIMAL, faults, write


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("5e-05", 5e-5),
        ("1E3", 1000.0),
        ("-1.5e+2", -150.0),
        (".5", 0.5),
        ("2.", 2.0),
        ("12", 12),
        ("-3", -3),
        ("15_000", 15000),
        ("010", 10),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("0x10", "0x10"),
        ("'16'", "16"),
        ('"true"', "true"),
        ("1e", "1e"),
        ("[1, b, {c: 2.5}]", [1, "b", {"c": 2.5}]),
    ],
)
def test_scalars_are_read_as_they_look(text: str, value: Any) -> None:
    written = Written()
    read = parse(text, "f", written)
    assert (read, type(read)) == (value, type(value))
    assert not written.faults


def test_every_key_has_its_place() -> None:
    written = Written()
    parse("a:\n  b: 1\n  c: [x,\n      y]\n", "f", written)
    assert written.places == {
        ("a",): Place("f", 1),
        ("a", "b"): Place("f", 2),
        ("a", "c"): Place("f", 3),
        ("a", "c", "0"): Place("f", 3),
        ("a", "c", "1"): Place("f", 4),
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3\n", "f:3: a: written twice, first on line 1"),
        ("a: {b: 1, b: 2}\n", "f:1: a.b: written twice, first on line 1"),
        ("a: &x 1\nb: *x\n", "f:2: is not valid YAML: aliases (*name) are not supported; use `extends`"),
        ("a: !!python/name:os.system\n", "f:1: tags are not supported: remove !!python/name:os.system"),
        ("a: !own 1\n", "f:1: tags are not supported: remove !own"),
        ("a: [1\nb: 2\n", "f:2: is not valid YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", "f:2: is not valid YAML: found character '\\t' that cannot start any token"),
        ("{a: 1}: 2\n", "f:1: a key should be a string"),
        ("a: \x07\n", "f: is not valid YAML: has characters that YAML does not allow"),
        ("[" * 3000, "f: is nested too deeply to be a config"),
    ],
)
def test_what_is_refused(text: str, fault: str) -> None:
    written = Written()
    parse(text, "f", written)
    assert [f"{place}: {message}" for place, message in written.faults] == [fault]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml does not exist") as refused:
        load_config(tmp_path / "none.yaml")
    assert refused.value.fix == "write one first: agon init tabletop"
    (tmp_path / "mkdocs.yml").write_text("site_name: Mine\nnav:\n  - model: model.md\n")
    (tmp_path / "words.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError) as refused:
        load_config(tmp_path / "none.yaml")
    assert refused.value.fix == "write one first: agon init tabletop"
    (tmp_path / "mine.yaml").write_text("# mine\narm: grpo\n")
    with pytest.raises(InputError) as refused:
        load_config(tmp_path / "none.yaml")
    assert refused.value.fix == f"name one of: {tmp_path / 'mine.yaml'}"


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, not a config"):
        load_config(tmp_path)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(b"arm: \xff\xfe")
    assert faults(path) == ["run.yaml: cannot be read: not UTF-8 text"]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "- a\n- b\n", "agon\n"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    assert faults(write(tmp_path, text)) == ["run.yaml: should be a mapping of keys to values"]


def test_extends_takes_what_is_not_written(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL + "train: {seed: 3, epochs: 2}\n", "base.yaml")
    (tmp_path / "more").mkdir()
    child = write(tmp_path, "extends: ../base.yaml\narm: coop\ntrain: {seed: 4}\n", "more/child.yaml")
    grandchild = write(tmp_path, "extends: ./more/child.yaml\nmodel: {name: other/base}\n", "run.yaml")
    assert load_config(child).train.model_dump(include={"seed", "epochs"}) == {"seed": 4, "epochs": 2}
    config = load_config(grandchild)
    assert (config.arm, config.game.stack, config.model.name) == ("coop", "coop", "other/base")


def test_a_mistake_is_named_in_the_file_that_holds_it(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL + "train:\n  sede: 3\n", "base.yaml")
    path = write(tmp_path, "extends: base.yaml\ngame: {stack: advv}\n")
    assert faults(path) == [
        "base.yaml:11: train.sede: unknown key; did you mean train.seed?",
        "run.yaml:2: game.stack: should be 'coop', 'adv' or 'margin', not 'advv'; did you mean adv?",
    ]


def test_a_section_replaced_by_a_value_is_blamed_where_it_was_replaced(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL, "base.yaml")
    path = write(tmp_path, "extends: base.yaml\ndata: 5\n")
    assert faults(path) == ["run.yaml:2: data: should be a section of keys and values, not 5"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("extends: run.yaml", "run.yaml:1: extends: run.yaml leads back to this file"),
        ("extends: other.yaml", "other.yaml:1: extends: run.yaml leads back to this file"),
        ("extends: [a]", "run.yaml:1: extends: should be the path of a config file, not ['a']"),
    ],
)
def test_extends_that_leads_nowhere(tmp_path: Path, line: str, fault: str) -> None:
    write(tmp_path, "extends: run.yaml\n", "other.yaml")
    assert fault in faults(write(tmp_path, f"{line}\n{MINIMAL}"))


def test_extends_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, f"extends: ./none.yaml\n{MINIMAL}")
    assert faults(path) == ["run.yaml:1: extends: there is no file none.yaml"]


def test_merge_replaces_lists_and_keeps_what_is_below() -> None:
    assert merge({"a": {"b": 1, "c": [1, 2]}, "d": 1}, {"a": {"c": [3]}}) == {"a": {"b": 1, "c": [3]}, "d": 1}


LINES = st.sampled_from(
    [
        *MINIMAL.splitlines(),
        "extends: run.yaml",
        "game: {opponent: self}",
        "game:",
        "  stack: 3",
        "train: [1, 2]",
        "data: {train: {preset: []}}",
        "  train: {options: {a: [1]}}",
        "model: {lora: {targets: [1, {}]}}",
        "report_to: {wandb: 1}",
        "eval: {points: 1e400}",
        "? [a, b]",
        "- x",
        "arm: {}",
        "arm: [coop]",
        "null: 3",
        "verifier: 1.5",
    ]
)
OVERRIDES = st.sampled_from(
    ["arm=coop", "arm={}", "data.train=3", "data.train.take=x", "=", "a..b=1", "game=", "game.x={y: 1}", "x"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=14), st.lists(OVERRIDES, max_size=3))
def test_any_text_is_a_config_or_a_list_of_faults(lines: list[str], overrides: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ConfigError):
        load_config(write(Path(folder), "\n".join(lines)), overrides)


def test_an_empty_section_takes_nothing_away_and_can_be_overridden(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL + "train: {seed: 3}\n", "base.yaml")
    child = write(tmp_path, "extends: base.yaml\ntrain:\n  # epochs: 2\n")
    assert load_config(child).train.seed == 3
    alone = write(tmp_path, MINIMAL + "train:\n  # seed: 3\n", "alone.yaml")
    assert load_config(alone, ["train.seed=5"]).train.seed == 5
