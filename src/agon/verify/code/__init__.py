"""The verifier of programs: extract one from a completion, run it in the sandbox, compare its output."""
