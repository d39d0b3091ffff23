// The page of a match: its filters, tally and keys.

const state = { search: "", outcomes: new Set(), marks: new Set(), drafter: "", step: null };

function apply() {
  const began = performance.now();
  const { rows, byOutcome, byMark } = store.filter(state);
  chips("outcomes", byOutcome);
  chips("marks", byMark);
  tally(rows);
  for (const button of byId("drafter").children) button.setAttribute("aria-pressed", String(button.value === state.drafter));
  showRows(rows, "bouts");
  document.documentElement.dataset.filterMs = (performance.now() - began).toFixed(1);
}

function chips(kind, counts) {
  showChips(kind, counts, state[kind]);
  [...byId(kind).children].forEach((chip, k) => { chip.hidden = kind === "outcomes" ? store.twoStages !== k < 5 : !store.seen[k]; });
}

function only(name) {
  const already = state.outcomes.size === 1 && state.outcomes.has(name);
  state.outcomes = new Set(already ? [] : [name]);
  apply();
}

function clear() {
  Object.assign(state, { search: "", outcomes: new Set(), marks: new Set(), drafter: "", step: null });
  byId("search").value = "";
  apply();
}

function tally(rows) {
  const t = store.tally(rows);
  const where = store.rewarded ? "training " : "";
  const cells = [tallyItem(`${where}drafts right`, percent(t.draftsRight, t.drafts), count(t.drafts), "wide")];
  if (t.challenges) {
    cells.push(tallyItem(`${where}challenges right`, percent(t.challengesRight, t.challenges), count(t.challenges), "wide"),
      tallyItem("converted", percent(t.converted, t.wrong), `of ${count(t.wrong)} wrong`, "good"),
      tallyItem("regressed", percent(t.regressed, t.right), `of ${count(t.right)} right`, "bad"),
      tallyItem("leaks", percent(t.leaks, t.shown), "", "wide", "the answer occurs in what the challenger read; a short number may do so by chance"), tallyItem("empty peeks", percent(t.empty, t.shown)));
  }
  byId("tally").replaceChildren(...cells);
}

// Conversions above the line, regressions below it.
function spark() {
  sparked = state.step;
  drawSpark(store.steps, state.step, (k) => {
    const { n, converted, regressed } = store.perStep[k];
    return [24 * converted / n * store.stretch, 24 * regressed / n * store.stretch];
  });
}

function countSteps() {
  const at = new Map(store.steps.map((step, k) => [step, k]));
  store.perStep = store.steps.map(() => ({ n: 0, converted: 0, regressed: 0 }));
  for (let i = 0; i < store.size; i++) {
    const cell = store.perStep[at.get(store.columns.step[i])];
    cell.n++;
    cell.converted += store.has(i, "converted");
    cell.regressed += store.has(i, "regressed");
  }
  const highest = Math.max(...store.perStep.map((cell) => Math.max(cell.converted / 20, cell.regressed / 13) / cell.n), 1e-9);
  store.stretch = Math.min(4, 1 / (24 * highest));
}

function inGroup(by) {
  const members = store.group(list.current), place = members.indexOf(list.current) + by;
  if (members[place] !== undefined) choose(members[place]);
}

const KEYS = {
  n: () => inGroup(1), p: () => inGroup(-1), c: () => only("converted"), r: () => only("regressed"), s: () => view.toggle("prompt"),
};

function build() {
  list = new List(store, choose);
  view = new BoutView(store, choose);
  makeChips("outcomes", OUTCOMES, (name) => flip("outcomes", name));
  makeChips("marks", MARKS, (name) => flip("marks", name));
  byId("drafter").replaceChildren(...[["", "Any"], ["a", "A drafts"], ["b", "B drafts"]].map(([value, name]) => h("button", { type: "button", value, onclick: () => { state.drafter = value; apply(); } }, name)));
  store.seen = MARKS.map((mark, k) => store.columns.marks.some((bits) => bits >> k & 1));
  store.twoStages = store.columns.challenger.some((policy) => policy !== null);
}

start(Store.open, build, "bouts").catch(failed);
