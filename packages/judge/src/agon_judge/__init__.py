"""Is this answer right? Mathematics and programs, judged with a reason, a deadline and a sandbox."""

__version__ = "0.1.0"
