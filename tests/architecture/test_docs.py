"""The words around the code are true: commands, files and links that the docs name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from agon.cli import OLD, commands

from .tree import ROOT, tracked

PAGES = [path for path in tracked() if path.suffix == ".md" and path.parts[-2] != "fixtures"]
NAMES = {name for group in commands()[0].values() for name in group} | {old[0] for old in OLD}
COMMAND = re.compile(r"(?:^|[`$] ?)agon ([a-z][\w-]*)", re.MULTILINE)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)#\s]+)[^)]*\)")
FILE = re.compile(r"`((?:evidence|scripts|configs|docs|tests|examples|src|packages|constraints)/[\w./-]*\w)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_only_commands_that_exist(page: Path) -> None:
    unknown = {word for word in COMMAND.findall(page.read_text()) if word not in NAMES}
    assert not unknown, f"{name_of(page)} names commands that do not exist: {sorted(unknown)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if not re.match(r"[a-z]+:", link)]
    broken = [link for link in targets if not (page.parent / link).exists()]
    assert not broken, f"{name_of(page)} links to what is not there: {broken}"


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(
        r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_links_only_to_headings_that_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*\.md)?#([^)\s]+)\)", page.read_text())
    broken = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in anchors((page.parent / (file or page)).read_text())
    ]
    assert not broken, f"{name_of(page)} links to headings that are not there: {broken}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_only_files_that_exist(page: Path) -> None:
    missing = [name for name in FILE.findall(page.read_text()) if not (ROOT / name).exists()]
    assert not missing, f"{name_of(page)} names files that are not there: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_install_from_a_clone_names_the_packages_that_no_index_has(page: Path) -> None:
    first = re.findall(r"pip install [^`\n]*-e '?\.(?!\w)(?:\[(?:train|serve|tinker))?(?!\[)", page.read_text())
    short = [line for line in first if "packages/judge" not in line or "packages/lens" not in line]
    assert not short, f"{name_of(page)}: add -e packages/judge -e packages/lens to {short}"


def test_the_front_page_explains_before_it_asks() -> None:
    page = (ROOT / "README.md").read_text()
    evidence, _, doors = page.partition("## Three ways in")
    assert evidence.index("Nobody has reproduced that") < evidence.index("the bonus did nothing")
    assert re.search(r"hours.*\$\d+", evidence, re.DOTALL), "what it costs, in hours and dollars"
    assert doors.index("git clone") < doors.index("pip install")
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", page, flags=re.DOTALL)
    private = re.findall(
        r"\b(?:bouts?|peeks?|arms?|cells?|worlds?|golds?|policy|policies|bites)\b", prose, re.IGNORECASE
    )
    assert not private, f"README uses words that it does not explain: {private}"


def test_the_quickstart_shows_the_example_as_it_is() -> None:
    _, _, code = (ROOT / "examples" / "train_evaluate_compare.py").read_text().partition('"""\n\n')
    assert f"```python\n{code}```" in (ROOT / "docs" / "quickstart.md").read_text()


def test_the_version_is_the_same_everywhere() -> None:
    import agon

    assert f"\nversion: {agon.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'\nversion = "{agon.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


def test_the_house_is_furnished() -> None:
    wanted = ["README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"]
    wanted += ["SECURITY.md", ".ci/run", ".github/PULL_REQUEST_TEMPLATE.md"]
    missing = [name for name in wanted if not (ROOT / name).exists()]
    assert not missing


def test_records_of_decisions_are_no_pages() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    assert "exclude_docs: decisions/ " in site
    assert ": decisions/0" not in site


def site_pages() -> ModuleType:
    """The hook of the site, as mkdocs loads it."""
    spec = spec_from_file_location("site_pages", ROOT / "scripts" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "written", "shown"),
    [
        ("CONTRIBUTING.md", "docs/algorithm.md#the-rewards", "algorithm.md#the-rewards"),
        ("CONTRIBUTING.md", "CHANGELOG.md", "changelog.md"),
        ("configs/paper/README.md", "../../docs/algorithm.md", "algorithm.md"),
        ("docs/index.md", "../SECURITY.md", "security.md"),
        ("docs/results/tabletop.md", "../../CHANGELOG.md", "../changelog.md"),
        ("docs/tour.md", "https://example.org/LAB.md", "https://example.org/LAB.md"),
    ],
)
def test_a_link_works_in_the_repository_and_on_the_site(source: str, written: str, shown: str) -> None:
    assert site_pages().with_links(f"see [it]({written}).", source) == f"see [it]({shown})."


@pytest.mark.parametrize("link", ["there.md", "there.md#here", "gone.md", "there.md#gone", "#gone"])
def test_a_broken_link_or_anchor_fails_the_build(tmp_path: Path, link: str) -> None:
    (words,) = re.findall(r"-m mkdocs (.*) --site-dir", (ROOT / "scripts" / "docs").read_text())
    checked = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["validation"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n[link]({link})\n")
    (tmp_path / "docs" / "there.md").write_text("# There\n\n## Here\n")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({"site_name": "x", "validation": checked}))
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words.split()], cwd=tmp_path, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert (built.returncode != 0) == ("gone" in link)


def test_a_link_to_a_file_that_is_no_page_becomes_its_path() -> None:
    text = "[game](see_the_game.ipynb), [why](../docs/decisions/0009-rooms.md), [x](../docs/canary.md), [gone](nope.py)"
    shown = "`examples/see_the_game.ipynb`, `docs/decisions/0009-rooms.md`, [x](../docs/canary.md), [gone](nope.py)"
    assert site_pages().without_files(text, "examples/README.md") == shown


def test_the_site_has_six_entries_and_lists_every_page_for_programs(tmp_path: Path) -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert len(nav) == 6
    hook = site_pages()
    hook.SENTENCES["quickstart.md"] = hook.first_sentence(
        "# Title\n\n```\ncode\n```\n\n- list\n\nSee [it](x.md) run. More."
    )
    hook.on_post_build(SimpleNamespace(site_name="Agon", site_description="What it is.", nav=nav, site_dir=tmp_path))
    lines = (tmp_path / "llms.txt").read_text().splitlines()
    assert lines[:3] == ["# Agon", "", "> What it is."]
    assert "- [Quickstart](quickstart/): See it run." in lines
    assert "- [Home](./): " in lines
    pages = {page for section in nav for pages in section.values() for _, page in hook.flat(pages)}
    assert sum(line.startswith("- [") for line in lines) == len(pages)
    written = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.is_relative_to(ROOT / "docs")}
    assert {page for page in written if not page.startswith("decisions/")} <= pages


def test_files_outside_docs_are_on_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text()
    for source, page in site_pages().PAGES.items():
        assert (ROOT / source).is_file()
        assert f": {page}\n" in nav, f"{page} is not in the navigation"


def test_the_page_about_releases_names_the_pythons_and_extras_that_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "release.md").read_text()
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f"**Python**: {', '.join(declared)}" in page
    rows = "\n".join(line.split("|")[1] for line in page.partition("## Extras")[2].splitlines() if line.startswith("|"))
    missing = [extra for extra in project["optional-dependencies"] if extra != "dev" and f"`{extra}`" not in rows]
    assert not missing
