# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Agon in ten minutes, without a model
#
# This notebook is kept as text; CI runs it as a script. Open it with `jupytext --to ipynb examples/notebook.py`, or as
# it is in an editor that knows `# %%` cells. It needs the light install alone: no torch, no GPU, no download.
#
# 1. One bout: a draft, what the rival sees of it, a challenge, and who is paid what.
# 2. Where the bonus changes what is learnt, and where normalisation removes it.
# 3. The same question for the log of any GRPO run.

# %%
import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agon import Completion, Game, Problem, Reason, Request, ScriptedSampler, Verdict, play


def run(work):
    """The result of a coroutine, in a notebook, where a loop runs already, as in a script."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


# %% [markdown]
# ## 1. One bout
#
# Two policies that are scripts. Some problems are hard for them and others easy; one that reads a rival's summary is
# right a little more often.


# %%
def answer(request: Request) -> str:
    text = request.prompt.messages[-1].text
    n = int(re.search(r"(\d+) x 7", text)[1])
    chance = n % 11 + 2 * ("<attempt>" in text)  # of 10
    value = 7 * n if request.seed % 10 < chance else 7 * n + 1
    return f"<think>private reasoning</think> I add {n} sevens. <answer>{value}</answer>"


async def verify(problem: Problem, completion: Completion) -> Verdict:
    right = f"<answer>{problem.answer}</answer>" in completion.text
    return Verdict(right, well_formed=True, reason=Reason.CORRECT if right else Reason.WRONG)


problem = Problem("p6", "What is 6 x 7?", "42")
game = Game(group_size=8)
bouts = run(play([problem], 0, game, ScriptedSampler(answer), verify)).bouts
bout = next(bout for bout in bouts if bout.challenge.reward.conversion)
print("A wrote    ", bout.draft.completion.text)
print("B saw      ", bout.peek)
print("B wrote    ", bout.challenge.completion.text)
print("A was paid ", bout.draft.reward.total, " B was paid ", bout.challenge.reward.total)

# %% [markdown]
# The reasoning is dropped and the answer withheld. A challenge that is right where the draft was wrong earns 3 instead
# of 2; half a point is for the format.

# %%
print("draft   challenge   paid  advantage")
for bout in bouts:
    verdicts = f"{bout.draft.verdict.reason:<8}{bout.challenge.verdict.reason:<12}"
    print(f"{verdicts}{bout.challenge.reward.total:>4}  {bout.challenge.advantage:>+9.2f}")

# %% [markdown]
# ## 2. Where the bonus bites
#
# GRPO subtracts a group's mean and divides by its standard deviation. The bonus therefore changes an advantage only
# where the right challenges of one group met right *and* wrong drafts. Elsewhere `agon` learns what `coop` learns.

# %%
sampler = ScriptedSampler(answer)
problems = [Problem(f"p{n}", f"What is {n} x 7?", str(7 * n)) for n in range(44)]
with_bonus = run(play(problems, 0, game, sampler, verify)).bouts
without = run(play(problems, 0, Game(group_size=8, stack="coop"), sampler, verify)).bouts
moved = {
    one.challenge.problem.id
    for one, two in zip(with_bonus, without, strict=True)
    if abs((one.challenge.advantage or 0) - (two.challenge.advantage or 0)) > 1e-9
}
print(f"the bonus changed an advantage in {len(moved)} of {len(problems)} groups")

# %% [markdown]
# ## 3. The log of any GRPO run
#
# `agon diagnose` asks the same of every reward term, in logs of TRL, verl and others. Three of the five terms of this
# log teach nothing.

# %%
from agon_lens import diagnose, read  # noqa: E402
from agon_lens.findings import summary  # noqa: E402

log = Path(__file__).parent / "grpo_log.jsonl" if "__file__" in globals() else Path("grpo_log.jsonl")
for found in map(diagnose, read(log)):
    print("\n".join(summary(found)))

# %% [markdown]
# And `agon view examples/grpo_log.jsonl` shows its groups side by side, in one HTML file. For training, evaluation and
# a demo with real policies on a CPU, continue with docs/quickstart.md.
