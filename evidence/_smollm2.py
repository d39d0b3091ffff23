"""Part L of docs/results/competition-plan.md: two-digit sums for SmolLM2-135M, what it is taught first, and the cells.

The taught base and its problems are made once, by `scripts/teach_smollm2`, in a folder outside the repository.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agon.eval.intervals import rate
from agon.game.exchange import echoed
from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.rundir.files import weights_hash
from agon.types import BASE, Bout, Completion, Problem, Prompt, seed_for

TAUGHT = Path(os.environ.get("AGON_SMOLLM2_SUMS", "~/.cache/agon/smollm2-sums")).expanduser()
"""The taught base, and its problems in `problems/`."""
GATE = Path(__file__).resolve().parent.parent / "docs" / "results" / "raw" / "smollm2" / "gate.json"
"""What the taught base does before training."""
SOLVES, COMPETES = (0.25, 0.40), 0.30
"""The gate: pass@1 of the taught base, and how much larger kept must be than converted for arm agon to run."""
SIZES = {"held_out": 200, "dev": 96, "train": 192}
"""Problems of each split; all others are for lessons."""
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""SmolLM2's own without its default system message, which is 21 tokens of every prompt."""


@dataclass(frozen=True)
class Lessons:
    """What the base is taught, and when it has learnt enough; written beside the checkpoint."""

    seed: int = 0
    drafts: int = 12
    """Draft prompts per step."""
    challenges: int = 0
    """Challenge prompts per step."""
    rate: float = 1e-4
    warmup: int = 5
    frozen: int = 10
    """Layers below, which stay as they are, and so do the embeddings."""
    right: float = 1 / 3
    """Share of the shown drafts that are right; the solution to learn is always right."""
    units: float = 0.8
    """Of the wrong drafts, the share whose units are wrong; in the others the tens are."""
    slip: int = 3
    """A wrong value is off by at most so much."""
    enough: float = 0.3
    """Lessons end at the first check with this share of dev problems solved in one pass at temperature 1."""
    first: int = 8
    """The first check is after this step, then one after every step."""
    most: int = 60


@dataclass(frozen=True, slots=True)
class Work:
    """A sum in three written steps: the tens, the units, and both together."""

    first: int
    second: int
    tens: int
    units: int
    total: int

    @property
    def text(self) -> str:
        """The completion in the game's format. The recap has the first two values and not the last, the answer."""
        tens = f"{self.first // 10}+{self.second // 10}={self.tens}"
        units = f"{self.first % 10}+{self.second % 10}={self.units}"
        return f"<think>{tens},{units}</think>{10 * self.tens}+{self.units}<answer>{self.total}</answer>"

    @property
    def peek(self) -> str:
        """What a challenger reads of it."""
        return peek(Completion(self.text, BASE, 0, 0), clip=str)


def solve(problem: Problem) -> Work:
    """The right steps."""
    first, second = map(int, problem.question.split(" + "))
    return Work(first, second, first // 10 + second // 10, first % 10 + second % 10, first + second)


WORK = re.compile(r"<think>\d\+\d=(\d+),\d\+\d=(\d+)</think>")


def steps_of(text: str) -> tuple[int, int] | None:
    """Tens and units that a completion wrote, if it kept to the format."""
    return (int(found[1]), int(found[2])) if (found := WORK.match(text)) else None


def deck(seed: int = 0) -> dict[str, list[Problem]]:
    """Sums of two numbers of two digits that stay below 100, in four parts: three splits, and `lessons`.

    Their tens are at most 8 together, so that no right completion has more than 32 tokens.
    """
    pairs = [(a, b) for a, b in itertools.product(range(10, 90), repeat=2) if a // 10 + b // 10 <= 8]
    random.Random(seed_for("sums", seed)).shuffle(pairs)
    dealt = iter(Problem(f"{a}+{b}", f"{a} + {b}", str(a + b)) for a, b in pairs)
    splits = {name: list(itertools.islice(dealt, size)) for name, size in SIZES.items()}
    return splits | {"lessons": list(dealt)}


def write_problems(folder: Path, problems: dict[str, list[Problem]]) -> None:
    """The splits as files that a config can name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SIZES:
        rows = [json.dumps({"question": problem.question, "answer": problem.answer}) for problem in problems[name]]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


def wrong_draft(problem: Problem, lessons: Lessons, rng: random.Random) -> Work:
    """A draft with one wrong value, and a total that follows from it."""
    work = solve(problem)
    where = "units" if rng.random() < lessons.units else "tens"
    right = getattr(work, where)
    offsets = [offset for offset in range(-lessons.slip, lessons.slip + 1) if offset and right + offset >= 0]
    wrong = right + rng.choice(offsets)
    tens, units = (work.tens, wrong) if where == "units" else (wrong, work.units)
    return replace(work, tens=tens, units=units, total=10 * tens + units)


def teach_prompts(problems: Sequence[Problem], lessons: Lessons) -> Iterator[list[tuple[Prompt, str]]]:
    """Batches of prompts, each with the completion to learn: the right steps, whatever draft is shown."""
    rng = random.Random(seed_for("lessons", lessons.seed))
    while True:
        batch = []
        for problem in rng.sample(problems, lessons.drafts + lessons.challenges):
            prompt = draft_prompt(problem)
            if len(batch) >= lessons.drafts:
                shown = solve(problem) if rng.random() < lessons.right else wrong_draft(problem, lessons, rng)
                prompt = challenge_prompt(problem, shown.peek)
            batch.append((prompt, solve(problem).text))
        yield batch


def teach(
    model: Any, renderer: Any, problems: dict[str, list[Problem]], lessons: Lessons
) -> Iterator[tuple[int, float]]:
    """Teach `model` in place; yields the steps so far and the share of dev problems solved, at every check."""
    import torch

    from agon.engine.tiny.pretrain import completion_loss

    torch.manual_seed(seed_for("teach", lessons.seed))
    below = tuple(f"model.layers.{n}." for n in range(lessons.frozen))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(("model.embed_tokens", "lm_head", *below)))
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=lessons.rate, betas=(0.9, 0.98), weight_decay=0.0)
    end = (min(renderer.stop),)
    for step, batch in enumerate(itertools.islice(teach_prompts(problems["lessons"], lessons), lessons.most), 1):
        optimizer.param_groups[0]["lr"] = lessons.rate * min(1.0, step / lessons.warmup)
        # prompts of one kind have one length, so that little of a pass is padding
        for kind in filter(None, (batch[: lessons.drafts], batch[lessons.drafts :])):
            rows = [(renderer.render(prompt).ids, (*renderer.encode(text), *end)) for prompt, text in kind]
            (completion_loss(model, rows) * len(kind) / len(batch)).backward()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step >= lessons.first:
            solved = solved_alone(model, renderer, problems["dev"])
            yield step, solved
            if solved >= lessons.enough:
                return


def solved_alone(model: Any, renderer: Any, problems: Sequence[Problem]) -> float:
    """The share of problems that one pass at temperature 1 solves."""
    texts = draw(model, renderer, [draft_prompt(problem) for problem in problems])
    return sum(f"<answer>{p.answer}</answer>" in text for p, text in zip(problems, texts, strict=True)) / len(problems)


def draw(model: Any, renderer: Any, prompts: Sequence[Prompt]) -> list[str]:
    """One completion of each prompt at temperature 1, always with the same random numbers."""
    import torch

    rows = [renderer.render(prompt).ids for prompt in prompts]
    width, pad = max(map(len, rows)), min(renderer.stop)
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = model.generate(
            ids, attention_mask=mask, do_sample=True, temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=32,
            eos_token_id=pad, pad_token_id=pad,
        )  # fmt: skip
    return [renderer.text(row) for row in drawn[:, width:].tolist()]


def gate_counts(bouts: dict[str, list[Bout]]) -> dict[str, tuple[int, float, float, float]]:
    """What the base does before training: n, the share, and its interval with problems as units.

    `bouts["own"]`: challenges of its own drafts; `bouts["none"]`: the same prompt without one.
    """
    rates = dict[str, list[tuple[str, bool]]]()
    for bout in bouts["own"]:
        rates.setdefault("alone", []).append((bout.problem.id, bout.draft.verdict.correct))
        rates.setdefault("cascade", []).append((bout.problem.id, bout.final.verdict.correct))
        if bout.draft.verdict.correct:
            rates.setdefault("kept", []).append((bout.problem.id, bout.final.verdict.correct))
        else:
            rates.setdefault("converted", []).append((bout.problem.id, bout.final.verdict.correct))
            rates.setdefault("echoed", []).append((bout.problem.id, echoed(bout)))
    rates["no draft"] = [(bout.problem.id, bout.final.verdict.correct) for bout in bouts["none"]]
    return {name: _share(outcomes) for name, outcomes in rates.items()}


def _share(outcomes: Sequence[tuple[str, bool]]) -> tuple[int, float, float, float]:
    by_problem = defaultdict[str, list[bool]](list)
    for problem, outcome in outcomes:
        by_problem[problem].append(outcome)
    found = rate(list(by_problem.values()))
    assert found is not None
    return len(outcomes), round(found.value, 4), round(found.low, 4), round(found.high, 4)


def is_gullible() -> bool:
    """Whether the gate lets arm agon run: a right draft helps the reader by more than 30 points over a wrong one."""
    if not GATE.exists():
        return False
    gate = json.loads(GATE.read_text())["gate"]
    return bool(gate["kept"][1] - gate["converted"][1] > COMPETES)


def check_taught() -> None:
    """Refuse to run a cell on any base but the one that the plan describes."""
    if not (TAUGHT / "config.json").exists():
        sys.exit(f"there is no taught base in {TAUGHT}: run scripts/teach_smollm2 first")
    if not GATE.exists():
        sys.exit(f"there is no {GATE}: run scripts/teach_smollm2 --gate first")
    gate, here = json.loads(GATE.read_text()), weights_hash(TAUGHT)
    if here != gate["hash"]:
        sys.exit(
            f"{TAUGHT} has the hash {here}, and the plan was made with {gate['hash']}: a different CPU may round "
            "differently; copy the folder from the machine that measured the gate"
        )
    if not SOLVES[0] <= (alone := gate["gate"]["alone"][1]) <= SOLVES[1]:
        sys.exit(
            f"the taught base solves {alone:.0%} in one pass, and the plan asks for {SOLVES[0]:.0%} to {SOLVES[1]:.0%}"
        )
