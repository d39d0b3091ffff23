"""`agon push`: what would be sent is shown offline; nothing but an exported pair leaves, private unless asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from agon.cli import main
from agon.deploy.push import plan_upload, push
from agon.errors import InputError, RunError
from tests.report.helpers import make_run_with_pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = make_run_with_pair(tmp_path)
    assert main(["export", str(run), "--to", "peft", "-o", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


class FakeHub:
    """Remembers what it is asked, and may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.made, self.sent = error, dict[str, bool](), dict[str, Sequence[str]]()

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        if self.error:
            raise self.error
        assert exist_ok
        self.made[repo_id] = private

    def upload_folder(self, *, repo_id: str, folder_path: Path, allow_patterns: Sequence[str], **rest: object) -> None:
        assert all((folder_path / name).is_file() for name in allow_patterns)
        self.sent[repo_id] = allow_patterns


FILES = [
    "README.md",
    "a/adapter_config.json",
    "a/adapter_model.safetensors",
    "agon.json",
    "b/adapter_config.json",
    "b/adapter_model.safetensors",
]


def test_a_dry_run_shows_files_and_card_and_needs_no_network(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert main(["push", str(folder), "me/pair", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("would send 6 files, ")
    assert "to me/pair (private if it is new)" in told
    assert all(name in told for name in FILES)
    assert "stays here: notes.txt" in told
    assert "| cascade |" in told
    assert "One training run, one seed" in told


def test_small_files_have_a_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "README.md").write_text((folder / "README.md").read_text().ljust(2048))
    capsys.readouterr()
    assert main(["push", str(folder), "me/pair", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^README\.md +2\.[0-9] KiB$", told, re.MULTILINE)
    assert "0.0 MiB" not in told


@pytest.mark.parametrize("public", [False, True])
def test_only_the_pair_is_sent_and_a_new_repository_is_private(folder: Path, public: bool) -> None:
    (folder / "a" / "optimizer.pt").write_text("mine")
    hub = FakeHub()
    assert push(plan_upload(folder, "me/pair"), public, hub) == "https://huggingface.co/me/pair"
    assert hub.made == {"me/pair": not public}
    assert hub.sent == {"me/pair": FILES}


def test_a_refusal_of_the_hub_says_what_to_type(folder: Path) -> None:
    with pytest.raises(RunError, match="me/pair was not written: 401") as failed:
        push(plan_upload(folder, "me/pair"), hub=FakeHub(OSError("401 Client Error\nmore")))
    assert "hf auth login" in failed.value.fix


def test_a_run_is_to_be_exported_first(tmp_path: Path) -> None:
    run = make_run_with_pair(tmp_path)
    with pytest.raises(InputError, match="is a run, not an exported pair") as refused:
        plan_upload(run, "me/pair")
    assert refused.value.fix.startswith(f"export it first: agon export {run} --to peft")


@pytest.mark.parametrize("name", ["pair", "a/b/c", "../x", "x/..", "me/pair x", ""])
def test_a_name_that_is_no_repository_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(InputError, match="does not name a repository"):
        plan_upload(folder, name)


def test_what_is_no_exported_pair_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no README\.md, a, b"):
        plan_upload(tmp_path / "nothing", "me/pair")
    (folder / "README.md").write_text("# my model")
    with pytest.raises(InputError, match="has no section Results"):
        plan_upload(folder, "me/pair")


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("mine")
    (folder / "a" / "secret.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(InputError, match="is a link"):
        plan_upload(folder, "me/pair")
