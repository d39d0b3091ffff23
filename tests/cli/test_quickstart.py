"""README's quickstart does what it says, command by command; `evidence/quickstart.py` runs it in full.

Here its demo is small, all commands share one process, and the calls that only Linux has are taken away: what it shows
is that every command works on what the one before it left, also without them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.test_without_linux import without_linux

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
from quickstart import WRITTEN, commands  # noqa: E402 - evidence/ is not a package

COMMANDS = commands()
AFTER = [
    ["agon", "export", "runs/demo", "--to", "peft", "-o", "pair"],
]
SCRIPT = """
import json, sys
from importlib.resources import files
from agon.cli import main
from agon.matrix import demo

small = {"data.dev.take": 2, "data.held_out.take": 6, "train.max_steps": 2, "train.problems_per_step": 2}
kept = (word for word in demo.SETTINGS if word.split("=")[0] not in small)
demo.SETTINGS = (*kept, *(f"{key}={value}" for key, value in small.items()))
recipe = files("agon") / "recipes" / "tabletop.yaml"

def run_arms(root, seed, show):
    for arm in demo.ARMS:
        assert all(main(words[1:]) == 0 for words in arm.commands(root, recipe, seed))

demo.run_arms = run_arms
for _, *words in json.loads(sys.argv[1]):
    print("$", *words, flush=True)
    assert main(words) == 0, words
"""


def test_the_block_holds_commands_that_parse() -> None:
    from agon.cli import parser_of

    assert [words[0] for words in COMMANDS] == ["agon"] * len(COMMANDS)
    assert COMMANDS[0] == ["agon", "demo"]
    for _, name, *rest in COMMANDS:
        parser_of(name).parse(rest)


@pytest.mark.slow
def test_the_quickstart_runs_as_it_is_written(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="the demo trains real policies")
    told = without_linux(SCRIPT, tmp_path, json.dumps([*COMMANDS, *AFTER]))
    assert all((tmp_path / name).is_file() for name in WRITTEN)
    assert (tmp_path / "pair" / "README.md").is_file()
    assert "6 held-out problems" in told
    assert "pair, one reads the other's draft" in told
