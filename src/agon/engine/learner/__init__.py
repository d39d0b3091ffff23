"""The learner: plain torch over PEFT. `loss.py` has the formulas, `learner.py` the step."""
