"""Every number has a script that can fail, and every kept result has its script."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from .tree import ROOT

sys.path.insert(0, str(ROOT / "evidence"))
import _lib

SCRIPTS = sorted((ROOT / "evidence").glob("[!_]*.py"))
RESULTS = sorted((ROOT / "evidence" / "results").glob("*.json"))
VERDICT = {"claim": str, "holds": bool}
MEASURED = {"name": str, "seconds": float, "commit": str, "dirty": bool, "versions": dict, "hardware": dict}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_evidence_script_ends_with_a_verdict(script: Path) -> None:
    calls = {
        ast.unparse(node.func).split(".")[-1]
        for node in ast.walk(ast.parse(script.read_text()))
        if isinstance(node, ast.Call)
    }
    assert {"arguments", "verdict"} <= calls, f"{script.name} must call _lib.arguments and _lib.verdict"


@pytest.mark.parametrize("result", RESULTS, ids=lambda path: path.stem)
def test_a_kept_result_is_whole_and_named_after_its_script(result: Path) -> None:
    record = json.loads(result.read_text())
    assert (ROOT / "evidence" / f"{result.stem}.py").exists(), f"no script makes {result.name}"
    assert record["name"] == result.stem
    assert {"value", "goal"} <= record.keys()
    wrong = [key for key, kind in (VERDICT | MEASURED).items() if not isinstance(record.get(key), kind)]
    assert not wrong, f"{result.name}: {wrong} missing or of the wrong kind; run scripts/prove {result.stem}"


def run_script(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'evidence')!r})\nfrom _lib import arguments, verdict\n{body}\n"
    )
    return subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True)


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_is_the_verdict(tmp_path: Path, holds: bool, code: int) -> None:
    done = run_script(tmp_path, f"print(arguments('x').quick)\nverdict('a claim', 3, 2, {holds}, n=8)")
    assert done.returncode == code
    line = json.loads(done.stdout.splitlines()[-1])
    assert line == {"claim": "a claim", "value": 3, "goal": 2, "holds": holds, "n": 8}


def test_a_value_that_is_not_a_number_gives_no_verdict(tmp_path: Path) -> None:
    done = run_script(tmp_path, "verdict('a claim', float('nan'), 2, True)")
    assert done.returncode == 1
    assert not done.stdout


@pytest.fixture(scope="module")
def prove() -> ModuleType:
    loader = SourceFileLoader("prove", str(ROOT / "scripts" / "prove"))
    module = module_from_spec(spec_from_loader("prove", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("line", ["", "done", "[1]", '{"claim": "a", "value": 1, "goal": 1}'])
def test_what_is_not_a_verdict_is_no_verdict(prove: ModuleType, line: str) -> None:
    assert prove.read_verdict(line) is None


@pytest.mark.parametrize("name", ["/ho" + "me/someone/data", socket.gethostname()])
def test_a_result_that_names_the_machine_is_not_kept(prove: ModuleType, name: str) -> None:
    with pytest.raises(SystemExit, match="this machine"):
        prove.keep("nothing", {"claim": f"read {name}"}, 1.0, {})
    assert not (ROOT / "evidence" / "results" / "nothing.json").exists()


def test_a_result_whose_keys_a_kept_one_needs_is_refused(prove: ModuleType) -> None:
    with pytest.raises(SystemExit, match="seconds"):
        prove.keep("nothing", {"claim": "fast", "seconds": 0.02}, 123.0, {"commit": "0"})
    assert not (ROOT / "evidence" / "results" / "nothing.json").exists()


def test_a_script_whose_exit_code_contradicts_its_verdict_gives_none(prove: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""print('{"claim": "a", "value": 1, "goal": 1, "holds": true}')\nraise SystemExit(1)""")
    assert prove.run(script, quick=True)[0] is None


def test_percentiles_interpolate() -> None:
    assert _lib.median([4, 1, 3, 2]) == 2.5
    assert _lib.percentile([1, 2, 3], 0) == 1
    assert _lib.percentile([1, 2, 3], 100) == 3
    with pytest.raises(ValueError, match="no values"):
        _lib.median([])


def test_the_interval_of_a_ratio_holds_the_ratio_and_shrinks_with_data() -> None:
    few = _lib.ratio_interval([1, 2, 3, 4], [2, 2, 2, 2])
    many = _lib.ratio_interval([1, 2, 3, 4] * 25, [2, 2, 2, 2] * 25)
    assert few[0] == many[0] == 1.25
    assert few[1] < many[1] < 1.25 < many[2] < few[2]


def test_a_constant_ratio_has_no_width() -> None:
    assert _lib.ratio_interval([2, 4, 6], [1, 2, 3]) == (2, 2, 2)


def test_the_machine_is_described_without_its_name() -> None:
    described = json.dumps(_lib.hardware())
    assert {"cores", "memory_gib", "cpu_flags"} <= _lib.hardware().keys()
    assert subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout.strip() not in described
