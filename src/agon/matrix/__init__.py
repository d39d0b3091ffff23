"""The experiment matrix: arms x seeds at one matched budget, as run directories side by side."""
