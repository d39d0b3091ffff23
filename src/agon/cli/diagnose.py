"""`agon diagnose` is `agon-lens diagnose`."""

from agon_lens.cli.diagnose import add_arguments, run

__all__ = ["add_arguments", "run"]
