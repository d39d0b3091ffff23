// The page of a log: its filters, tally and keys.

const state = { search: "", kinds: new Set(), marks: new Set(), step: null };

function apply() {
  const { found, byKind, byMark } = store.filter(state);
  showChips("outcomes", byKind, state.kinds);
  showChips("marks", byMark, state.marks);
  [...byId("marks").children].forEach((chip, k) => { chip.hidden = !store.bits.some((bits) => bits[k]); });
  tally(found);
  showRows(found, "groups");
}

function clear() {
  Object.assign(state, { search: "", kinds: new Set(), marks: new Set(), step: null });
  byId("search").value = "";
  apply();
}

function tally(found) {
  const rows = found.flatMap((g) => store.members(g)), { total, correct } = store.rows;
  const graded = rows.filter((i) => total[i] !== null), known = rows.filter((i) => correct[i] !== null);
  const live = found.filter((g) => store.groups.kind[g] === "live").length;
  const alone = found.filter((g) => store.groups.kind[g] === "live" && store.groups.only[g] !== null).length;
  const mean = graded.length ? graded.reduce((sum, i) => sum + total[i], 0) / graded.length : null;
  const right = known.length ? tallyItem("right", percent(known.filter((i) => correct[i]).length, known.length), `of ${count(known.length)}`, "good") : null;
  byId("tally").replaceChildren(...[tallyItem("completions", count(rows.length), "", "wide"), right, tallyItem("mean reward", number(mean)),
    tallyItem("live groups", percent(live, found.length), `of ${count(found.length)}`), alone ? tallyItem("decided by one term alone", percent(alone, found.length)) : null].filter(Boolean));
}

// Live groups above the line, dead ones below it.
function spark() {
  sparked = state.step;
  drawSpark(store.steps, state.step, (k) => [20 * store.perStep[k].live, 13 * store.perStep[k].dead]);
}

function countSteps() {
  const counts = new Map(store.steps.map((step) => [step, { n: 0, live: 0 }]));
  store.groups.step.forEach((step, g) => {
    const cell = counts.get(step);
    if (cell) { cell.n++; cell.live += store.groups.kind[g] === "live"; }
  });
  store.perStep = [...counts.values()].map(({ n, live }) => ({ live: live / n, dead: 1 - live / n }));
}

function setOrder() {
  view.best = !view.best;
  byId("order").setAttribute("aria-pressed", String(view.best));
  showAgain();
}

const KEYS = { o: setOrder };

function build() {
  list = new GroupList(store, choose);
  view = new GroupView(store);
  makeChips("outcomes", store.kinds, (name) => flip("kinds", name));
  makeChips("marks", store.marks, (name) => flip("marks", name));
  byId("order").addEventListener("click", setOrder);
  byId("findings").hidden = !store.findings.length;
  byId("findings").textContent = findingsTitle(store.findings);
  byId("findings").addEventListener("click", () => { view.foundOpen = true; choose(list.current ?? 0); });
}

start(GroupStore.open, build, "groups").catch(failed);
