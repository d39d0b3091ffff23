"""Everything one training run does: the loop, its machines, what it logs, shows and checks."""
