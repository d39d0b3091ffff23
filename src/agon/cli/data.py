"""`agon data`: check problems and their golds, show the splits of a run, probe problems with the base."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli import data_probe
from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.config import Data, Source
    from agon.data.check import Forms, GoldCheck
    from agon.data.split import Overlap, ProblemPool
    from agon.types import Problem
    from agon_judge.sandbox.settings import SandboxSettings

CHECK = """Print what a source holds: rows, what was left out, lengths. Then answer every problem with its own reference
answer, and measure the overlap of train with held-out. Exit code 1 when the verifier accepts fewer than 95% of the
reference answers."""
SPLIT = "Print the three splits, their sizes and content hashes; with -o, write them as JSONL."

PARTS = ("train", "dev", "held_out")
SAMPLE = 200
"""Problems drawn of a generated preset when no take is given."""
LISTED = 20
"""Rejected golds shown, and accepted ones with a remark; --json lists all."""
EXAMPLES = 5
"""Overlaps shown, the largest first; --json lists all."""
WIDTH = 160


@dataclass(frozen=True)
class Part:
    """A named list of problems and the pool it comes from."""

    name: str
    problems: tuple[Problem, ...]
    pool: ProblemPool


@dataclass(frozen=True)
class Loaded:
    """What SOURCE names: its parts, the verifier that judges them, and where that runs programs."""

    parts: list[Part]
    verifier: str
    sandbox: SandboxSettings | None = None
    right: float = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check", help="print what a source holds; check its reference answers, lengths and splits", description=CHECK
    )
    _source_arguments(check)
    check.add_argument("--rows", metavar="N", type=int, default=0, help="print the first N problems too")
    check.add_argument(
        "--verifier", metavar="NAME", help="math, math-verify, code, environment or package.module:function"
    )
    help = "try every reference answer in its other forms, not a sample (for math and math-verify)"
    check.add_argument("--all", action="store_true", help=help)
    split = actions.add_parser("split", help="print the three splits and their hashes", description=SPLIT)
    _source_arguments(split)
    for part in ("held-out", "dev", "train"):
        help = f"problems in {part}, when SOURCE is not a config"
        split.add_argument(f"--{part}", metavar="N", type=_positive, help=help)
    split.add_argument(
        "--seed", metavar="N", type=int, default=0, help="split seed, when SOURCE is not a config (default 0)"
    )
    split.add_argument("-o", "--out", metavar="DIR", help="write train.jsonl, dev.jsonl and held_out.jsonl here")
    data_probe.add_arguments(
        actions.add_parser("probe", help="count how often the base solves them", description=data_probe.ABOUT)
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _source_arguments(parser: argparse.ArgumentParser) -> None:
    help = "a preset, a file, an environment, or a config (CONFIG.yaml, CONFIG.yaml:dev)"
    parser.add_argument("source", metavar="SOURCE", help=help)
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        help="config values; for a preset or file: take, path, columns.question, options.family and so on",
    )
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.action != "probe":
        say_waiting(f"reading {args.source}")
    return {"check": _check, "split": _split, "probe": data_probe.run}[args.action](args)


def _check(args: argparse.Namespace) -> int:
    from agon.data.generated import is_generated
    from agon.data.split import overlap

    loaded = _load(args.source, args.overrides)
    checks, forms = _gold_checks(loaded, args.verifier or loaded.verifier, args.all)
    by_name = {part.name: part.problems for part in loaded.parts}
    shared = overlap(by_name["train"], by_name["held_out"]) if {"train", "held_out"} <= by_name.keys() else None
    passed = all(check.passed for check in checks.values())
    if args.json:
        golds = {
            name: asdict(check) | {"share": check.share, "forms": asdict(forms[name]) if name in forms else None}
            for name, check in checks.items()
        }
        facts = {
            part.name: _facts(part) | {"gold": golds[part.name], "first": _first(part, args.rows)}
            for part in loaded.parts
        }
        print_json({"parts": facts, "overlap": asdict(shared) if shared else None, "passed": passed})
    else:
        for part in loaded.parts:
            _print_facts(part.name, _facts(part))
            _print_golds(checks[part.name], args.verifier or loaded.verifier)
            if part.name in forms:
                _print_forms(part, checks[part.name], forms[part.name])
            for row in _first(part, args.rows):
                print(f"  {row['id']}  {_line(row['question'])}\n{'':20}answer: {_line(row['answer'])}")
        if shared:
            _print_overlap(shared, generated=any(is_generated(part.pool.origin) for part in loaded.parts))
    return 0 if passed else 1


def _gold_checks(loaded: Loaded, verifier: str, all_forms: bool) -> tuple[dict[str, GoldCheck], dict[str, Forms]]:
    """By part: the gold check and, for mathematics, what forms of the golds show.

    A verifier is started only when there is a gold to check.
    """
    from agon.data.check import SAMPLE, GoldCheck, accepted_template, check_forms, gold_check, with_gold

    if not any(with_gold(part.problems) for part in loaded.parts):
        return {part.name: GoldCheck(0, 0, ()) for part in loaded.parts}, {}
    from agon.verify import load_verifier

    with closing(load_verifier(verifier, sandbox=loaded.sandbox, right=loaded.right)) as judge:
        checks = {part.name: gold_check(part.problems, judge) for part in loaded.parts}
        for part in loaded.parts:
            if not checks[part.name].passed and (template := accepted_template(part.problems, judge)):
                said = f"{part.name} accepts reference answers written as {template}: set template in its source"
                print(f"note: {said}", file=sys.stderr)
        if verifier not in ("math", "math-verify"):
            return checks, {}
        most = None if all_forms else SAMPLE
        with closing(load_verifier("math" if verifier == "math-verify" else "math-verify")) as other:
            return checks, {
                part.name: check_forms(part.problems, checks[part.name], judge, other, most) for part in loaded.parts
            }


def _split(args: argparse.Namespace) -> int:
    from agon.data import splits

    file, part = _config_file(args.source)
    if part:
        raise InputError(f"cannot split a single split: {args.source}", fix=f"agon data split {file}")
    data = _config_data(file, args.overrides) if file else _requested_data(args)
    made = splits(data)
    parts = [Part(name, problems, made.pools[name]) for name, problems in made.parts.items()]
    if args.out:
        _write(Path(args.out), parts)
    facts = {part.name: _facts(part) for part in parts}
    if args.json:
        print_json({"split_seed": data.split_seed, "parts": facts})
        return 0
    print(f"split seed {data.split_seed}")
    for name, fact in facts.items():
        print(f"  {name:<9} {fact['problems']:>6} problems  sha256 {fact['hash']}  {fact['origin']}")
    return 0


def _load(name: str, overrides: list[str]) -> Loaded:
    """The parts that SOURCE names: one source, or the splits of a config."""
    from agon.config import load_config
    from agon.config.models import ENVIRONMENTS
    from agon.data import read, splits
    from agon.data.sources import taken

    file, wanted = _config_file(name)
    if file:
        config = load_config(file, overrides)
        made = splits(config.data)
        names = [wanted] if wanted else list(PARTS)
        parts = [Part(part, made.parts[part], made.pools[part]) for part in names]
        return Loaded(parts, config.verifier, config.sandbox.settings(), config.reward.right)
    source = _source(name, overrides)
    pool = read(source)
    verifier = "code" if any(problem.is_code for problem in pool.problems) else "math"
    if name.startswith(ENVIRONMENTS):
        verifier = "environment"
    return Loaded([Part(name, tuple(taken(source, pool)), pool)], verifier)


def _config_file(name: str) -> tuple[str | None, str | None]:
    """The config file in SOURCE and the split it names, if any."""
    file, _, part = (name, "", "") if _is_config(name) else name.rpartition(":")
    if part and _is_config(file) and part not in PARTS:
        raise InputError(f"{file} has no split {part}", fix=f"its splits are {', '.join(PARTS)}, as in {file}:dev")
    return (file, part or None) if _is_config(file) else (None, None)


def _is_config(name: str) -> bool:
    return Path(name).suffix in {".yaml", ".yml"}


def _config_data(file: str, overrides: list[str]) -> Data:
    from agon.config import load_config

    return load_config(file, overrides).data


def _requested_data(args: argparse.Namespace) -> Data:
    """Splits of one preset or file, in the requested sizes."""
    from agon.config import Data

    if args.held_out is None or args.dev is None:
        fix = f"agon data split {args.source} --held-out 300 --dev 300"
        raise InputError("--held-out and --dev are required", fix=fix)
    source = _source(args.source, args.overrides)
    sizes = {"held_out": args.held_out, "dev": args.dev, "train": args.train or source.take}
    return Data(**{part: source.model_copy(update={"take": n}) for part, n in sizes.items()}, split_seed=args.seed)


def _source(name: str, overrides: list[str]) -> Source:
    """A preset or a file as a source, with `key=value` overrides on top."""
    from pydantic import ValidationError

    from agon.config import Source
    from agon.config.models import ENVIRONMENTS
    from agon.data.generated import is_generated

    kind = "preset" if _is_preset(name) else "env" if name.startswith(ENVIRONMENTS) else "path"
    if kind == "path" and not Path(name).exists():
        raise _unknown(name)
    fields: dict[str, Any] = {kind: name, "take": SAMPLE if is_generated(name) else None}
    for word in overrides:
        _set(fields, word)
    try:
        return Source.model_validate(fields)
    except ValidationError as error:
        what = "; ".join(map(_mistake, error.errors()))
        raise InputError(f"{name}: {what}", fix=f"keys of a source: {', '.join(Source.model_fields)}") from None


def _mistake(item: Any) -> str:
    """What pydantic found in a source, in the words of a config's mistakes."""
    from agon.config import Source
    from agon.config.keys import did_you_mean

    key = ".".join(map(str, item["loc"]))
    unknown = item["type"] == "extra_forbidden"
    return f"{key}: " + (f"unknown key{did_you_mean(key, Source.model_fields)}" if unknown else item["msg"])


def _unknown(name: str) -> InputError:
    """The error about a source that does not exist, with the files that do and the presets."""
    from agon.config.keys import did_you_mean
    from agon.config.models import PRESETS
    from agon.data.local import READERS

    folder = Path(name).parent
    here = (
        sorted(str(path) for path in folder.glob("[!.]*") if path.suffix in READERS)[:LISTED] if folder.is_dir() else []
    )
    files = f"name one of: {', '.join(here)}; or a preset" if here else "name a file, or a preset"
    fix = f"{files}: {', '.join([*PRESETS, 'reasoning-gym:TASK', 'verifiers:MODULE'])}"
    return InputError(f"{name} is neither a preset nor a file{did_you_mean(name, PRESETS)}", fix=fix)


def _is_preset(name: str) -> bool:
    from agon.data import PRESETS
    from agon.data.generated import is_generated
    from agon.doors import places

    return name in PRESETS or name in places("agon.presets") or is_generated(name)


def _set(fields: dict[str, Any], word: str) -> None:
    """Set `take=5` or `columns.question=problem`."""
    import yaml

    name, equals, text = word.partition("=")
    group, dot, inner = name.partition(".")
    if not equals:
        raise InputError(f"{word} is not key=value", fix="such as take=100 or columns.question=problem")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if dot:
        fields.setdefault(group, {})[inner] = value
    else:
        fields[name] = value


def _facts(part: Part) -> dict[str, Any]:
    from agon.data.check import cases_per_problem, guessable, lengths
    from agon.data.split import content_hash

    pool = part.pool
    return {
        "problems": len(part.problems),
        "hash": content_hash(part.problems),
        "origin": pool.origin,
        "revision": pool.revision,
        "rows": pool.rows,
        "filtered": dict(pool.filtered),
        "duplicates": pool.duplicates,
        "conflicts": pool.conflicts,
        "unusable": dict(pool.unusable),
        "chats": pool.chats,
        "question": lengths(problem.question for problem in part.problems),
        "answer": lengths(problem.answer for problem in part.problems),
        "tests": cases_per_problem(part.problems),
        "guessable": [problem.id for problem in guessable(part.problems)],
        "meta": sorted({name for problem in part.problems for name in problem.meta}),
    }


def _first(part: Part, count: int) -> list[dict[str, str]]:
    chosen = part.problems[: max(count, 0)]
    return [{"id": problem.id, "question": problem.question, "answer": problem.answer} for problem in chosen]


def _print_facts(name: str, fact: dict[str, Any]) -> None:
    counts = {name: fact[name] for name in ("duplicates", "conflicts")}
    left_out = fact["filtered"] | counts | fact["unusable"]
    print(f"{name}: {fact['problems']} problems from {fact['origin']}")
    if fact["revision"]:
        print(f"  revision  {fact['revision']}")
    print(f"  rows      {fact['rows']} read; left out: {', '.join(f'{n} {why}' for why, n in left_out.items())}")
    for text in ("question", "answer"):
        words = fact[text].get("words", {})
        print(f"  {text:<8}  words: median {words.get('median', 0)}, at most {words.get('max', 0)}")
    if fact["tests"]:
        print(f"  tests     {', '.join(f'{label} {value}' for label, value in fact['tests'].items())} per problem")
    if fact["guessable"]:
        print(f"  guessable {len(fact['guessable'])} problems whose tests all expect one output; --json lists them")
    if fact["chats"]:
        print(f"  chat      {fact['chats']} questions are chats, asked after what their system messages say")
    if fact["meta"]:
        print(f"  meta      {', '.join(fact['meta'])}")


def _print_golds(check: GoldCheck, verifier: str) -> None:
    if check.share is None:
        print("  answers   none to check: these problems are judged by tests, or by an environment that gives none")
        return
    remarks = f", {len(check.remarks)} with a remark" if check.remarks else ""
    print(f"  answers   {check.accepted} of {check.of} accepted by their own verifier ({check.share:.2%}){remarks}")
    broken = [row for row in check.rejected if row.reason == "infra"]
    for detail, count in Counter(row.detail for row in broken).most_common(EXAMPLES):
        first = next(row for row in broken if row.detail == detail)
        print(f"            {count} have no verdict: {_line(detail)}; the first is {first.id}  {_line(first.answer)}")
    if broken:
        fix = f"correct {verifier}, then run the same command again" if ":" in verifier else "run agon doctor"
        print(f"            the verifier failed, which says nothing about these answers: {fix}")
    for rows in ([row for row in check.rejected if row.reason != "infra"], check.remarks):
        for row in rows[:LISTED]:
            print(f"            {row.id}  {row.reason}  {_line(row.answer)}  {_line(row.detail)}".rstrip())
        if len(rows) > LISTED:
            print(f"            and {len(rows) - LISTED} more; --json lists all")


def _print_forms(part: Part, check: GoldCheck, forms: Forms) -> None:
    """Golds that no form of themselves satisfies, and what math and math-verify differ on."""
    golds = {problem.id: problem.answer for problem in part.problems}
    if forms.never_paid:
        left = len(check.rejected) - forms.rejected
        sampled = f" ({forms.rejected} of {len(check.rejected)} rejected tried; --all tries all)" if left else ""
        count = len(forms.never_paid)
        print(f"  dead      {count} reference answers that no form of theirs satisfies: no answer can be paid{sampled}")
        for name in forms.never_paid[:LISTED]:
            print(f"            {name}  {_line(golds[name])}")
        if count > LISTED:
            print(f"            and {count - LISTED} more; --json lists all")
    if forms.golds:
        some = f"a sample of {forms.golds} answers; --all compares all" if forms.golds < check.of else "all answers"
        print(f"  differ    math and math-verify on {len(forms.differ)} of {forms.texts} forms of {some}")
        for gold, form, one, other in forms.differ[:EXAMPLES]:
            print(f"            reference answer {_line(gold)}  written {_line(form)}  {one}, {other}")


def _print_overlap(shared: Overlap, *, generated: bool) -> None:
    print(f"overlap: {len(shared.problems)} of {shared.of} held-out problems share a 13-gram of words with train")
    if generated and shared.problems:
        print("  expected: generated problems share the wording of their template; no question is in two splits")
        return
    for row in shared.problems[:EXAMPLES]:
        print(f"  {row.held_out} with {row.train}: {row.share:.0%} of its n-grams, such as: {_line(row.words)}")
    if shared.problems:
        print("  questions made from one template share words and differ: look at the examples (docs/data.md)")


def _line(text: str) -> str:
    """One printable line: a question may hold anything, terminal codes included."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return plain if len(plain) <= WIDTH else f"{plain[: WIDTH - 3]}..."


def _write(folder: Path, parts: list[Part]) -> None:
    from agon.data.local import write_jsonl

    folder.mkdir(parents=True, exist_ok=True)
    targets = [(folder / f"{part.name}.jsonl", part) for part in parts]
    if taken := [str(target) for target, _ in targets if target.exists()]:
        raise InputError(f"{', '.join(taken)} already exists", fix="name a different folder with -o DIR")
    for target, part in targets:
        write_jsonl(target, part.problems)
