"""What happened in this run? Reads, diagnoses and shows the log of any GRPO trainer."""

__version__ = "0.1.0"
