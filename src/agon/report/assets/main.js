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
  [...byId(kind).children].forEach((chip, k) => {
    chip.hidden = kind === "outcomes" && store.twoStages !== k < 5;
    chip.setAttribute("aria-pressed", String(state[kind].has(chip.value)));
    chip.classList.toggle("none", !counts[k]);
    chip.lastChild.textContent = count(counts[k]);
  });
}

function makeChips(kind, names) {
  byId(kind).replaceChildren(...names.map((name) => h("button", { type: "button", value: name, class: `chip ${name.replace(" ", "-")}`, onclick: () => flip(kind, name) }, name, h("b", {}, ""))));
}

function flip(kind, name) {
  if (!state[kind].delete(name)) state[kind].add(name);
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

// Conversions above the line, regressions below it, one column for each step.
function spark() {
  sparked = state.step;
  const canvas = byId("spark"), ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = 34;
  if (!width) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const [good, bad, line] = ["--good", "--bad", "--line"].map((name) => style.getPropertyValue(name));
  pen.scale(ratio, ratio);
  const column = width / store.steps.length;
  store.perStep.forEach(({ n, converted, regressed }, k) => {
    const x = k * column, w = Math.max(.75, column - (column > 4 ? 1 : 0)), on = state.step === null || state.step === store.steps[k];
    pen.globalAlpha = on ? 1 : .28;
    const up = 24 * converted / n * store.stretch, down = 24 * regressed / n * store.stretch;
    pen.fillStyle = good;
    pen.fillRect(x, 20 - Math.min(20, up), w, Math.min(20, up));
    pen.fillStyle = bad;
    pen.fillRect(x, 21, w, Math.min(13, down));
    pen.fillStyle = line;
    pen.fillRect(x, 20, column, 1);
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

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  if (store) spark();
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

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const typing = event.target.id === "search", arrows = event.key.startsWith("Arrow");
  if (typing && event.key !== "Escape") return;
  if (arrows && (event.target.type === "range" || byId("bout").contains(event.target))) return;
  const act = KEYS[event.key];
  if (act && list.current !== null) { event.preventDefault(); act(); }
}

function listen() {
  byId("search").addEventListener("input", (event) => { state.search = event.target.value; apply(); });
  byId("step").addEventListener("input", (event) => toStep(+event.target.value));
  byId("spark").addEventListener("click", (event) => toStep(1 + Math.floor(event.offsetX / event.target.clientWidth * store.steps.length)));
  byId("clear").addEventListener("click", clear);
  byId("math").addEventListener("click", () => setMath(!view.math));
  byId("keys").addEventListener("click", () => byId("help").showModal());
  document.addEventListener("keydown", onKey);
  addEventListener("resize", spark);
}

async function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: one from 2023 or later is needed");
  store = await Store.open();
  byId("name").replaceChildren(...visible(store.name));
  byId("facts").replaceChildren(...visible(store.facts.join(" · ")));
  list = new List(store, choose);
  view = new BoutView(store, choose);
  makeChips("outcomes", OUTCOMES);
  makeChips("marks", MARKS);
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
