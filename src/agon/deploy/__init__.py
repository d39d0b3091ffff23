"""A trained pair at work: load it, ask it."""
