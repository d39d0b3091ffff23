"""Duels over turns and tools train: real verifiers plays them on a real vLLM, and the learner learns from its traces.

The tiny base plays a taskset of verifiers with a tool (`_duel_taskset.py`): it notes a first answer, reads what the
tool says, and answers; even numbers are paid. Every step is `agon.duel.step`: publish, play, read, learn. Checked:

- all steps complete, no duel fails, rows have several turns, and both adapters move;
- what the learner does not count is what the tool said and the template around it, letter by letter;
- log-probs of the sampler and of the learner agree, so that ids, masks, order and adapters belong together;
- the bonus that the environment paid is the game's;
- loss and gradient equal those of a loss that is written out here, from the traces, turn by turn.

`--quick`: two steps.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from transformers import AutoTokenizer

from _lib import ROOT, arguments, verdict
from _server import vllm_server
from _verifiers import bare_environment, python_with_verifiers
from agon import duel
from agon.config import Model, Train
from agon.data.tabletop import problems as tabletop
from agon.engine.tiny.checkpoint import tiny_base
from agon.engine.trl.learner import TRLLearner
from agon.game.prompts import draft_prompt
from agon.game.rules import Game
from agon.protocols import Update
from agon.types import Policy, Sampling, Stream

EXTRA_SOURCES = ("evidence/_duel_taskset.py", "evidence/_verifiers.py", "src/agon_duel")
STEPS, QUICK, GROUP = 10, 2, 4
CONTEXT, RANK, ANSWER, AT_ONCE = 1024, 8, 160, 2
"""Tokens of a conversation, rank of the adapters, tokens of a turn, duels at the same time."""
DIFFICULTY, PROBLEMS = 3, 32
SERVER = ("--enable-scale-out", "--return-tokens-as-token-ids", "--middleware", duel.MIDDLEWARE)
CLIP = 3.0
"""TRL's bound of an importance weight."""
BETWEEN = "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
"""What stands between two turns: a tool result in the template of the tiny base."""
GOALS = {"largest log-prob difference": 1e-3, "loss difference": 1e-6, "gradient difference": 1e-5}
"""verifiers rounds the log-probs that it writes to four digits. A gradient is compared with its largest value."""


def write_problems(file: Path) -> Path:
    """Prompts that the tiny base answers with a number."""
    rows = [
        {"prompt": draft_prompt(problem).messages[0].text}
        for problem in tabletop.problems("chain", DIFFICULTY, PROBLEMS, seed=0)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def learner_over(base: Path, steps: int) -> TRLLearner:
    model = {"name": str(base), "dtype": "float32", "lora": {"rank": RANK, "alpha": 2 * RANK}}
    train = {"warmup": 0.0, "schedule": "constant", "learning_rate": 1e-3, "tokens_per_pass": 8192}
    train |= {"gradient_checkpointing": False}
    return TRLLearner(Model.model_validate(model), Train.model_validate(train), total_steps=steps)


Episodes = list[dict[str, Any]]


def by_hand(learner: TRLLearner, episodes: Episodes, seat: str, policy: Policy) -> tuple[float, torch.Tensor]:
    """Loss and gradient of one seat's traces, from the files alone: every turn after all that stands before it."""
    traces = [next(t for t in episode["traces"] if t["agent"]["name"] == seat) for episode in episodes]
    paid = []
    for trace in traces:
        own = sum(r["score"] * r["weight"] for name, r in trace["rewards"].items() if name != "conversion")
        won = trace["rewards"].get("conversion", {"score": 0.0})["score"]
        paid.append(own + (own >= 1) + won)
    keys = [episode["task"]["key"] for episode in episodes]
    groups = {key: [r for r, k in zip(paid, keys, strict=True) if k == key] for key in keys}
    live = [n for n, key in enumerate(keys) if len(set(groups[key])) > 1]
    learner.pair.activate(policy)
    total = torch.zeros(())
    for n in live:
        group = groups[keys[n]]
        advantage = (paid[n] - fmean(group)) / (stdev(group) + 1e-4)
        before: list[int] = []
        terms = []
        for node in traces[n]["nodes"]:
            if node["sampled"]:
                drawn = len(node["logprobs"])
                ids = torch.tensor([before + node["token_ids"]])
                logps = learner.pair.model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[-drawn:, 0]
                ratio = torch.exp(logps.detach() - torch.tensor(node["logprobs"])).clamp(max=CLIP)
                terms.append(-advantage * ratio * torch.exp(logps - logps.detach()))
            before = before + node["token_ids"]
        total = total + torch.cat(terms).mean() / len(live)
    if live:
        total.backward()
    return total.item(), gradient_of(learner.pair.parameters(policy))


def gradient_of(parameters: Iterable[torch.nn.Parameter]) -> torch.Tensor:
    """One vector of an adapter's gradients, which are then cleared."""
    parts = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
    for parameter in parameters:
        parameter.grad = None
    return torch.cat(parts)


class Checked:
    """A learner that compares every step with what is written out by hand, and then takes it."""

    def __init__(self, learner: TRLLearner, tokenizer: Any) -> None:
        self.learner, self.tokenizer = learner, tokenizer
        self.folder = Path()
        self.loss = self.gradient = self.gap = 0.0
        self.rows = self.rows_of_turns = self.wrong_masks = self.wrong_bonus = self.bonuses = self.live = 0
        self.harness: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)

    def update(self, streams: Sequence[Stream]) -> Update:
        text = (self.folder / "duels" / "traces.jsonl").read_text()
        episodes = [json.loads(line) for line in text.splitlines()]
        self.check_loss(streams, episodes)
        self.check_rows(streams, episodes)
        for episode in episodes:
            self.harness += [trace["timing"]["agent"]["harness"]["duration"] for trace in episode["traces"]]
        return self.learner.update(streams)

    def check_loss(self, streams: Sequence[Stream], episodes: Episodes) -> None:
        """Loss and gradient of the learner, before they are clipped, against those by hand."""
        trainer, pair = self.learner.trainer, self.learner.pair
        bound, trainer.args.max_grad_norm = trainer.args.max_grad_norm, float("inf")
        trainer.accumulate(self.learner.step, streams)
        trainer.args.max_grad_norm = bound
        learnt = {policy: gradient_of(pair.parameters(policy)) for policy in Policy}
        values = trainer.step_values()
        for seat, each in zip(("draft", "challenge"), streams, strict=True):
            loss, gradient = by_hand(self.learner, episodes, seat, each.policy)
            size = float(gradient.abs().max())
            self.loss = max(self.loss, abs(loss - values[each.policy].get("loss", 0.0)))
            self.gap = max(self.gap, values[each.policy].get("logp_diff_max", 0.0))
            if size:
                self.live += 1
                self.gradient = max(self.gradient, float((learnt[each.policy] - gradient).abs().max()) / size)

    def check_rows(self, streams: Sequence[Stream], episodes: Episodes) -> None:
        """Masks, letter by letter, and the bonus: one problem per step, so that rows and episodes are in one order."""
        for seat, each in zip(("draft", "challenge"), streams, strict=True):
            for row, episode in zip(each.rollouts(), episodes, strict=True):
                (trace,) = (trace for trace in episode["traces"] if trace["agent"]["name"] == seat)
                last = max(n for n, node in enumerate(trace["nodes"]) if node["sampled"])
                said = [node["message"] for node in trace["nodes"][:last] if node["message"]["role"] == "tool"]
                tokens, reward = row.completion.tokens, row.reward
                hidden = [i for i, drawn in zip(tokens.completion_ids, tokens.sampled, strict=True) if not drawn]
                between = "".join(BETWEEN.format(message["content"]) for message in said)
                self.rows += 1
                self.rows_of_turns += bool(said)
                self.wrong_masks += self.tokenizer.decode(hidden) != between
                self.bonuses += reward.conversion > 0
                self.wrong_bonus += reward.conversion != trace["rewards"].get("conversion", {"score": 0.0})["score"]


def main() -> None:
    args = arguments(__doc__ or "")
    steps = QUICK if args.quick else STEPS
    python = python_with_verifiers()
    sources = [ROOT / "evidence", ROOT / "src", ROOT / "packages" / "judge" / "src"]
    environment = bare_environment(*sources)
    with tempfile.TemporaryDirectory(prefix="agon-duel-") as scratch:
        root = Path(scratch)
        base = tiny_base("tiny")
        problems = write_problems(root / "problems.jsonl")
        game = Game(group_size=GROUP, sampling=Sampling(max_tokens=ANSWER))
        checked = Checked(learner_over(base, steps), AutoTokenizer.from_pretrained(base))
        before = {policy: checked.hash(policy) for policy in Policy}
        rewards, seconds, failed = [], [], 0
        with vllm_server(base, context=CONTEXT, rank=RANK, more=SERVER) as url:
            turns = {"max_turns": 4}
            arena = duel.Arena(
                python=python,
                url=url,
                base=str(base),
                taskset={"id": "_duel_taskset", "path": str(problems)},
                renderer={"name": "custom", "import_path": "_duel_taskset.TinyRenderer"},
                env={"draft": turns, "challenge": turns},
                at_once=AT_ONCE,
                environment={"PYTHONPATH": environment["PYTHONPATH"]},
            )
            for n in range(steps):
                checked.folder, began = root / f"step-{n}", time.monotonic()
                duels, update = duel.step(checked, arena, game, checked.folder)
                seconds.append(time.monotonic() - began)
                failed += len(duels.failures)
                right = [[row.verdict.correct for row in each.rollouts()] for each in duels.played.streams]
                rewards.append([fmean(each) for each in right])
                print(f"step {n}: right {rewards[-1]}, {seconds[-1]:.0f} s, {dict(update.metrics)}", flush=True)
        value = {
            "steps": checked.step,
            "duels failed": failed,
            "rows of several turns": checked.rows_of_turns / checked.rows,
            "wrong masks": checked.wrong_masks,
            "wrong bonuses": checked.wrong_bonus,
            "largest log-prob difference": checked.gap,
            "loss difference": checked.loss,
            "gradient difference": checked.gradient,
        }
        moved = [policy for policy in Policy if checked.hash(policy) != before[policy]]
        exact = {"steps": steps, "duels failed": 0, "wrong masks": 0, "wrong bonuses": 0}
        holds = (
            all(value[name] == wanted for name, wanted in exact.items())
            and all(value[name] <= most for name, most in GOALS.items())
            and value["rows of several turns"] >= 0.5
            and checked.live >= 1
            and (args.quick or (len(moved) == 2 and checked.bonuses))
        )
        verdict(
            "duels with a tool, played by verifiers on vLLM, train both adapters; rows, loss and bonus are the game's",
            value,
            exact | {"rows of several turns": ">= 0.5"} | {name: f"<= {most:g}" for name, most in GOALS.items()},
            holds,
            rows=checked.rows,
            streams_with_signal=checked.live,
            bonuses=checked.bonuses,
            adapters_moved=len(moved),
            harness_seconds_per_rollout=round(median(checked.harness), 2),
            seconds_per_step=round(median(seconds), 1),
            right_first_and_last_step=[rewards[0], rewards[-1]],
        )


if __name__ == "__main__":
    main()
