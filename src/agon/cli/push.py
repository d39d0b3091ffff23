"""`agon push`: publish an exported pair and its card on the Hugging Face Hub; `--dry-run` shows what would be sent."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import say_waiting

if TYPE_CHECKING:
    from agon.deploy.push import Upload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what `agon export` wrote")
    parser.add_argument("repository", metavar="OWNER/NAME", help="the repository; it is made if it does not exist")
    parser.add_argument("--public", action="store_true", help="make a new repository public (default: private)")
    parser.add_argument("--dry-run", action="store_true", help="show files and card, and send nothing")


def run(args: argparse.Namespace) -> int:
    """Send the folder and print its address; or show what would be sent."""
    from agon.deploy.push import plan_upload, push
    from agon.formatting import show_hidden

    upload = plan_upload(args.folder, args.repository)
    if args.dry_run:
        print("\n".join(shown(upload, args.public)))
        return 0
    say_waiting(f"sending {len(upload.files)} files to {upload.repository}")
    print(show_hidden(push(upload, args.public)))
    return 0


def shown(upload: Upload, public: bool) -> list[str]:
    """Every file with its size, what stays behind, and the card as others will read it."""
    from agon.formatting import show_hidden, size, table

    rows = [(show_hidden(name), size((upload.folder / name).stat().st_size)) for name in upload.files]
    kind = "public" if public else "private"
    head = f"would send {len(rows)} files, {size(upload.size)}, to {upload.repository} ({kind} if it is new)"
    left = [f"stays here: {', '.join(map(show_hidden, upload.left))}"] if upload.left else []
    card = [show_hidden(line) for line in upload.card.splitlines()]
    return [head, "", table(("file", "size"), rows), *left, "", "card (README.md):", "", *card]
