"""Would the tests notice? Hand-made mutations of `game/` and `algorithm.py`, each of which must make the test-suite fail.

A mutation replaces one piece of source text in a copy of the package; the tests of the game and of the paper then run on the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from _lib import ROOT, arguments, verdict

SUITE = ["tests/game", "tests/paper"]
EXTRA_SOURCES = ("src/agon/algorithm.py", "src/agon/game", "tests/game", "tests/paper")


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str


MUTATIONS = [
    Mutation("roles swapped", "game/roles.py", "(Policy.A, Policy.B) if step", "(Policy.B, Policy.A) if step"),
    Mutation("parity off by one", "game/roles.py", "step % 2 == 0", "step % 2 == 1"),
    Mutation("roles never rotate", "game/roles.py", "if step % 2 == 0", "if step >= 0"),
    Mutation("fixed roles reversed", "game/roles.py", "return Policy.A, Policy.B", "return Policy.B, Policy.A"),
    Mutation("a policy challenges itself", "game/roles.py", "else (Policy.B, Policy.A)", "else (Policy.B, Policy.B)"),
    Mutation("self-refine played by two", "game/roles.py", "return Policy.A, Policy.A", "return Policy.A, Policy.B"),
    Mutation("pairing off by one", "game/opponents.py", "    return i\n", "    return (i + 1) % n\n"),
    Mutation("pairing reversed", "game/opponents.py", "    return i\n", "    return n - 1 - i\n"),
    Mutation("shared opponent not shared", "game/opponents.py", "    return 0\n", "    return i\n"),
    Mutation("mispaired is paired", "game/opponents.py", "return (i + 1) % n", "return i"),
    Mutation("mispaired runs over the end", "game/opponents.py", "return (i + 1) % n", "return min(i + 1, n - 1)"),
    Mutation("bonus inverted", "game/reward.py", "mine.correct and not rival.correct", "not mine.correct and rival.correct"),
    Mutation("bonus on agreement", "game/reward.py", "mine.correct and not rival.correct", "mine.correct and rival.correct"),
    Mutation("bonus ignores the rival", "game/reward.py", "mine.correct and not rival.correct", "mine.correct"),
    Mutation("bonus paid for nothing", "game/reward.py", "mine.correct and not rival.correct", "not rival.correct"),
    Mutation("correctness worth 1", "game/reward.py", "return 2.0 * mine.correct", "return 1.0 * mine.correct"),
    Mutation("lambda lost in solo", "game/reward.py", "Reward(correctness(mine), format_weight * mine.well_formed)",
             "Reward(correctness(mine), mine.well_formed)"),
    Mutation("format lost in adv", "game/reward.py", "format_weight * mine.well_formed, conversion", "0.0, conversion"),
    Mutation("format pays the rival's form", "game/reward.py", "format_weight * mine.well_formed, conversion",
             "format_weight * rival.well_formed, conversion"),
    Mutation("margin inverted", "game/reward.py", "float(mine.correct) - float(rival.correct)",
             "float(rival.correct) - float(mine.correct)"),
    Mutation("tiebreak pays the longer", "game/reward.py", "my_tokens < rival_tokens", "my_tokens > rival_tokens"),
    Mutation("tiebreak pays a tie", "game/reward.py", "my_tokens < rival_tokens", "my_tokens <= rival_tokens"),
    Mutation("tiebreak pays a wrong rival", "game/reward.py", "mine.correct and rival.correct and my_tokens",
             "mine.correct and my_tokens"),
    Mutation("coop stack is adv", "game/reward.py", '{"coop": coop', '{"coop": adv'),
    Mutation("adv stack is coop", "game/reward.py", '"adv": adv', '"adv": coop'),
    Mutation("population deviation", "game/advantage.py", "(len(known) - 1)", "len(known)"),
    Mutation("not divided by the deviation", "game/advantage.py", "(reward - mean) / (std + epsilon)", "(reward - mean)"),
    Mutation("advantage inverted", "game/advantage.py", "(reward - mean) / (std", "(mean - reward) / (std"),
    Mutation("dead group kept", "game/advantage.py", "if is_dead(known):", "if not known:"),
    Mutation("unknown reward counted as zero", "game/advantage.py", "known = [reward for reward in rewards if reward is not None]",
             "known = [reward or 0.0 for reward in rewards]"),
    Mutation("format alone thought dead", "game/advantage.py", "min(known) == max(known)", "max(known) - min(known) < 1"),
    Mutation("prefill not counted", "game/budget.py", "completion.generated_tokens, completion.prompt_tokens",
             "completion.generated_tokens, 0"),
    Mutation("generated and prefilled swapped", "game/budget.py", "completion.generated_tokens, completion.prompt_tokens",
             "completion.prompt_tokens, completion.generated_tokens"),
    Mutation("challenges not charged", "game/budget.py", '(("draft", bout.draft), ("challenge", bout.challenge))',
             '(("draft", bout.draft),)'),
    Mutation("hidden drafts shown", "game/rules.py", "if self.show_draft else None", "if True else None"),
    Mutation("drafts never shown", "game/rules.py", "if self.show_draft else None", "if False else None"),
    Mutation("grpo gets N rollouts", "game/rules.py", "else 2 * self.group_size", "else self.group_size"),
    Mutation("self-refine reads its own draft as a rival's", "game/rules.py", 'if self.opponent == "self"', 'if self.opponent == "none"'),
    Mutation("rival without a verdict counts as wrong", "game/rules.py", "if not (mine.graded and theirs.graded):",
             "if not mine.graded:"),
    Mutation("infrastructure failure counts as wrong", "game/rules.py",
             "reward.solo(draft.verdict, self.format_weight) if draft.verdict.graded else None",
             "reward.solo(draft.verdict, self.format_weight)"),
    Mutation("tiebreak weight lost", "game/rules.py", "self.tiebreak_weight * reward", "0.0 * reward"),
    Mutation("peek uncapped", "game/rules.py", "clip(text, self.max_peek_tokens)", "text"),
    Mutation("challenger draws from the drafter", "algorithm.py", 'draw("challenge", challenger,', 'draw("challenge", drafter,'),
    Mutation("drafter draws from the challenger", "algorithm.py", 'draw("draft", drafter,', 'draw("draft", challenger,'),
    Mutation("all rollouts share a seed", "algorithm.py", "policy, x.id, i)", "policy, x.id)"),
    Mutation("seeds repeat every step", "algorithm.py", "seed_for(game.seed, step, stage", "seed_for(game.seed, stage"),
    Mutation("stages share seeds", "algorithm.py", "step, stage, policy, x.id", "step, x.id"),
    Mutation("paid against its own index", "algorithm.py", "drafts[bout.rival])", "drafts[bout.draft.index])"),
    Mutation("streams trained by the wrong policy", "algorithm.py", 'Stream("competitive", challenger', 'Stream("competitive", drafter'),
    Mutation("verdict before challenge", "algorithm.py", "verdict, (b, seen) = await asyncio.gather(verify(x, a), challenge(x, i, a))",
             "verdict = await verify(x, a); b, seen = await challenge(x, i, a)"),
    Mutation("challenger's advantages from the drafts", "algorithm.py", "with_advantages(drafts), with_advantages(challenges)",
             "with_advantages(drafts), [replace(c, advantage=d.advantage) for c, d in zip(challenges, with_advantages(drafts))]"),
    Mutation("trace shown to the rival", "game/peek.py", "parse(completion).summary", "parse(completion).trace"),
    Mutation("answer block shown", "game/peek.py", "text = _replace(text, answer_spans(text, _ANSWER)[0])", "pass"),
    Mutation("box shown", "game/peek.py", "text = _replace(text, ((box.start, box.end) for box in boxes(text)))", "pass"),
    Mutation("structure not escaped", "game/peek.py", "return _STRUCTURE.sub(lambda match: _ESCAPES[match.group()], text)",
             "return text"),
    Mutation("answer read inside the trace", "game/parse.py", "completion.text.rpartition(THINK_CLOSE)",
             "completion.text.partition(THINK_CLOSE)"),
    Mutation("tags quoted in the trace count", "game/parse.py", "_ANSWER.finditer(rest)", "_ANSWER.finditer(completion.text)"),
    Mutation("truncated counts as well formed", "game/parse.py", 'completion.finish != "stop" or', "False or"),
    Mutation("a conversion counts as kept", "game/exchange.py", '(False, True): "converted"', '(False, True): "kept"'),
    Mutation("conversions and regressions swapped", "game/exchange.py", "_OUTCOMES[draft_correct, challenge_correct]",
             "_OUTCOMES[challenge_correct, draft_correct]"),
    Mutation("a lost verdict is an outcome", "game/exchange.py",
             "not (bout.draft.verdict.graded and bout.challenge.verdict.graded)", "not bout.challenge.verdict.graded"),
    Mutation("a challenge without a verdict is an outcome", "game/exchange.py",
             "not (bout.draft.verdict.graded and bout.challenge.verdict.graded)", "not bout.draft.verdict.graded"),
    Mutation("hidden drafts counted as shown", "game/exchange.py", "if bout.peek is not None]", "if True]"),
    Mutation("empty peeks counted as full", "game/exchange.py", "sum(not bout.peek for", "sum(bool(bout.peek) for"),
    Mutation("leaks of the other agent not counted", "game/exchange.py", "(bout.peek, bout.other_peek) if text",
             "(bout.peek,) if text"),
    Mutation("wrong drafts counted without the lost", "game/exchange.py",
             'outcomes.count("converted") + outcomes.count("lost")', 'outcomes.count("converted")'),
    Mutation("right drafts counted without the kept", "game/exchange.py",
             'outcomes.count("kept") + outcomes.count("regressed")', 'outcomes.count("regressed")'),
    Mutation("counts of two processes subtracted", "game/exchange.py", "getattr(self, f.name) + getattr", "getattr(self, f.name) - getattr"),
    Mutation("challenge drawn from the drafter", "game/cascade.py", 'Turn(f"challenge {drafter.policy}", challenger,',
             'Turn(f"challenge {drafter.policy}", drafter,'),
    Mutation("challenges of both directions share seeds", "game/cascade.py", 'f"challenge {drafter.policy}"', '"challenge"'),
    Mutation("deployed peek uncapped", "game/cascade.py", "seen = peek(draft, clip)", "seen = peek(draft, str)"),
    Mutation("deployed peek not reported", "game/cascade.py", "return Peeks(seen)", "return Peeks()"),
    Mutation("an earlier version is not a rival", "game/cascade.py", "if drafter == challenger else",
             "if drafter.policy == challenger.policy else"),
    Mutation("self-refine reads a rival", "game/cascade.py", "if drafter == challenger else", "if False else"),
    Mutation("samples share a draft", "game/cascade.py", "yield _draft(problem, index, drafter)", "yield _draft(problem, 0, drafter)"),
    Mutation("an agent reads itself twice", "game/cascade.py", "_draft(problem, index ^ 1, seat)", "_draft(problem, index, seat)"),
    Mutation("agents paired across samples", "game/cascade.py", "index ^ 1", "index + 1"),
    Mutation("own and other draft swapped", "game/cascade.py", "moa_prompt(problem, own, other)", "moa_prompt(problem, other, own)"),
    Mutation("samples of a mixture overlap", "game/cascade.py", "(2 * sample, 2 * sample + 1)", "(sample, sample + 1)"),
    Mutation("a mixture answers once", "game/cascade.py", "(2 * sample, 2 * sample + 1)", "(2 * sample,)"),
]  # fmt: skip


def caught(mutation: Mutation) -> bool:
    """True when the suite fails on the mutated copy (and the mutation really changed the source)."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "agon")
        shutil.copytree(ROOT / "src" / "agon", package, ignore=shutil.ignore_patterns("__pycache__", "assets"))
        target = package / mutation.file
        source = target.read_text()
        if mutation.old not in source or mutation.old == mutation.new:
            sys.exit(f"mutation {mutation.name!r} no longer applies to {mutation.file}")
        target.write_text(source.replace(mutation.old, mutation.new, 1))
        return suite_fails(folder)


def suite_fails(folder: str) -> bool:
    """Run the tests of the game on the package in `folder`. Only failing tests count: a run that cannot start is an error."""
    environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *SUITE]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(f"the suite could not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.returncode == 1


def main() -> None:
    args = arguments(__doc__)
    chosen = MUTATIONS[::12] if args.quick else MUTATIONS
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "agon", Path(folder, "agon"))
        if suite_fails(folder):
            sys.exit("the suite fails on the unmutated package: mutations cannot be judged")
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = dict(zip((m.name for m in chosen), pool.map(caught, chosen), strict=True))
    for mutation in chosen:
        print(f"{'caught ' if results[mutation.name] else 'MISSED '} {mutation.file:18} {mutation.name}")
    missed = [name for name, hit in results.items() if not hit]
    verdict(
        "every mutation of game/ and algorithm.py is caught by the test-suite",
        value=len(chosen) - len(missed),
        goal=len(chosen),
        holds=not missed and (args.quick or len(chosen) >= 25),
        missed=missed,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
