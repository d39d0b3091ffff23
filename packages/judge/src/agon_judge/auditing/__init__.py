"""What does a reward pay for? Runs it on answers whose worth is known (docs/audit.md)."""
