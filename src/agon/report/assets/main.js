// The page: filters, step slider, keys, theme, and the bout in the address.

const state = { search: "", outcomes: new Set(), marks: new Set(), drafter: "", step: null };
let store, list, view, sparked;

function apply() {
  const began = performance.now();
  const { rows, byOutcome, byMark } = store.filter(state);
  chips("outcomes", byOutcome);
  chips("marks", byMark);
  tally(rows);
  byId("count").textContent = rows.length === store.size ? `${count(rows.length)} bouts` : `${count(rows.length)} of ${count(store.size)} bouts`;
  for (const button of byId("drafter").children) button.setAttribute("aria-pressed", String(button.value === state.drafter));
  byId("step").value = state.step === null ? 0 : store.steps.indexOf(state.step) + 1;
  byId("step-name").textContent = state.step === null ? `all ${count(store.steps.length)}` : `${count(state.step)} of ${count(store.steps.at(-1))}`;
  if (state.step !== sparked) spark();
  const kept = rows.includes(list.current);
  list.show(rows, kept || !rows.length ? list.current : rows[0]);
  if (rows.length && !kept) choose(rows[0], false);
  document.documentElement.dataset.filterMs = (performance.now() - began).toFixed(1);
}

function choose(i, open = true) {
  byId("main").dataset.bout = i;
  if (list.current !== i) list.select(i);
  view.show(i);
  if (open) byId("main").classList.add("open");
  try { history.replaceState(null, "", `#${i}`); } catch { /* some browsers refuse this for a file */ }
}

function chips(kind, counts) {
  showChips(kind, counts, state[kind]);
  [...byId(kind).children].forEach((chip, k) => { chip.hidden = kind === "outcomes" && store.twoStages !== k < 5; });
}

function flip(kind, name) {
  flipIn(state[kind], name);
  apply();
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

function toStep(place) {
  state.step = place > 0 ? store.steps[Math.min(place, store.steps.length) - 1] : null;
  apply();
}

function tally(rows) {
  const t = store.tally(rows);
  const item = (name, value, note, kind) => h("div", { class: kind || "" }, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null));
  const cells = [item("drafts right", percent(t.draftsRight, t.drafts), count(t.drafts), "wide")];
  if (t.challenges) {
    cells.push(item("challenges right", percent(t.challengesRight, t.challenges), count(t.challenges), "wide"),
      item("converted", percent(t.converted, t.wrong), `of ${count(t.wrong)} wrong`, "good"),
      item("regressed", percent(t.regressed, t.right), `of ${count(t.right)} right`, "bad"),
      item("leaks", percent(t.leaks, t.shown), "", "wide"), item("empty peeks", percent(t.empty, t.shown)));
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

function setMath(on) {
  view.math = on;
  byId("math").setAttribute("aria-pressed", String(on));
  if (list.current !== null) view.show(list.current, true);
}

function inGroup(by) {
  const members = store.group(list.current), place = members.indexOf(list.current) + by;
  if (members[place] !== undefined) choose(members[place]);
}

const KEYS = {
  j: () => list.step(1), k: () => list.step(-1), ArrowDown: () => list.step(1), ArrowUp: () => list.step(-1),
  n: () => inGroup(1), p: () => inGroup(-1), "[": () => toStep(Math.max(0, +byId("step").value - 1)), "]": () => toStep(+byId("step").value + 1),
  0: () => toStep(0), c: () => only("converted"), r: () => only("regressed"), x: clear, t: () => view.toggle("trace"), s: () => view.toggle("prompt"),
  m: () => setMath(!view.math), d: () => byId("theme").click(), "/": () => byId("search").focus(), "?": () => byId("help").showModal(),
  Escape: () => { byId("main").classList.remove("open"); byId("list").focus(); },
};

function listen() {
  byId("search").addEventListener("input", (event) => { state.search = event.target.value; apply(); });
  byId("step").addEventListener("input", (event) => toStep(+event.target.value));
  byId("spark").addEventListener("click", (event) => toStep(1 + Math.floor(event.offsetX / event.target.clientWidth * store.steps.length)));
  byId("clear").addEventListener("click", clear);
  byId("math").addEventListener("click", () => setMath(!view.math));
  byId("keys").addEventListener("click", () => byId("help").showModal());
  listenToKeys(KEYS, () => list.current !== null);
  addEventListener("resize", spark);
}

async function start() {
  listenToTheme(() => { if (store) spark(); });
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: one from 2023 or later is needed");
  store = await Store.open();
  byId("name").replaceChildren(...visible(store.name));
  byId("facts").replaceChildren(...visible(store.facts.join(" · ")));
  list = new List(store, choose);
  view = new BoutView(store, choose);
  makeChips("outcomes", OUTCOMES, (name) => flip("outcomes", name));
  makeChips("marks", MARKS, (name) => flip("marks", name));
  byId("drafter").replaceChildren(...[["", "Any"], ["a", "A drafts"], ["b", "B drafts"]].map(([value, name]) => h("button", { type: "button", value, onclick: () => { state.drafter = value; apply(); } }, name)));
  byId("step").max = store.steps.length;
  byId("steps").hidden = store.steps.length < 2;
  store.twoStages = store.columns.challenger.some((policy) => policy !== null);
  countSteps();
  listen();
  const asked = /^#\d+$/.test(location.hash) ? Number(location.hash.slice(1)) : store.size;
  apply();
  if (asked < store.size) choose(asked);
  else if (store.best !== null) choose(store.best, false);
  if (!store.size) byId("bout").replaceChildren(h("p", { class: "wait" }, "There are no bouts here."));
  document.documentElement.dataset.readyMs = performance.now().toFixed(1);
}

start().catch((error) => byId("bout").replaceChildren(h("p", { class: "wait" }, `This page could not open its bouts: ${error.message}`)));
