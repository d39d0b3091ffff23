"""The worker's side of an environment: it scores here, in a process that can be killed. Replies are JSON.

An audit asks it, and so does a trainer that is paid by an environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agon_judge.auditing import open_environment
from agon_judge.auditing.environment import Environment, Row, Target
from agon_judge.errors import JudgeError

_opened: list[tuple[Environment, Sequence[Row]]] = []
_failure: list[dict[str, str]] = []
_settings: dict[str, Any] = {}


def warm_up(setup: str) -> None:
    """Open the environment once, before workers are forked. A failure is told to whoever asks for rows."""
    _settings.update(json.loads(setup))
    try:
        target = Target(**_settings["target"])
        environment = open_environment(target)
        rows = environment.rows(_settings["split"])
        _opened.append((environment, rows if isinstance(rows, Sequence) else list(rows)))
    except JudgeError as error:
        _failure.append({"message": error.message, "fix": error.fix})
    except Exception as error:
        what = f"{_settings['target']['name']} cannot be opened: {type(error).__name__}: {error}"
        _failure.append({"message": what[:500], "fix": "correct what it does when it is loaded"})


def question_hash(question: str) -> str:
    """What names the question of a row to a worker."""
    return hashlib.sha256(question.strip().encode(errors="backslashreplace")).hexdigest()


def call(action: str, index: str, text: str, turn: str, asked: str = "") -> tuple[str, str]:
    """Describe the environment or a row, or score a text; `turn` tells repeated calls apart.

    `asked` is the hash of the question that the caller has: where the row has a different one, nothing is scored.
    """
    if _failure:
        return "refused", json.dumps(_failure[0])
    environment, rows = _opened[0]
    if action == "about":
        full = getattr(environment, "full", None)
        taken = min(len(rows), _settings["target"]["take"])
        about = {"rows": taken, "there": len(rows), "version": environment.version, "full": full}
        return "about", json.dumps(about | {"batch": hasattr(environment, "score_many")})
    if action == "row":
        row = rows[int(index)]
        return "row", json.dumps({"question": row.question[:20_000], "gold": row.gold})
    # a reward that sleeps uses no CPU time, so its wall time is limited too: by the signal of the CPU limit
    watchdog = threading.Timer(_settings["patience"], os.kill, (os.getpid(), signal.SIGPROF))
    watchdog.daemon = True
    watchdog.start()
    began = time.perf_counter()
    try:
        if asked and (int(index) >= len(rows) or question_hash(rows[int(index)].question) != asked):
            return "changed", environment.version
        return "scored", json.dumps(_scored(environment, rows, action, index, text) | {"seconds": _since(began)})
    except Exception as error:
        crash = {"crash": f"{type(error).__name__}: {error}"[:300], "seconds": _since(began)}
        return "scored", json.dumps(crash)
    finally:
        watchdog.cancel()


def _scored(environment: Environment, rows: Sequence[Row], action: str, index: str, text: str) -> dict[str, Any]:
    if action == "batch":
        pairs = json.loads(text)
        some = environment.score_many([rows[i] for i, _ in pairs], [each for _, each in pairs])  # type: ignore[attr-defined]
        return {"rewards": [score.reward for score in some]}
    if action == "threads":
        pairs = json.loads(text)
        size = min(8, len(pairs))  # that many begin together: on a busy machine one might end before the next begins
        with ThreadPoolExecutor(size, initializer=threading.Barrier(size).wait) as pool:
            scores = pool.map(lambda pair: environment.score(rows[pair[0]], pair[1]), pairs)
            return {"rewards": [score.reward for score in scores]}
    if action == "file":
        text = Path(text).read_text("utf-8")
    row = rows[int(index)]
    if action == "thread":
        with ThreadPoolExecutor(1) as pool:
            return asdict(pool.submit(environment.score, row, text).result())
    return asdict(environment.score(row, text))


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 6)
