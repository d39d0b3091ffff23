"""The viewers in a real browser: 5,000 bouts open and filter at once; hostile drafts and logs of others stay text.

The first problem's drafts hold markup, scripts, links, characters that reverse or hide text, terminal escapes, names of
JavaScript's own, formulas that are too wide, and one line of a million letters; every one is opened.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from _chromium import INSTALL, Browser, chromium
from _lib import arguments, cannot_run, median, verdict
from _scripted_run import answer, make_run
from agon.report.rows import open_source
from agon.report.viewer import write_viewer
from agon.types import Request
from agon_lens.cli.watch import findings_page
from agon_lens.log_viewer import view

CLAIM = (
    "5,000 bouts open in under 3 s and filter in under 200 ms; a script in a draft, or in the log of any trainer, "
    "does not run; no request leaves the page"
)
BOUTS = 5000
GOAL = {
    "open_s": 3.0, "slowest_filter_ms": 200.0, "slowest_bout_ms": 1000.0,
    "scripts_run": 0, "elements_made": 0, "hidden_characters": 0, "overflows": 0, "errors": 0, "requests": 0,
}  # fmt: skip
TIMES = ("open_s", "slowest_filter_ms", "slowest_bout_ms")
"""Not judged with `--quick`, which runs beside other work."""
PWN = "window.pwned = (window.pwned || 0) + 1"
HOSTILE = (
    f"</script><script>{PWN}</script><img src=x onerror='{PWN}'><img src='http://agon.invalid/leak.png'>"
    f"<svg onload='{PWN}'></svg><iframe srcdoc='<script>parent.pwned=1</script>'></iframe><!--<script>"
    f"<a href='javascript:{PWN}'>here</a> {{{{script}}}} \u2028 $\\href{{javascript:{PWN}}}{{x}}$"
    f"<style>*{{display:none}}</style><link rel=stylesheet href=http://agon.invalid/a.css> "
    f"$\\text{{<img src=x onerror={PWN}>}}$ $\\constructor + \\toString + {'x+' * 200}1$ "
    "4\u202e21\u202c\u2066\u200b\ufeff\u2029 \x1b[31m\x1b]0;t\x07\x9b1m\x00\x7f \U000e0041"
)
LONG = "x" * 1_000_000
VIEWS = 16
LOG_GROUPS = 4
READY = "!!document.documentElement?.dataset.readyMs && !!document.querySelector('.card')"
FOREIGN = "document.querySelectorAll('#bout :is(img, iframe, svg, a:not([rel]), script, style, link)').length"
HIDDEN = (
    r"[...document.getElementById('bout').textContent].filter((letter) => letter !== '\n' && "
    r"/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069\u200b\ufeff\u{e0000}-\u{e007f}]/u.test(letter)).length"
)
WIDE = "document.getElementById('bout').scrollWidth > document.getElementById('bout').clientWidth"
PHONE, TOO_WIDE = (390, 844), "document.documentElement.scrollWidth > innerWidth"
SHOWN = "document.getElementById('bout').textContent.includes('</script><script>window.pwned')"
SETTLED = (
    "new Promise((done) => { const end = performance.now() + 20000; "
    f"const look = () => {SHOWN} || performance.now() > end ? done() : setTimeout(look, 20); setTimeout(look, 60); }})"
)
TIMED = (
    "(() => {{ const began = performance.now(); {}; document.body.offsetHeight; return performance.now() - began; }})()"
)
SET = "((box) => {{ box.value = '{}'; box.dispatchEvent(new Event('input')); }})(document.getElementById('{}'))"
OPENED = (
    "(async () => { const began = performance.now(); document.getElementById('math').click(); "
    "await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); return performance.now() - began; })()"
)
CLEAR = "document.getElementById('clear').click()"
ACTIONS = {
    "converted": "document.querySelector('[value=converted]').click()",
    "leak": "document.querySelector('[value=leak]').click()",
    "B drafts": "document.querySelectorAll('#drafter button')[2].click()",
    "clear": CLEAR,
    "search": SET.format("problem 6", "search"),
    "clear the search": CLEAR,
    "step": SET.format(60, "step"),
    "all steps": CLEAR,
}


def script(request: Request) -> str:
    """The first problem's completions carry markup everywhere; the others do not."""
    text = answer(request)
    if "Problem 0." not in request.prompt.messages[-1].text:
        return text
    trace, mark, rest = text.removeprefix("<think>").partition("</think>")
    long = "" if "<attempt>" in request.prompt.messages[-1].text else LONG
    return f"<think>{HOSTILE}{long}{trace}{mark}{HOSTILE}{rest.replace('<answer>', '<answer>' + HOSTILE[:40])}"


def filters(browser: Browser, rounds: int) -> dict[str, float]:
    """Milliseconds from a click to the finished layout, the median of some rounds for each action."""
    times: dict[str, list[float]] = {name: [] for name in ACTIONS}
    for _ in range(rounds):
        for name, action in ACTIONS.items():
            times[name].append(browser.js(TIMED.format(action)))
    return {name: round(median(samples), 1) for name, samples in times.items()}


def hostile(browser: Browser) -> dict[str, Any]:
    """Open every bout that carries markup, in every view; count what was executed or became an element."""
    browser.js(f"{CLEAR}; {SET.format(1, 'step')}; document.querySelector('.row').click()")
    browser.press("t")
    browser.press("s")
    counts = dict.fromkeys(("views", "elements_made", "hidden_characters", "overflows", "slowest_bout_ms"), 0)
    for _ in range(VIEWS // 2):
        for _ in range(2):
            counts["slowest_bout_ms"] = max(counts["slowest_bout_ms"], round(browser.js(OPENED), 1))
            browser.js(SETTLED)
            for name, question in (("elements_made", FOREIGN), ("hidden_characters", HIDDEN), ("overflows", WIDE)):
                counts[name] += browser.js(question)
            counts["views"] += browser.js(SHOWN)
        browser.press("n")
    browser.until(f"document.getElementById('bout').textContent.length > {len(LONG)}", 20)
    errors = sum(event.get("method") == "Runtime.exceptionThrown" for event in browser.events)
    return {**counts, "errors": errors, "scripts_run": browser.js("window.pwned || 0")}


def hostile_log(browser: Browser, folder: Path) -> dict[str, int]:
    """A log of another trainer that carries markup everywhere: in prompts, completions, golds and names of terms."""
    texts = {"completion": f"<think>{HOSTILE}</think>{HOSTILE}", "gts": HOSTILE}
    rows = [
        {"step": step, "prompt": f"{HOSTILE} {step}", **texts, f"reward {HOSTILE[:60]}": k, "reward": k}
        for step in range(LOG_GROUPS)
        for k in range(3)
    ]
    log = folder / "<img src=x onerror=alert(1)>.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = view(log, folder / "log.html")
    browser.open(page, READY)
    counts = dict.fromkeys(("views", "elements_made", "hidden_characters", "overflows"), 0)
    browser.press("t")
    for _ in range(LOG_GROUPS):
        for key in ("m", "o"):
            browser.press(key)
            browser.js(SETTLED)
            for name, question in (("elements_made", FOREIGN), ("hidden_characters", HIDDEN), ("overflows", WIDE)):
                counts[name] += browser.js(question)
            counts["views"] += browser.js(SHOWN)
        browser.press("j")
    (folder / "watch.html").write_text(findings_page(log), encoding="utf-8", errors="replace")
    browser.size(*PHONE)
    for made, ready in ((page, READY), (folder / "watch.html", "!!document.querySelector('footer')")):
        browser.open(made, ready)
        counts["overflows"] += browser.js(TOO_WIDE)
    browser.size(1400, 900)
    errors = sum(event.get("method") == "Runtime.exceptionThrown" for event in browser.events)
    foreign = [url for url in browser.requests() if "agon.invalid" in url]
    print(f"hostile log: {counts}, exceptions {errors}")
    return {**counts, "scripts_run": browser.js("window.pwned || 0"), "errors": errors, "requests": len(foreign)}


def control(browser: Browser, folder: Path) -> tuple[bool, bool]:
    """The same text in a page that escapes nothing: does this test see a script run, and a request?"""
    page = folder / "unescaped.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><p>{HOSTILE}", encoding="utf-8", errors="replace")
    browser.open(page, "document.readyState === 'complete'")
    return bool(browser.js("window.pwned")), any("agon.invalid" in url for url in browser.requests())


def measure(page: Path, folder: Path, quick: bool) -> tuple[dict[str, float], bool]:
    """Measure a page in a browser, and whether an unescaped page is caught."""
    opened = []
    for _ in range(1 if quick else 5):
        with Browser() as browser:
            browser.size(1400, 900)
            opened.append(browser.open(page, READY))
    with Browser() as browser:
        browser.size(1400, 900)
        browser.open(page, READY)
        filtered = filters(browser, 3 if quick else 9)
        counts = hostile(browser)
        requests = [url for url in browser.requests() if url != page.as_uri()]
        log = hostile_log(browser, folder)
        caught = control(browser, folder)
    print(f"opened in {', '.join(f'{seconds:.2f}' for seconds in opened)} s, a cold browser each time")
    print(f"filters, ms: {filtered}\nhostile drafts: {counts}\nrequests besides the page itself: {requests}")
    print(f"an unescaped page is caught: script {caught[0]}, request {caught[1]}")
    times = {"open_s": round(median(opened), 2), "slowest_filter_ms": max(filtered.values())}
    found = {**counts, "requests": len(requests)}
    found |= {name: value + log[name] for name, value in found.items() if name in log}
    found["errors"] = log["errors"]  # of the same browser, counted after both
    return {**times, **found}, all(caught)


def main() -> None:
    quick = arguments(str(__doc__)).quick
    if chromium() is None:
        cannot_run(INSTALL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder, BOUTS, script)
        began = time.perf_counter()
        page = write_viewer(open_source(run.path), folder / "page.html").path
        print(f"{BOUTS} bouts in {page.stat().st_size / 1e6:.1f} MB, written in {time.perf_counter() - began:.1f} s")
        value, caught = measure(page, folder, quick)
    judged = {name: goal for name, goal in GOAL.items() if not (quick and name in TIMES)}
    holds = (
        caught
        and value["views"] == VIEWS + 2 * LOG_GROUPS
        and all(value[name] <= goal for name, goal in judged.items())
    )
    verdict(CLAIM, value, GOAL, holds, n=BOUTS)


if __name__ == "__main__":
    main()
