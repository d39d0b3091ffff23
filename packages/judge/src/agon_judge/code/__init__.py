"""Programs: taking one from a text, and judging it by its output in the sandbox."""
