"""Import direction and light import: the boundary between the game and the machines, as tests."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .tree import ROOT, SOURCE, file_of, imports, modules, name_of, within

HEAVY = ("torch", "transformers", "peft", "trl", "vllm", "accelerate", "tokenizers", "safetensors", "tinker")
SLOW_TO_IMPORT = (
    *HEAVY,
    "datasets",
    "pandas",
    "numpy",
    "scipy",
    "matplotlib",
    "sympy",
    "math_verify",
    "pyarrow",
)


def strays(folder: str, *allowed: str) -> list[str]:
    """The imports of agon modules and third-party packages under a folder that are not among the allowed."""
    return [
        f"{found.place} imports {found.module}"
        for path in modules(folder)
        for found in imports(path)
        if found.module.split(".")[0] not in sys.stdlib_module_names and not within(found.module, *allowed)
    ]


def uses(paths: list[Path], *packages: str, only_at_import: bool = False) -> list[str]:
    """The imports of these packages in these files."""
    return [
        f"{found.place} imports {found.module}"
        for path in paths
        for found in imports(path)
        if within(found.module, *packages) and (found.at_import or not only_at_import)
    ]


def loading(path: Path) -> list[ast.Call]:
    """Calls of transformers' Auto classes that may run code of a checkpoint."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "from_pretrained"
        and ast.unparse(call.func.value).startswith("Auto")
    ]


@pytest.mark.parametrize("path", [path for path in modules() if loading(path)], ids=lambda path: path.stem)
def test_code_of_a_checkpoint_never_runs(path: Path) -> None:
    """Unset, transformers asks whoever sits at the terminal, and runs it on `y`."""
    for call in loading(path):
        said = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert said.get("trust_remote_code") == "False", f"{path.name}:{call.lineno}: set trust_remote_code=False"
        assert "Model" not in ast.unparse(call.func) or said.get("use_safetensors") == "True", f"{path}:{call.lineno}"


def outside(*folders: str) -> list[Path]:
    return [path for path in modules() if path.relative_to(SOURCE).parts[0] not in folders]


def test_the_contracts_hold() -> None:
    """Who may import whom stands in pyproject.toml, [tool.importlinter]."""
    done = subprocess.run([Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_game_imports_the_standard_library_types_and_the_reading_of_answers() -> None:
    found = strays("game", "agon.types", "agon.game", "agon_judge.answers")
    assert not found, "game/ is arithmetic on verdicts and strings; hand it what it needs as values:\n" + "\n".join(
        found
    )


NOUNS = ("agon_judge.answers", "agon_judge.unit_tests", "agon_judge.verdict")
"""What the judge and the game share."""


def test_types_and_errors_stand_on_the_nouns_of_the_judge() -> None:
    found = strays("types.py", *NOUNS) + strays("errors.py")
    assert not found, "types.py imports the standard library and NOUNS, errors.py the standard library:\n" + "\n".join(
        found
    )


@pytest.mark.parametrize("module", NOUNS)
def test_what_the_judge_shares_is_of_the_standard_library(module: str) -> None:
    path = file_of(module)
    assert path is not None
    found = [
        imported.module
        for imported in imports(path)
        if imported.module.split(".")[0] not in sys.stdlib_module_names and imported.module not in NOUNS
    ]
    assert not found, f"{module} is imported by the game and by `agon --help`: {found}"


def test_protocols_know_the_nouns_only() -> None:
    found = strays("protocols.py", "agon.types")
    assert not found, "protocols.py says what the game asks of a machine; it may import agon.types:\n" + "\n".join(
        found
    )


def test_the_algorithm_knows_protocols_and_never_an_implementation() -> None:
    found = strays("algorithm.py", "agon.types", "agon.errors", "agon.game", "agon.protocols")
    assert not found, "algorithm.py may import agon.types, agon.game and agon.protocols:\n" + "\n".join(found)


def test_heavy_packages_are_imported_under_engine_only() -> None:
    found = uses(outside("engine"), *HEAVY)
    assert not found, "torch and its kin belong under engine/; call an engine instead:\n" + "\n".join(found)


def test_an_engine_does_not_know_what_a_rival_is() -> None:
    found = uses(modules("engine"), "agon.game", "agon.algorithm", "agon.config.arms", "agon.training", "agon.eval")
    assert not found, "engine/ draws completions and moves weights; it never imports the game:\n" + "\n".join(found)


def test_datasets_is_imported_under_data_inside_functions() -> None:
    found = uses(outside("data"), "datasets") + uses(modules("data"), "datasets", only_at_import=True)
    assert not found, "`datasets` belongs under data/, inside the function that loads:\n" + "\n".join(found)


def test_reports_read_files_and_never_import_engine_or_training() -> None:
    found = uses(modules("report"), "agon.engine", "agon.training")
    assert not found, "report/ needs nothing but a run directory:\n" + "\n".join(found)


def test_the_renderer_never_imports_torch() -> None:
    found = uses([SOURCE / "engine" / "render.py"], "torch", "peft", "trl", "vllm", "accelerate")
    assert not found, "prompts are rendered on machines without torch too:\n" + "\n".join(found)


@pytest.mark.parametrize("folder", ["cli", "engine"])
def test_commands_and_engines_import_heavy_packages_inside_functions(folder: str) -> None:
    light = [
        path for path in modules(folder) if folder == "cli" or path.name in {"__init__.py", "build.py", "scripted.py"}
    ]
    found = uses(light, *SLOW_TO_IMPORT, only_at_import=True)
    assert not found, "move the import into the function that needs it:\n" + "\n".join(found)


def loaded_by(statement: str) -> set[str]:
    """The top-level packages in sys.modules after a statement, in a fresh interpreter."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["report.document", "eval.run", "training.run", "matrix.cells"])
def test_machines_are_loaded_only_when_they_are_used(module: str) -> None:
    loaded = loaded_by(f"import agon.{module}") & set(HEAVY)
    assert not loaded, f"`import agon.{module}` loads {sorted(loaded)}: import them inside the function that needs them"


@pytest.mark.parametrize("statement", ["import agon", "import agon.cli", "import agon.algorithm, agon.engine.scripted"])
def test_a_light_import_loads_no_heavy_package(statement: str) -> None:
    assert loaded_by(statement).isdisjoint(SLOW_TO_IMPORT), f"`{statement}` must stay light"


def test_every_module_is_reachable_by_name() -> None:
    nameless = [
        str(path.relative_to(ROOT)) for path in modules() if not all(map(str.isidentifier, name_of(path).split(".")))
    ]
    assert not nameless, f"not importable: {nameless}"


def test_every_package_has_an_init() -> None:
    folders = {path.parent for path in modules()}
    missing = [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    assert not missing, f"without __init__.py a folder ships but is not typed: {missing}"
