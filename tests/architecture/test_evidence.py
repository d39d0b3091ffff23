"""Every number has a script that can fail, and every kept result has its script."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from .tree import ROOT, file_of, imports

sys.path.insert(0, str(ROOT / "evidence"))
import _lib
from _sources import extra_sources

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
    assert "arguments" in calls, f"{script.name} must call _lib.arguments"
    assert calls & {"verdict", "verdict_of_parts"}, f"{script.name} must end with _lib.verdict"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_that_runs_the_command_line_names_its_sources(script: Path) -> None:
    starts = re.search(r'"-m", "(agon|pytest)"', script.read_text())
    assert not starts or extra_sources(script), f"name in EXTRA_SOURCES of {script.name} what it starts"


@pytest.mark.parametrize("script", sorted((ROOT / "evidence").glob("*.py")), ids=lambda path: path.stem)
def test_a_script_imports_only_what_exists(script: Path) -> None:
    ours = [
        found for found in imports(script) if found.module.split(".")[0] in {"agon", "agon_judge", "agon_lens", "tests"}
    ]
    missing = [f"{found.place} imports {found.module}" for found in ours if not file_of(found.module)]
    assert not missing, "it moved or was renamed:\n" + "\n".join(missing)


@pytest.mark.parametrize("script", sorted((ROOT / "evidence").glob("*.py")), ids=lambda path: path.stem)
def test_a_script_imports_names_that_its_modules_have(script: Path) -> None:
    missing = []
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (source := file_of(node.module or "")):
            names = {alias.name for alias in node.names} - _names(source)
            missing += [f"{node.module}.{name}" for name in names if not file_of(f"{node.module}.{name}")]
    assert not missing, f"{script.name} imports what is not there: {missing}"


@cache
def _names(source: Path) -> set[str]:
    """Whatever a module gives a name to, anywhere in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("result", RESULTS, ids=lambda path: path.stem)
def test_a_kept_result_is_whole_and_named_after_its_script(result: Path) -> None:
    record = json.loads(result.read_text())
    assert (ROOT / "evidence" / f"{result.stem}.py").exists(), f"no script makes {result.name}"
    assert record["name"] == result.stem
    assert {"value", "goal"} <= record.keys()
    wrong = [key for key, kind in (VERDICT | MEASURED).items() if not isinstance(record.get(key), kind)]
    wrong += ["sources"] if not isinstance(record.get("sources", ""), str) else []
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
