"""Publish an exported pair on the Hugging Face Hub: two adapters or models, with a card of what was measured.

Only files that `agon export` writes are sent, and only from a folder that has a card with results or the sentence that
there are none. A new repository is private unless it is asked to be public.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agon.errors import InputError, RunError, install
from agon.types import Policy

CARD = "README.md"
SENT = re.compile(r"README\.md|agon\.json|[ab]/[\w.-]+\.(?:json|safetensors|jinja|txt|model)")
REPOSITORY = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")
SECTIONS = ("## Results", "## Caveats")


@dataclass(frozen=True, slots=True)
class Upload:
    """What would be sent, and where to."""

    folder: Path
    repository: str
    files: tuple[str, ...]
    left: tuple[str, ...]
    """Files of the folder that stay behind."""
    card: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum((self.folder / name).stat().st_size for name in self.files)


class Hub(Protocol):
    """What is asked of the Hub: `huggingface_hub.HfApi` has it."""

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> object: ...

    def upload_folder(
        self, *, repo_id: str, folder_path: Path, allow_patterns: Sequence[str], commit_message: str
    ) -> object: ...


def plan_upload(folder: Path, repository: str) -> Upload:
    """Check a folder that `agon export` wrote; refuse anything else."""
    if not REPOSITORY.fullmatch(repository):
        raise InputError(f"{repository} does not name a repository", fix="write OWNER/NAME, such as me/my-pair")
    if (folder / "config.yaml").is_file():
        fix = f"export it first: agon export {folder} --to peft, then: agon push {folder}/export-peft {repository}"
        raise InputError(f"{folder} is a run, not an exported pair", fix=fix)
    if missing := [name for name in (CARD, *(policy.value for policy in Policy)) if not (folder / name).exists()]:
        fix = "name a folder that `agon export RUN --to peft` wrote"
        raise InputError(f"{folder} is not an exported pair: it has no {', '.join(missing)}", fix=fix)
    found = sorted(folder.rglob("*"))
    if odd := [path for path in found if path.is_symlink() or not (path.is_file() or path.is_dir())]:
        raise InputError(f"{odd[0]} is a link or no plain file", fix="export the pair again, into a new folder")
    card = (folder / CARD).read_text(encoding="utf-8")
    if absent := [title for title in SECTIONS if title not in card]:
        fix = "export the pair again: its card states what was measured, and what was not"
        raise InputError(f"{folder / CARD} has no section {absent[0].removeprefix('## ')}", fix=fix)
    names = [path.relative_to(folder).as_posix() for path in found if path.is_file()]
    sent = tuple(name for name in names if SENT.fullmatch(name))
    return Upload(folder, repository, sent, tuple(name for name in names if name not in sent), card)


def push(upload: Upload, public: bool = False, hub: Hub | None = None) -> str:
    """Send it; the address of the repository. One that exists stays as public or private as it is."""
    import httpx2

    hub = hub or _hub()
    try:
        hub.create_repo(upload.repository, private=not public, exist_ok=True)
        message = "Upload a pair trained with Agon"
        hub.upload_folder(
            repo_id=upload.repository,
            folder_path=upload.folder,
            allow_patterns=list(upload.files),
            commit_message=message,
        )
    except (httpx2.HTTPError, OSError, ValueError) as error:  # what huggingface_hub raises derives from these
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        fix = "log in with a token that may write (hf auth login), check the name and the network, then run this again"
        raise RunError(f"{upload.repository} was not written: {said}", fix=fix) from error
    return f"https://huggingface.co/{upload.repository}"


def _hub() -> Hub:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise InputError("huggingface_hub is not installed", fix=install("push")) from error
    hub: Hub = HfApi()
    return hub
