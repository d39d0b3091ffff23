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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.eval.intervals import rate
from agon.game.exchange import echoed
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.rundir.files import weights_hash
from agon.types import Bout, Problem, Prompt, seed_for

TAUGHT = Path(os.environ.get("AGON_SMOLLM2_SUMS", "~/.cache/agon/smollm2-sums")).expanduser()
"""The taught base, and its problems in `problems/`."""
GATE = Path(__file__).resolve().parent.parent / "docs" / "results" / "raw" / "smollm2" / "gate.json"
"""What the taught base does before training."""
SOLVES, FORMED, COMPETES = (0.25, 0.40), 0.80, 0.30
"""The gate: pass@1 of the taught base, the least share of challenges in the format, and how much larger kept must be
than converted for arm agon to run."""
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
    drafts: int = 6
    """Draft prompts per step."""
    challenges: int = 6
    """Challenge prompts per step."""
    right: float = 1 / 3
    """Share of the shown recaps that are right."""
    rate: float = 1e-4
    warmup: int = 5
    frozen: int = 10
    """Layers below, which stay as they are, and so do the embeddings."""
    enough: float = 0.3
    """Lessons end at the first check with this share of dev problems solved in one pass at temperature 1."""
    first: int = 8
    """The first check is after this step, then one after every step."""
    most: int = 60


def terms_of(problem: Problem) -> tuple[int, int, int]:
    first, second, third = map(int, problem.question.split(" + "))
    return first, second, third


def solution(problem: Problem) -> str:
    """The right completion in two steps. The recap shows the first sum, and not the answer."""
    first, second, third = terms_of(problem)
    half = first + second
    return f"<think>{first}+{second}={half}</think>{half}+{third}<answer>{half + third}</answer>"


FORMAT = re.compile(r"<think>\d+\+\d+=\d+</think>\d+\+\d+<answer>\d+</answer>")


def deck(seed: int = 0) -> dict[str, list[Problem]]:
    """Sums of two numbers of two digits and one of one digit, in four parts: three splits, and `lessons`."""
    terms = list(itertools.product(range(10, 100), range(10, 100), range(1, 10)))
    random.Random(seed_for("sums", seed)).shuffle(terms)
    dealt = iter(Problem(f"{a}+{b}+{c}", f"{a} + {b} + {c}", str(a + b + c)) for a, b, c in terms)
    splits = {name: list(itertools.islice(dealt, size)) for name, size in SIZES.items()}
    return splits | {"lessons": list(dealt)}


def write_problems(folder: Path, problems: dict[str, list[Problem]]) -> None:
    """The splits as files that a config can name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SIZES:
        rows = [json.dumps({"question": problem.question, "answer": problem.answer}) for problem in problems[name]]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


def recap(problem: Problem, off: int = 0) -> str:
    """What a challenger reads of a draft whose first sum is off by so much."""
    first, second, third = terms_of(problem)
    return f"{first + second + off}+{third}"


def shown_recap(problem: Problem, lessons: Lessons, rng: random.Random) -> str:
    """The recap of a draft: right, or with a first sum that is off by a little or by ten."""
    return recap(problem, 0 if rng.random() < lessons.right else rng.choice((-10, -3, -2, -1, 1, 2, 3, 10)))


def lesson_batches(problems: Sequence[Problem], lessons: Lessons) -> Iterator[list[list[tuple[Prompt, str]]]]:
    """Draft prompts and challenge prompts, each with the completion to learn: right, whatever the prompt shows."""
    rng = random.Random(seed_for("lessons", lessons.seed))
    while True:
        drawn = [(problem, solution(problem)) for problem in rng.sample(problems, lessons.drafts + lessons.challenges)]
        read = [(challenge_prompt(p, shown_recap(p, lessons, rng)), text) for p, text in drawn[lessons.drafts :]]
        yield [[(draft_prompt(p), text) for p, text in drawn[: lessons.drafts]], read]


def teach(
    model: Any, renderer: Any, problems: dict[str, list[Problem]], lessons: Lessons
) -> Iterator[tuple[int, float]]:
    """Teach `model` in place; yields the steps so far and the share of dev problems solved, at every check."""
    import torch

    from _lessons import completion_loss

    torch.manual_seed(seed_for("teach", lessons.seed))
    below = tuple(f"model.layers.{n}." for n in range(lessons.frozen))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(("model.embed_tokens", "lm_head", *below)))
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=lessons.rate, betas=(0.9, 0.98), weight_decay=0.0)
    end = (min(renderer.stop),)
    for step, batch in enumerate(itertools.islice(lesson_batches(problems["lessons"], lessons), lessons.most), 1):
        optimizer.param_groups[0]["lr"] = lessons.rate * min(1.0, step / lessons.warmup)
        # prompts of one kind have about one length, so that little of a pass is padding
        for kind in batch:
            rows = [(renderer.render(prompt).ids, (*renderer.encode(text), *end)) for prompt, text in kind]
            (completion_loss(model, rows) / len(batch)).backward()
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


def gate_counts(bouts: Sequence[Bout]) -> dict[str, tuple[int, float, float, float]]:
    """What the base does with its own drafts before training: n, the share, and its interval over problems."""
    rates = defaultdict[str, list[tuple[str, bool]]](list)
    for bout in bouts:
        problem, right = bout.problem.id, bout.final.verdict.correct
        rates["alone"].append((problem, bout.draft.verdict.correct))
        rates["cascade"].append((problem, right))
        rates["formed"].append((problem, FORMAT.fullmatch(bout.final.completion.text) is not None))
        rates["kept" if bout.draft.verdict.correct else "converted"].append((problem, right))
        if not bout.draft.verdict.correct:
            rates["echoed"].append((problem, echoed(bout)))
    return {name: _share(outcomes) for name, outcomes in rates.items()}


def planted_counts(planted: Sequence[tuple[Problem, int, str]]) -> dict[str, tuple[int, float, float, float]]:
    """What the base does with drafts that are right or off by `off`, on the same problems: how far a draft misleads."""
    rates = defaultdict[str, list[tuple[str, bool]]](list)
    for problem, off, text in planted:
        right, follows = (f"<answer>{int(problem.answer) + by}</answer>" in text for by in (0, off))
        rates["planted wrong, right" if off else "planted right, right"].append((problem.id, right))
        if off:
            rates["planted wrong, followed"].append((problem.id, follows))
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
    alone, formed = (gate["gate"][name][1] for name in ("alone", "formed"))
    if not (SOLVES[0] <= alone <= SOLVES[1] and formed >= FORMED):
        sys.exit(
            f"the taught base solves {alone:.0%} in one pass and keeps {formed:.0%} of challenges in the format: the "
            f"plan asks for {SOLVES[0]:.0%} to {SOLVES[1]:.0%} and at least {FORMED:.0%}"
        )
